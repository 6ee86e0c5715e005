"""Arguments and options that several verbs share."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from rmqcore.cli.common.bodies import BodyMode
from rmqcore.cli.common.output import ReportFormat, RowFormat, human_bytes
from rmqcore.cli.names import complete_topic
from rmqcore.cli.values import choice, whole_number
from rmqcore.disk.paths import is_url, shown_url
from rmqcore.offline.export.message_rows import MAX_BODY, MAX_STORED_BODY
from rmqcore.offline.log.conditions import Conditions
from rmqcore.offline.remote.store_url import file_path
from rmqcore.vocabulary.times import parse_time
from rmqcore.vocabulary.units import INT_MAX, INT_MIN, LONG_MAX

queue_id_option = whole_number(INT_MIN, INT_MAX)
"""Parses a queue id, 32 bits signed as on disk."""
count_option = whole_number(1, INT_MAX)
"""Parses the largest number of messages to return."""
offset_option = whole_number(0, LONG_MAX)
"""Parses a queue offset or CommitLog offset."""
body_bytes_option = whole_number(1, LONG_MAX, "a whole number of bytes")
READ_BY_URL = "info, stats, cat, get, query, lookup, fsck and export"
"""Verbs that accept an `AnyStore`."""


class ParquetCompression(StrEnum):
    """Values of ``--compression``."""

    zstd = "zstd"
    snappy = "snappy"
    none = "none"


def time_option(text: str) -> int:
    """Parse a time of the command line into milliseconds since the epoch."""
    try:
        return parse_time(text, now=datetime.now().astimezone())
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error


def local_path(text: str) -> Path:
    """Parse a path of this machine, which a URL is not: a directory ``s3:`` would be made of it."""
    path = file_path(text)
    if is_url(path):
        raise typer.BadParameter(
            f"{shown_url(text)} is a URL, expected a local directory; only {READ_BY_URL} read "
            "stores behind URLs"
        )
    return Path(path)


def local_folder(text: str) -> Path:
    """Parse a path of this machine that is a directory or does not exist yet."""
    path = local_path(text)
    if path.exists() and not path.is_dir():
        raise typer.BadParameter(f"{text!r} is a file")
    return path


def pairs(given: Sequence[str] | None, name: str) -> dict[str, str]:
    """Parse the ``KEY=VALUE`` texts of an option into a dict.

    Raises
    ------
    typer.BadParameter
        A text without ``=`` or without a key.
    """
    found: dict[str, str] = {}
    for text in given or ():
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise typer.BadParameter(f"{text!r} is not NAME=VALUE", param_hint=name)
        found[key] = value
    return found


Store = Annotated[
    Path,
    typer.Argument(
        metavar="STORE",
        help="The store's root: the directory that holds commitlog/.",
        show_default=False,
        parser=local_path,
    ),
]
AnyStore = Annotated[
    str,
    typer.Argument(
        metavar="STORE",
        help="The store's root: the directory that holds commitlog/, or its URL, such as s3://bucket/store.",
        show_default=False,
    ),
]
Storage = Annotated[
    list[str] | None,
    typer.Option(
        "--storage",
        metavar="NAME=VALUE",
        help="An option of the URL's filesystem, such as region=eu-central-1; may be repeated.",
    ),
]
CommitLog = Annotated[
    str | None,
    typer.Option(
        "--commitlog",
        metavar="DIR[,DIR...]",
        help="The CommitLog's directories (storePathCommitLog).",
        show_default="STORE/commitlog",
    ),
]
NewStore = Annotated[
    Path,
    typer.Argument(
        metavar="OUT",
        help="A new or empty directory outside STORE.",
        show_default=False,
        parser=local_folder,
    ),
]
Drop = Annotated[
    int | None,
    typer.Option(
        "--drop",
        metavar="N",
        parser=whole_number(0, LONG_MAX),
        help="With --apply: accept the loss of N queue entries; the error without it names N.",
        show_default=False,
    ),
]
FollowLinks = Annotated[
    bool,
    typer.Option(
        "--follow-links", help="Follow links at commitlog, consumequeue and index of the store."
    ),
]
Topics = Annotated[
    list[str] | None,
    typer.Option(
        "--topic",
        metavar="NAME",
        help="Only this topic; may be repeated.",
        autocompletion=complete_topic,
    ),
]
Topic = Annotated[
    str,
    typer.Option("--topic", metavar="NAME", help="The topic.", autocompletion=complete_topic),
]
Queues = Annotated[
    list[int] | None,
    typer.Option(
        "--queue",
        metavar="ID",
        parser=queue_id_option,
        help="Only this queue id; may be repeated.",
    ),
]
Tags = Annotated[
    list[str] | None,
    typer.Option(
        "--tag", metavar="TAG", help="Only messages whose TAGS is this value; may be repeated."
    ),
]
Keys = Annotated[
    list[str] | None,
    typer.Option(
        "--key",
        metavar="KEY",
        help="Only messages with this word in KEYS or this UNIQ_KEY; may be repeated.",
    ),
]
Since = Annotated[
    int | None,
    typer.Option(
        "--since",
        metavar="TIME",
        parser=time_option,
        help=(
            "Stored at this time or later: 1h (ago), yesterday, 09:30, 2026-11-21T08:00 (local "
            "time), or epoch milliseconds."
        ),
    ),
]
Until = Annotated[
    int | None,
    typer.Option("--until", metavar="TIME", parser=time_option, help="Stored before this time."),
]
FromPhy = Annotated[
    int | None,
    typer.Option(
        "--from-phy", metavar="OFFSET", parser=offset_option, help="From this CommitLog offset."
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
    choice(
        BodyMode,
        "--body",
        help="How to show bodies: UTF-8 text, base64, SHA-256, or none.",
        show_default="text",
    ),
]
Decompress = Annotated[
    bool,
    typer.Option("--decompress", help="Decompress bodies; by default they are shown as stored."),
]
Unwrap = Annotated[
    bool,
    typer.Option(
        "--unwrap",
        help="Show the messages in a stored batch (of a batch queue) in place of the batch.",
    ),
]
MaxBody = Annotated[
    int,
    typer.Option(
        "--max-body",
        metavar="BYTES",
        parser=body_bytes_option,
        help="Show at most N bytes of a body, with --body text or base64.",
        show_default=human_bytes(MAX_BODY),
    ),
]
MaxStoredBody = Annotated[
    int | None,
    typer.Option(
        "--max-body",
        metavar="BYTES",
        parser=body_bytes_option,
        help="Write at most N bytes of a body; not with --body sha256.",
        show_default=f"{human_bytes(MAX_BODY)} as text, {human_bytes(MAX_STORED_BODY)} in Arrow and Parquet",
    ),
]
VerifyCrc = Annotated[
    bool, typer.Option("--verify-crc", help="Skip messages whose body fails its CRC.")
]
Format = Annotated[
    RowFormat | None,
    choice(
        RowFormat, "--format", help="Output format.", show_default="table on a terminal, else jsonl"
    ),
]
ShortFormat = Annotated[
    ReportFormat | None,
    choice(
        ReportFormat,
        "--format",
        help="Output format.",
        show_default="table on a terminal, else jsonl",
    ),
]
Out = Annotated[
    Path | None,
    typer.Option(
        "-o",
        "--out",
        metavar="FILE",
        help="Write to this file; without --format its suffix chooses the format.",
        dir_okay=False,
    ),
]
Compression = Annotated[
    ParquetCompression,
    choice(ParquetCompression, "--compression", help="Compression of Parquet files."),
]
Overwrite = Annotated[
    bool, typer.Option("--overwrite", help="Replace the files of an earlier export.")
]
BrokerConf = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="FILE",
        help="The broker.conf; file sizes are read from the store's files.",
        dir_okay=False,
        readable=False,
    ),
]
ForVersion = Annotated[
    str | None,
    typer.Option(
        "--for-version",
        metavar="V",
        help="Write only what this release of RocketMQ can read, such as 4.9.",
    ),
]
CsvSafe = Annotated[
    bool,
    typer.Option(
        "--csv-safe",
        help="CSV for a spreadsheet: prefix texts that look like formulas with '.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
NoProgress = Annotated[
    bool, typer.Option("--no-progress", help="Do not show a progress bar on stderr.")
]


def conditions(
    topics: Sequence[str] | None,
    queues: Sequence[int] | None,
    tags: Sequence[str] | None,
    keys: Sequence[str] | None,
    since: int | None,
    until: int | None,
    from_phy: int | None = None,
    to_phy: int | None = None,
) -> Conditions:
    """Return the conditions of a verb's options; a missing option accepts every message.

    Raises
    ------
    typer.BadParameter
        A range that ends before it begins.
    """
    if since is not None and until is not None and until < since:
        raise typer.BadParameter("this is before --since", param_hint="--until")
    if from_phy is not None and to_phy is not None and to_phy < from_phy:
        raise typer.BadParameter("this is before --from-phy", param_hint="--to-phy")
    return Conditions.of(
        topics or None, queues or None, tags or None, keys or None, since, until, from_phy, to_phy
    )
