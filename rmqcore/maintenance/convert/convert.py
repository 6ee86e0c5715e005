"""A store with RocksDB queues as a store with queues as files, made beside it.

The log is the same, so every message keeps its physical offset, its id and its queue offset. The original does not
change.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from rmqcore.config import MessageStoreConfig
from rmqcore.disk.abort import AbortFile
from rmqcore.disk.inside.apart import check_apart
from rmqcore.disk.inside.clones import shares_blocks
from rmqcore.disk.inside.folder import Folder
from rmqcore.disk.locks.lock import lock_holder
from rmqcore.disk.paths import StorePaths, absolute_path, file_name, is_index_file_name
from rmqcore.disk.read_range import read_range
from rmqcore.disk.store_kinds import in_rocksdb
from rmqcore.errors import StoreError, StoreFormatError, StoreLockedError
from rmqcore.maintenance.backup.copier import STAGING, Copier, Source
from rmqcore.maintenance.backup.copier import WORKING as COPYING
from rmqcore.maintenance.backup.store_copy import never_read_again
from rmqcore.maintenance.backup.tree import open_part
from rmqcore.maintenance.convert.queue_files import QueueFileWriter
from rmqcore.maintenance.convert.report import ConvertReport, QueueBounds
from rmqcore.maintenance.rebuild.rebuild import build_parts, sync_tree
from rmqcore.maintenance.salvage.new_store import new_store
from rmqcore.maintenance.salvage.other_parts import OtherParts
from rmqcore.maintenance.salvage.room import check_room, full_disk_error
from rmqcore.offline.found_config import found_config
from rmqcore.offline.fsck import fsck
from rmqcore.offline.info import log_end
from rmqcore.offline.log.log_files import LogFile, list_log_files
from rmqcore.offline.log.walk import Progress
from rmqcore.offline.queues.queues import each_queue, queue_of
from rmqcore.offline.reader import LogDirectories, store_paths

MOST_DIFFERING = 1000
QUEUE_KINDS = ("file",)


def convert(
    path: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    queues: str = "file",
    config: MessageStoreConfig | None = None,
    commitlog: LogDirectories | None = None,
    follow_links: bool = False,
    check: bool = True,
    progress: Progress | None = None,
) -> ConvertReport:
    """Make a store with queue files from a store whose queues are in RocksDB, or in both.

    `out` becomes a store of its own. Files of the log that no recovery reads again are linked where the disk allows
    that, all others are copied; the queues are those of the database, with the offsets at which each begins and ends,
    also of a queue whose messages have all expired. ``config/`` is copied.

    Parameters
    ----------
    path : path-like
        The store's root. It is only read, and must not be in use.
    out : path-like
        New or empty; outside of the store.
    queues : str
        ``"file"``.
    config : MessageStoreConfig, optional
        Its paths say where the CommitLog is; sizes of files that the store lacks.
    commitlog : str, path-like or sequence of path-like, optional
        Where the CommitLog is; see `StoreReader`.
    follow_links : bool
        As of `StoreReader`.
    check : bool
        Compare log, queues and index of the new store (`fsck`): the database may be that of another log.
    progress : callable, optional
        Called with (bytes done, bytes in all), of the log's files.

    Raises
    ------
    ValueError
        `queues` is another text; or `out` lies in the store.
    StoreError
        The store has no database of queues.
    StoreFormatError
        It has no CommitLog file.
    RocksdbError, RocksdbMissingError
        The database cannot be read, or the package that reads it is missing.
    StoreLockedError
        The store is in use, or was written while it was read.
    TargetNotEmptyError
        `out` holds something.
    OSError
        A file cannot be read or written. What was made is removed.
    """
    began = time.perf_counter()
    _check_kind(queues)
    paths = store_paths(absolute_path(path, "path"), config, commitlog, follow_links=follow_links)
    target_path = absolute_path(out, "out")
    check_apart(paths, target_path)
    files = list_log_files(paths)
    if in_rocksdb(paths) is None:
        raise StoreError(f"{paths.root} has no queue database: nothing to convert")
    if not files:
        raise StoreFormatError(f"{paths.commitlog} has no CommitLog file")
    _check_not_in_use(paths)
    work = _Convert(paths, files, found_config(paths, config), progress)
    with new_store(target_path, paths.root) as working:
        needed = 0 if work.links_into(working) else check_room(working, files, paths)
        with full_disk_error(target_path, needed):
            work.run(working)
            sync_tree(working)
        if check:
            work.check(working)
        _check_not_in_use(paths)
        work.check_unchanged()
    return work.report(target_path, time.perf_counter() - began)


def _check_kind(queues: str) -> None:
    if queues == "rocksdb":
        raise ValueError(
            "queues 'rocksdb': rmqcore does not write RocksDB, expected 'file'; RocketMQ itself "
            "builds the database from queue files: start the broker with "
            "rocksdbCQDoubleWriteEnable=true"
        )
    if queues not in QUEUE_KINDS:
        raise ValueError(f"queues {queues!r}: expected 'file'")


def _check_not_in_use(paths: StorePaths) -> None:
    holder = lock_holder(paths.lock)
    if holder is not None:
        who = f"process {holder}" if holder else "another process"
        raise StoreLockedError(
            f"{paths.root} is in use by {who}: stop that process, because messages that it writes "
            "would not be copied"
        )


class _Convert:
    """One run of `convert`."""

    def __init__(
        self,
        paths: StorePaths,
        files: list[LogFile],
        config: MessageStoreConfig,
        progress: Progress | None,
    ) -> None:
        self._paths = paths
        self._files = files
        self._config = config
        self._progress = progress
        self._total = sum(file.size for file in files)
        self._done = 0
        self._unreadable: list[str] = []
        self._index_made = False
        self._fsck: dict[str, Any] | None = None
        self._signature = self._sizes()

    def _sizes(self) -> list[tuple[str, int, int]]:
        """Return values that change if the log is written."""
        found = []
        for file in list_log_files(self._paths):
            status = os.stat(file.path)
            found.append((str(file.path), status.st_size, status.st_mtime_ns))
        return found

    def check(self, working: Folder) -> None:
        """Compare the parts of the new store with each other."""
        levels = self._config.changed(
            store_path_commit_log=None, read_only_commit_log_store_paths=None
        )
        found = fsck(working.path, config=levels, progress=self._progress)
        self._fsck = {
            "exit_code": found.exit_code,
            "records": found.counts["records"],
            "totals": found.totals,
        }

    def check_unchanged(self) -> None:
        """Check that the log was not written while it was copied."""
        if self._sizes() != self._signature:
            raise StoreLockedError(
                f"{self._paths.commitlog} was changed while it was copied: stop the process that "
                "writes to it, and run the command again"
            )

    def links_into(self, working: Folder) -> bool:
        """Return True if files of the log can be hard-linked into a folder."""
        return working.device == self._paths.root.stat().st_dev

    def run(self, working: Folder) -> None:
        """Make the new store in a folder, without a sync."""
        with Folder(self._paths.root) as root:
            self._parts = OtherParts(root, working)
            self._parts.copy()
        working.make("consumequeue")
        with working.folder("consumequeue") as folder:
            self._writer = QueueFileWriter(
                folder, self._config.consume_queue_file_size, self._files[0].file_from_offset
            )
            for queue in each_queue(self._paths):
                self._writer.write(queue)
        self._copy_log_and_index(working)
        new = StorePaths(working.path)
        if not any(map(is_index_file_name, os.listdir(new.index))):
            working.remove("index")
            build_parts(new, new, self._config, queues=False)
            self._index_made = True
        checkpoint = read_range(self._paths.checkpoint, 0, 1 << 16)
        if checkpoint:
            working.write("checkpoint", checkpoint)
        if AbortFile(self._paths.abort).exists:
            working.write("abort", b"")
        self._differing = self._compare(new)

    def _copy_log_and_index(self, working: Folder) -> None:
        working.make(STAGING)
        first = os.fspath(self._files[0].path)
        clones = shares_blocks(first, working, COPYING)
        links = not clones and self.links_into(working)
        self._copier = Copier(working, links=links, clones=clones, progress=self._tell)
        linked_below = never_read_again(self._files, read_range(self._paths.checkpoint, 0, 1 << 16))
        working.make("commitlog")
        for file in self._files:
            place = f"commitlog/{file_name(file.file_from_offset)}"
            self._bring(Path(file.path), place, linked=file.end_offset <= linked_below)
        working.make("index")
        index = open_part(self._paths, self._paths.index)
        if index is not None:
            with index:
                for name in filter(is_index_file_name, index.names()):
                    self._bring(self._paths.index / name, f"index/{name}", linked=False)
        working.remove(STAGING)

    def _bring(self, path: Path, place: str, *, linked: bool) -> None:
        with Folder(path.parent) as above:
            opened = above.open_file(path.name, os.O_RDONLY)
        try:
            source = Source(path, opened, self._unreadable)
            if not (linked and self._copier.link(source, place)):
                self._copier.copy(source, place)
        finally:
            opened.close()

    def _tell(self, count: int) -> None:
        self._done = min(self._total, self._done + count)
        if self._progress is not None:
            self._progress(self._done, self._total)

    def _compare(self, new: StorePaths) -> list[QueueBounds]:
        """Return the queues whose start or end differs between the store and the new one."""
        begin, end = self._files[0].file_from_offset, log_end(self._files)
        found: list[QueueBounds] = []
        for queue in each_queue(self._paths):
            made = queue_of(new, queue.topic, queue.queue_id)
            ends = queue.max_offset(end), made.max_offset(end)
            begins = queue.min_offset(begin, ends[0]), made.min_offset(begin, ends[1])
            if (begins[0] != begins[1] or ends[0] != ends[1]) and len(found) < MOST_DIFFERING:
                found.append(
                    QueueBounds(queue.topic, queue.queue_id, begins[0], ends[0], begins[1], ends[1])
                )
        return found

    def report(self, out: Path, seconds: float) -> ConvertReport:
        """Return the report of the conversion."""
        writer, copier = self._writer, self._copier
        return ConvertReport(
            path=str(self._paths.root),
            out=str(out),
            linked=copier.linked,
            cloned=copier.cloned,
            copied=copier.copied,
            queues=writer.queues,
            queue_files=writer.files,
            queue_entries=writer.entries,
            idle_queues=writer.idle,
            missing_entries=writer.missing,
            index_made=self._index_made,
            differing=self._differing,
            kept=tuple(self._parts.copied),
            left_behind=tuple(self._parts.left_behind),
            config_problems=self._parts.problems,
            unreadable=self._unreadable,
            fsck=self._fsck,
            seconds=seconds,
        )
