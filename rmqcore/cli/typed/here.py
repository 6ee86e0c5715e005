"""``rmqcore`` without a verb in a store's directory: a description, and the commands to type next."""

from __future__ import annotations

from pathlib import Path

from rmqcore.cli.common.output import counted, human_bytes, terminal_console
from rmqcore.cli.common.shown import printable
from rmqcore.cli.common.times import format_time
from rmqcore.cli.reports.report_table import facts
from rmqcore.disk.locks.lock import lock_holder
from rmqcore.disk.paths import StorePaths
from rmqcore.errors import StoreError
from rmqcore.errors.exit_codes import OK
from rmqcore.offline.info import QUEUES_NOT_READ, StoreInfo
from rmqcore.offline.log.log_files import holds_store, is_log_file
from rmqcore.offline.reader import StoreReader


def store_here(directory: Path) -> StoreReader | None:
    """Return the store in a directory; None if the directory is not a store, or cannot be read.

    Parts of the names alone do not make a store: many projects have a folder ``index``.
    """
    try:
        names = {path.name for path in directory.iterdir()}
        log = directory / "commitlog"
        if not holds_store(names) or not any(is_log_file(path.name) for path in log.iterdir()):
            return None
        return StoreReader(directory)
    except (StoreError, OSError, ValueError):
        return None


def _topics(found: StoreInfo) -> str:
    if found.topic_count is None or found.queue_count is None:
        return QUEUES_NOT_READ
    return f"{found.topic_count:,}, with {counted(found.queue_count, 'queue')}"


def tell(reader: StoreReader) -> int:
    """Print a store's description, and three commands for it; return the exit code.

    Raises
    ------
    StoreError, OSError
        The store cannot be read.
    """
    found = reader.info()
    on_disk = found.commitlog_bytes + found.consumequeue_bytes + found.index_bytes
    rows = {
        "store": printable(str(reader.path)),
        "on disk": f"{human_bytes(on_disk)}, {counted(found.log_file_count, 'CommitLog file')}",
        "topics": _topics(found),
        "stored": _span(found),
        "state": _state(reader.paths, found),
    }
    console = terminal_console()
    console.print(facts(rows))
    console.print("\nTo start with:")
    console.print(facts(_next(found)))
    console.print("\n`rmqcore --help` lists all verbs.")
    return OK


def _span(found: StoreInfo) -> str:
    if found.last_store_timestamp_ms is None:
        return "no message"
    first = format_time(found.first_store_timestamp_ms, zone=False)
    return f"{first} to {format_time(found.last_store_timestamp_ms, zone=False)}"


def _state(paths: StorePaths, found: StoreInfo) -> str:
    try:
        holder = lock_holder(paths.lock)
    except (StoreError, OSError) as error:
        return f"cannot tell whether it is in use: {printable(str(error))}"
    if holder is not None:
        return f"in use by {f'process {holder}' if holder else 'another process'}"
    if found.abort:
        return "not in use, but not cleanly closed"
    return "cleanly closed"


def _next(found: StoreInfo) -> dict[str, str]:
    last = "find out what is wrong with it" if found.abort else "check all of it"
    return {
        "rmqcore tail .": "show the newest messages",
        "rmqcore stats .": "count messages by topic, and the lag of consumer groups",
        "rmqcore doctor ." if found.abort else "rmqcore fsck .": last,
    }
