"""``rmqcore info``: sizes, offsets and times of a store."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, islice
from typing import Any

from rich.console import Console
from rich.table import Table

from rmqcore.cli.common import arguments
from rmqcore.cli.common.errors import note, report_damage
from rmqcore.cli.common.output import (
    ReportFormat,
    Wide,
    counted,
    human_bytes,
    print_json_lists,
    report_format,
    terminal_console,
)
from rmqcore.cli.common.shown import printable
from rmqcore.cli.common.times import format_time
from rmqcore.cli.reports.report_table import ReportTable, facts
from rmqcore.cli.stores.given_store import opened_store
from rmqcore.disk.paths import StorePaths
from rmqcore.errors.exit_codes import DAMAGED, OK
from rmqcore.offline.index.index_files import IndexFileInfo, find_index_files
from rmqcore.offline.info import (
    LOG_ONLY,
    QUEUES_NOT_READ,
    StoreInfo,
    UnreadableFiles,
    is_log_only,
    read_info,
)
from rmqcore.offline.missing_log import emptied_files, missing_log
from rmqcore.offline.queues.compacted_topics import CompactedTopic, list_compacted
from rmqcore.offline.queues.queues import each_batch_queue, each_queue, queue_info
from rmqcore.offline.waiting import Waiting, count_waiting
from rmqcore.queries.queue_info import QueueInfo

MAX_ROWS = 200
"""Most queues or index files on a terminal; the JSON has all."""


def info(
    store: arguments.AnyStore,
    commitlog: arguments.CommitLog = None,
    follow_links: arguments.FollowLinks = False,
    storage: arguments.Storage = None,
    asked_format: arguments.ShortFormat = None,
    json: arguments.Json = False,
    wide: Wide = False,
) -> int:
    """Show sizes, offsets, times, queues and index files.

    Also shows checkpoint and abort file. In a pipe it prints one line of JSON. The exit code is 2 if queues, index or
    checkpoint name messages that the log lacks, if files at the start of the log have no bytes, or if parts of the
    store cannot be read.

    Example:
      rmqcore info /data/store
      rmqcore info /data/store --json | jq .max_phy_offset
    """
    kind = report_format(asked_format, json, wide=wide)
    with opened_store(store, storage, commitlog, follow_links=follow_links) as reader:
        unreadable = UnreadableFiles(reader.paths)
        files = reader.log_files()
        unreadable.look_at(files)
        found = read_info(reader.paths, files, unreadable.note)
        waiting = count_waiting(reader.paths)
        compacted = list_compacted(reader.paths, unreadable=unreadable.note)
        missing = [
            *emptied_files(reader.paths),
            *missing_log(reader.paths, found.max_phy_offset),
        ]
        queues = _queues_of(reader.paths, found, unreadable)
        index_files = [
            file.info() for file in find_index_files(reader.paths, unreadable=unreadable.note)
        ]
        if kind == ReportFormat.table:
            shown = list(islice(queues, MAX_ROWS))
            more = sum(1 for _ in queues)
            summary = _summary(found, waiting, compacted, log_only=is_log_only(reader.paths))
            _print_tables(terminal_console(wide=wide), summary, shown, more, index_files)
        else:
            lists: dict[str, Iterator[dict[str, Any]]] = {
                "queues": (queue.as_dict() for queue in queues),
                "compacted": (topic.as_dict() for topic in compacted),
                "index_files": (file.as_dict() for file in index_files),
                "unreadable": iter(unreadable),  # behind the queues, which add to it
                "damage": (one.as_dict() for one in missing),
            }
            print_json_lists({**found.as_dict(), "waiting": waiting.as_dict()}, lists)
        report_damage(missing)
        return max(_told(unreadable), DAMAGED if missing else OK)


def _queues_of(
    paths: StorePaths, found: StoreInfo, unreadable: UnreadableFiles
) -> Iterator[QueueInfo]:
    """Not reader.queues(), which looks for the log's end again, and holds all of them."""
    if found.queue_count is None:
        return
    found_queues = chain(
        each_queue(paths, unreadable=unreadable.note), each_batch_queue(paths, unreadable.note)
    )
    for queue in found_queues:
        try:
            yield queue_info(queue, found.min_phy_offset, found.max_phy_offset)
        except OSError as error:
            unreadable.note(queue.directory, error)


def _told(unreadable: UnreadableFiles) -> int:
    for one in unreadable[:MAX_ROWS]:
        note(f"unreadable: {one['path']}: {one['error']}")
    if len(unreadable) > MAX_ROWS:
        note(f"unreadable: {len(unreadable) - MAX_ROWS:,} more")
    return DAMAGED if unreadable else OK


def _print_tables(
    console: Console,
    summary: Table,
    queues: list[QueueInfo],
    more_queues: int,
    index_files: list[IndexFileInfo],
) -> None:
    console.print(summary)
    if queues:
        console.print(_queues(queues))
    if index_files:
        console.print(_index_files(index_files))
    for what, more in (("queues", more_queues), ("index files", len(index_files) - MAX_ROWS)):
        if more > 0:
            console.print(f"... and {more} more {what}: --json lists them")


def _summary(
    found: StoreInfo, waiting: Waiting, compacted: list[CompactedTopic], *, log_only: bool
) -> Table:
    files = f"{counted(found.log_file_count, 'file')} of {human_bytes(found.mapped_file_size)}"
    rows = {
        "store": printable(found.path),
        "commit log": f"{files}, {human_bytes(found.commitlog_bytes)} on disk",
        "offsets": f"{found.min_phy_offset} to {found.max_phy_offset}",
        "oldest message": format_time(found.first_store_timestamp_ms),
        "newest message": format_time(found.last_store_timestamp_ms),
    }
    if found.rocksdb_index_entries is not None:
        rows["RocksDB index"] = f"about {counted(found.rocksdb_index_entries, 'entry')}"
    if found.kinds:
        rows["kind"] = "\n".join(
            printable(f"{kind.sentence}: {kind.place}") for kind in found.kinds
        )
    if log_only:
        return facts(rows | {"log only": LOG_ONLY})
    rows |= {
        "consume queues": (f"{_counts(found)}, {human_bytes(found.consumequeue_bytes)} on disk"),
        "index": f"{counted(found.index_file_count, 'file')}, {human_bytes(found.index_bytes)} on disk",
        "abort file": "exists: in use, or not cleanly closed"
        if found.abort
        else "none: cleanly closed",
        "checkpoint": _checkpoint(found),
    }
    if compacted:
        rows["compacted"] = "\n".join(printable(topic.sentence) for topic in compacted)
    if waiting.sentences:
        rows["waiting"] = "\n".join(map(printable, waiting.sentences))
    return facts(rows)


def _counts(found: StoreInfo) -> str:
    if found.queue_count is None or found.topic_count is None:
        return QUEUES_NOT_READ
    return f"{found.queue_count:,} in {counted(found.topic_count, 'topic')}"


def _checkpoint(found: StoreInfo) -> str:
    if found.checkpoint is None:
        return found.checkpoint_error or "none"
    times = {
        "log": found.checkpoint.physic_msg_timestamp_ms,
        "queues": found.checkpoint.logics_msg_timestamp_ms,
        "index": found.checkpoint.index_msg_timestamp_ms,
    }
    return "\n".join(
        f"{name} flushed to {format_time(time) if time else '-'}" for name, time in times.items()
    )


def _queues(queues: list[QueueInfo]) -> ReportTable:
    table = ReportTable(
        "Queues",
        "topic",
        "queue",
        "offsets",
        "CommitLog offsets",
        "files",
        "on disk",
        left=("topic",),
    )
    for queue in queues:
        table.add_row(
            printable(queue.topic),
            str(queue.queue_id),
            _range(queue.min_offset, queue.max_offset),
            _range(queue.min_phy_offset, queue.max_phy_offset),
            str(queue.file_count),
            human_bytes(queue.disk_bytes),
        )
    return table


def _index_files(files: list[IndexFileInfo]) -> ReportTable:
    table = ReportTable(
        "Index files",
        "name",
        "oldest message",
        "newest message",
        "entries",
        "CommitLog offsets",
        "size",
    )
    for file in files[:MAX_ROWS]:
        table.add_row(
            printable(file.name if file.link_of is None else f"{file.name} = {file.link_of}"),
            _time(file.begin_timestamp_ms) if file.entry_count else "-",
            _time(file.end_timestamp_ms) if file.entry_count else "-",
            str(file.entry_count),
            _range(file.begin_phy_offset, file.end_phy_offset) if file.entry_count else "-",
            human_bytes(file.size),
        )
    return table


def _time(timestamp_ms: int | None) -> str:
    return format_time(timestamp_ms, zone=False)


def _range(start: int | None, end: int | None) -> str:
    return "-" if start is None or end is None else f"{start}..{end}"
