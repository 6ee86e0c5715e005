"""The releases of RocketMQ whose stores are read, appended to and handed back, and the table of docs/compat.md about them."""

from __future__ import annotations

from rmqcore.vocabulary.rocketmq_versions import readable_records

RELEASES = ("4.5.2", "4.9.8", "5.1.4", "5.3.2", "5.5.0", "5.5.1")
VERIFIED = ("4.9.8",)
"""Those that `make verify` takes; the night takes all."""
TITLE = "## Older versions"


def table() -> list[str]:
    """Return the lines of the table: what each release cannot read, which is what `for_version` refuses."""
    lines = [
        "| RocketMQ | its stores in rmqcore | its stores after rmqcore appended | what it cannot read: it cuts its log there |",
        "|---|---|---|---|",
    ]
    for release in RELEASES:
        unread = readable_records(release).describe() or "-"
        handed_back = (
            "the same"
            if readable_records(release).all
            else f"the same with `for_version={release}`"
        )
        lines.append(f"| {release} | the same | {handed_back} | {unread} |")
    return lines
