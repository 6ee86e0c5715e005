"""``rmqcore query``: messages by key, from the index."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from rmqcore.cli.common import arguments
from rmqcore.cli.common.answers import Answer
from rmqcore.cli.common.errors import note, report_damage, say
from rmqcore.cli.common.message_table import Columns
from rmqcore.cli.common.output import Wide, counted
from rmqcore.cli.stores.given_store import opened_store
from rmqcore.cli.typed.missing_parts import has_no_index
from rmqcore.cli.typed.unknown_topics import UnknownTopics
from rmqcore.cli.values import choice
from rmqcore.errors.exit_codes import DAMAGED, FAILED, OK
from rmqcore.offline.export.message_rows import MAX_BODY
from rmqcore.offline.reader import StoreReader

MOST_NAMED = 5
"""Places that are named on stderr."""


class IndexType(StrEnum):
    """Values of ``--index-type``: what the index holds beside keys."""

    tag = "T"


def query(
    store: arguments.AnyStore,
    topic: arguments.Topic,
    key: Annotated[
        str,
        typer.Option(
            "--key", metavar="KEY", help="A word of KEYS, or the client's message id (UNIQ_KEY)."
        ),
    ],
    since: arguments.Since = None,
    until: arguments.Until = None,
    limit: Annotated[
        int,
        typer.Option(
            "--limit", metavar="N", parser=arguments.count_option, help="At most N messages."
        ),
    ] = 32,
    index_type: Annotated[
        IndexType | None,
        choice(
            IndexType, "--index-type", help="T: --key is a tag (RocketMQ indexes tags since 5.4.0)."
        ),
    ] = None,
    body: arguments.Body = None,
    decompress: arguments.Decompress = False,
    unwrap: arguments.Unwrap = False,
    max_body: arguments.MaxBody = MAX_BODY,
    commitlog: arguments.CommitLog = None,
    follow_links: arguments.FollowLinks = False,
    storage: arguments.Storage = None,
    asked_format: arguments.Format = None,
    out: arguments.Out = None,
    csv_safe: arguments.CsvSafe = False,
    json: arguments.Json = False,
    wide: Wide = False,
    columns: Columns = None,
) -> int:
    """Print the newest messages with a key, found by the index.

    For an unknown topic, or without an index, the exit code is 1. If the index is damaged,
    `rmqcore cat STORE --key KEY` finds the same messages by reading the log. An index entry whose record is not in
    the log is named on stderr; the exit code is then 2, unless the log's old files were deleted since.

    Example:
      rmqcore query /data/store --topic Orders --key ORDER_1 --limit 5
    """
    arguments.conditions(None, None, None, None, since, until)
    answer = Answer(
        asked_format,
        out,
        body,
        decompress=decompress,
        max_body=max_body,
        as_json=json,
        csv_safe=csv_safe,
        unwrap=unwrap,
        wide=wide,
        columns=columns,
    )
    end_ms = None if until is None else max(0, until - 1)  # the index includes its end
    kind = None if index_type is None else index_type.value
    with opened_store(store, storage, commitlog, follow_links=follow_links) as reader:
        unknown = UnknownTopics(reader, [topic], whole_log=False)
        found = reader.query(topic, key, limit, since or 0, end_ms, index_type=kind)
        code = answer.show(found, damage=[one.as_dict() for one in reader.damage])
        report_damage(reader.damage)
        for unasked in found.unasked_files:
            say(
                f"{unasked}; the answer may lack messages",
                "`rmqcore cat` with the same conditions reads the log instead",
            )
        if reader.damage or found.unasked_files:
            return DAMAGED
        if found.missing_phy_offsets:
            code = max(code, _tell_missing(reader, found.missing_phy_offsets))
        if found or found.missing_phy_offsets:
            return code
        if unknown.refuse() or has_no_index(reader, topic, key, is_tag=kind is not None):
            return FAILED
        if not json:
            note(f"the index has no message of {topic} with this {'tag' if kind else 'key'}")
        return code


def _tell_missing(reader: StoreReader, phy_offsets: list[int]) -> int:
    """Name entries whose record is not in the log; return the exit code that they make."""
    files = reader.log_files()
    log_min = files[0].file_from_offset if files else 0
    deleted = [phy_offset for phy_offset in phy_offsets if phy_offset < log_min]
    lost = [phy_offset for phy_offset in phy_offsets if phy_offset >= log_min]
    if deleted:
        note(f"{_entries(deleted)}: deleted with the log's old files; the log starts at {log_min}")
    if lost:
        note(
            f"{_entries(lost)}: no record starts there; `rmqcore fsck {reader.path}` reports the damage"
        )
    return DAMAGED if lost else OK


def _entries(phy_offsets: list[int]) -> str:
    places = ", ".join(map(str, phy_offsets[:MOST_NAMED]))
    more = " ..." if len(phy_offsets) > MOST_NAMED else ""
    return f"the index has {counted(len(phy_offsets), 'entry')} for this key at {places}{more}"
