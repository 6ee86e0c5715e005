"""``rmqcore info``: what a store is, in numbers."""

from __future__ import annotations

from itertools import islice

from rich.table import Table

from rmqcore.cli.common import arguments
from rmqcore.cli.common.errors import OK
from rmqcore.cli.common.output import (
    ReportFormat,
    human_bytes,
    print_json_lists,
    report_format,
    terminal_console,
)
from rmqcore.cli.common.shown import printable
from rmqcore.cli.common.times import format_time
from rmqcore.disk.queue_files import queue_directories
from rmqcore.offline.index.index_files import IndexFileInfo
from rmqcore.offline.info import StoreInfo
from rmqcore.offline.queues.queues import each_queue_info
from rmqcore.offline.reader import StoreReader
from rmqcore.queries.queue_info import QueueInfo

MAX_ROWS = 200
"""How many queues or index files a terminal shows; the JSON has all."""


def info(
    store: arguments.Store,
    commitlog: arguments.CommitLog = None,
    follow_links: arguments.FollowLinks = False,
    asked_format: arguments.ShortFormat = None,
    json: arguments.Json = False,
) -> int:
    """Show sizes, offsets, times, checkpoint, abort file, queues and index files of a store.

    Piped, it is one line of JSON with all of it.

    Example:
      rmqcore info /data/store
      rmqcore info /data/store --json | jq .max_phy_offset
    """
    kind = report_format(asked_format, json)
    reader = StoreReader(store, commitlog=commitlog, follow_links=follow_links)
    found = reader.info()
    # Not reader.queues(), which looks for the log's end again, and holds all of them.
    queues = each_queue_info(reader.paths, found.min_phy_offset, found.max_phy_offset)
    index_files = reader.index_files()
    if kind == ReportFormat.table:
        shown = list(islice(queues, MAX_ROWS))
        more = sum(1 for _ in queue_directories(reader.paths)) - len(shown)
        _print_tables(found, shown, more, index_files)
    else:
        lists = {
            "queues": (queue.as_dict() for queue in queues),
            "index_files": (file.as_dict() for file in index_files),
        }
        print_json_lists(found.as_dict(), lists)
    return OK


def _print_tables(
    found: StoreInfo, queues: list[QueueInfo], more_queues: int, index_files: list[IndexFileInfo]
) -> None:
    console = terminal_console()
    console.print(_summary(found))
    if queues:
        console.print(_queues(queues))
    if index_files:
        console.print(_index_files(index_files))
    for what, more in (("queues", more_queues), ("index files", len(index_files) - MAX_ROWS)):
        if more > 0:
            console.print(f"... and {more} more {what}: --json has all of them")


def _summary(found: StoreInfo) -> Table:
    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    files = f"{found.log_file_count} files of {human_bytes(found.mapped_file_size)}"
    rows = {
        "store": printable(found.path),
        "commit log": f"{files}, {human_bytes(found.commitlog_bytes)} on disk",
        "offsets": f"{found.min_phy_offset} to {found.max_phy_offset}",
        "oldest message": format_time(found.first_store_timestamp_ms),
        "newest message": format_time(found.last_store_timestamp_ms),
        "consume queues": (
            f"{found.queue_count} of {found.topic_count} topics, {human_bytes(found.consumequeue_bytes)} on disk"
        ),
        "index": f"{found.index_file_count} files, {human_bytes(found.index_bytes)} on disk",
        "abort file": "there: in use, or not cleanly closed"
        if found.abort
        else "none: cleanly closed",
        "checkpoint": _checkpoint(found),
    }
    for name, value in rows.items():
        table.add_row(name, value)
    return table


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


def _queues(queues: list[QueueInfo]) -> Table:
    table = _list("\nQueues", "topic", "queue", "offsets", "CommitLog offsets", "files", "on disk")
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


def _index_files(files: list[IndexFileInfo]) -> Table:
    table = _list(
        "\nIndex files",
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
            format_time(file.begin_timestamp_ms),
            format_time(file.end_timestamp_ms),
            str(file.entry_count),
            _range(file.begin_phy_offset, file.end_phy_offset),
            human_bytes(file.size),
        )
    return table


def _list(title: str, *columns: str) -> Table:
    table = Table(
        title=title,
        title_justify="left",
        title_style="bold",
        box=None,
        pad_edge=False,
        padding=(0, 1),
    )
    table.add_column(columns[0], overflow="fold")
    for name in columns[1:]:
        table.add_column(name, justify="right", no_wrap=True)
    return table


def _range(start: int | None, end: int | None) -> str:
    return "-" if start is None or end is None else f"{start}..{end}"
