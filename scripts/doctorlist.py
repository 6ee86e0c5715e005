"""Writes the tables of docs/doctor.md: python scripts/doctorlist.py."""

from __future__ import annotations

import re
from pathlib import Path

from rmqcore.maintenance.doctor.kinds import KINDS

PAGE = Path(__file__).parent.parent / "docs" / "doctor.md"
PAINS = (
    ("an acknowledged message is lost", "`fsck` for the whole extent"),
    ("the process dies of SIGBUS on a full disk", ""),
    ("recovery loses or misbuilds queues", "`recover` shows the plan first"),
    ("a consumer saw a message that vanished", ""),
    ("CRC blind spots and false alarms", "`fsck` checks lengths, places and CRCs; nothing is cut without a report"),
    ("a start after kill -9 takes minutes to hours", "the evidence says from where a start reads, how much, and about how long"),
    ("it does not start, and the log gives no reason", ""),
    ("wrong minimum offsets, OFFSET_ILLEGAL", ""),
    ("a power cut ruins JSON files", ""),
    ("queries by key are wrong or empty", ""),
    ("disk full, files not deleted, unread messages deleted", "`retention` has the whole forecast"),
    ("retention per topic", "no sign in a directory; `stats` has bytes by topic, `export` archives one"),
    ("broker busy, timeouts", "no sign in a directory"),
    ("cold reads, read-ahead", "no sign in a directory"),
    ("a slave is ahead, stuck or different", "shows only beside its master: `diff` reads both"),
    ("offline search and replay", "no sign in a directory: `cat`, `query`, `export`"),
    ("moved, copied or backed up", "`backup` makes a copy of a store in use"),
    ("very many topics", ""),
    ("memory of containers", "no sign in a directory"),
    ("native libraries of Python clients", "no sign in a directory"),
)  # fmt: skip


def diagnoses() -> str:
    """All diagnoses as a Markdown table."""
    rows = [
        "| diagnosis | severity | pains | cause | next step | type |",
        "|---|---|---|---|---|---|",
    ]
    for name, kind in KINDS.items():
        pains = ", ".join(map(str, kind.pains))
        command = re.sub(r"\{(\w+)\}", lambda word: word[1].upper(), kind.command)
        rows.append(
            f"| `{name}` | {kind.severity} | {pains} | {kind.cause} | {kind.next_step} | `{command}` |"
        )
    return "\n".join(rows)


def pains() -> str:
    """What users suffer from, with the diagnoses of each, as a Markdown table."""
    rows = ["| | pain | diagnoses | beside them |", "|---|---|---|---|"]
    for number, (pain, beside) in enumerate(PAINS, 1):
        names = ", ".join(f"`{name}`" for name, kind in KINDS.items() if number in kind.pains)
        rows.append(f"| {number} | {pain} | {names} | {beside} |")
    return "\n".join(rows)


def written(page: str) -> str:
    """The page with both tables as they are now."""
    for heading, table in (("## Diagnoses", diagnoses()), ("## What users suffer from", pains())):
        begin, _, rest = page.partition(f"{heading}\n")
        intro, _, rest = rest.partition("\n| ")
        rows = rest.split("\n\n", 1)
        after = f"\n\n{rows[1]}" if len(rows) > 1 else "\n"
        page = f"{begin}{heading}\n{intro}\n{table}{after}"
    return page


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
