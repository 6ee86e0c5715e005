"""Arguments and options that several verbs share."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from rmqcore.cli.bodies import BodyMode
from rmqcore.cli.output import ReportFormat, RowFormat
from rmqcore.cli.times import ACCEPTED, parse_time

MAX_OFFSET = 2**63 - 1
MAX_INT32 = 2**31 - 1


def time_option(text: str) -> int:
    """A time on the command line."""
    try:
        return parse_time(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error


def _number(text: str, least: int, most: int) -> int:
    try:
        number = int(text)
    except ValueError as error:
        raise typer.BadParameter(f"{text!r} is no number") from error
    if not least <= number <= most:
        raise typer.BadParameter(f"{number} is not in {least}..{most}")
    return number


def queue_id_option(text: str) -> int:
    """A queue id on the command line, 32 bits signed as on disk."""
    return _number(text, -(2**31), MAX_INT32)


def count_option(text: str) -> int:
    """How many messages at most: at least one."""
    return _number(text, 1, MAX_INT32)


def offset_option(text: str) -> int:
    """An offset on the command line."""
    return _number(text, 0, MAX_OFFSET)


Store = Annotated[
    Path,
    typer.Argument(
        metavar="STORE",
        help="The store's root: the directory that holds commitlog/.",
        show_default=False,
    ),
]
Topics = Annotated[
    list[str] | None,
    typer.Option("--topic", metavar="NAME", help="Only this topic; may be given several times."),
]
Queues = Annotated[
    list[int] | None,
    typer.Option(
        "--queue",
        metavar="ID",
        parser=queue_id_option,
        help="Only this queue id; several times.",
    ),
]
Tags = Annotated[
    list[str] | None,
    typer.Option("--tag", metavar="TAG", help="Only this whole TAGS value; several times."),
]
Keys = Annotated[
    list[str] | None,
    typer.Option(
        "--key", metavar="KEY", help="Only this word of KEYS, or UNIQ_KEY; several times."
    ),
]
Since = Annotated[
    int | None,
    typer.Option(
        "--since",
        metavar="TIME",
        parser=time_option,
        help=f"Stored at this time or later. Times: {ACCEPTED}; local time zone.",
    ),
]
Until = Annotated[
    int | None,
    typer.Option("--until", metavar="TIME", parser=time_option, help="Stored before this time."),
]
FromPhy = Annotated[
    int | None,
    typer.Option(
        "--from-phy", metavar="OFFSET", parser=offset_option, help="From this CommitLog offset on."
    ),
]
ToPhy = Annotated[
    int | None,
    typer.Option(
        "--to-phy", metavar="OFFSET", parser=offset_option, help="Before this CommitLog offset."
    ),
]
Body = Annotated[
    BodyMode | None,
    typer.Option(
        "--body",
        help="Show bodies as UTF-8 text, base64, SHA-256 or not at all.",
        show_default="text",
    ),
]
Decompress = Annotated[
    bool,
    typer.Option(
        "--decompress", help="Show compressed bodies as they were before (else as stored)."
    ),
]
VerifyCrc = Annotated[
    bool, typer.Option("--verify-crc", help="Leave out messages whose body fails its CRC.")
]
Format = Annotated[
    RowFormat | None,
    typer.Option("--format", help="Output format.", show_default="table on a terminal, else jsonl"),
]
ShortFormat = Annotated[
    ReportFormat | None,
    typer.Option("--format", help="Output format.", show_default="table on a terminal, else jsonl"),
]
Out = Annotated[
    Path | None,
    typer.Option(
        "-o",
        "--out",
        metavar="FILE",
        help="Write into this file; its suffix may choose the format.",
        dir_okay=False,
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
NoProgress = Annotated[bool, typer.Option("--no-progress", help="No progress bar on stderr.")]


def conditions(
    topics: Sequence[str] | None,
    queues: Sequence[int] | None,
    tags: Sequence[str] | None,
    keys: Sequence[str] | None,
    since: int | None,
    until: int | None,
    from_phy: int | None = None,
    to_phy: int | None = None,
) -> dict[str, Any]:
    """Filters under the names that `rmqcore.read` knows; what was not asked for is None.

    Raises
    ------
    typer.BadParameter
        A range that ends before it begins.
    """
    if since is not None and until is not None and until < since:
        raise typer.BadParameter("this is before --since", param_hint="--until")
    if from_phy is not None and to_phy is not None and to_phy < from_phy:
        raise typer.BadParameter("this is before --from-phy", param_hint="--to-phy")
    found = {
        "topics": topics or None,
        "queue_ids": queues or None,
        "tags": tags or None,
        "keys": keys or None,
        "since_ms": since,
        "until_ms": until,
    }
    if from_phy is not None or to_phy is not None:
        found |= {"start_phy_offset": from_phy, "end_phy_offset": to_phy}
    return found
