"""A new store of every record of a damaged one that proves itself; the old one is only read."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from rmqcore.config import MessageStoreConfig
from rmqcore.disk.checkpoint import CheckpointFile
from rmqcore.disk.index.header import read_header
from rmqcore.disk.inside.apart import check_apart
from rmqcore.disk.inside.folder import Folder
from rmqcore.disk.paths import StorePaths, absolute_path
from rmqcore.disk.queue_files import BatchTopics
from rmqcore.errors import StoreError, StoreFormatError
from rmqcore.maintenance.guard.idle_queues import keep_idle_queues
from rmqcore.maintenance.guard.misnamed import misnamed_entries
from rmqcore.maintenance.rebuild.dispatch_scan import dispatch_config
from rmqcore.maintenance.rebuild.rebuild import WORKING, build_parts, sync_tree
from rmqcore.maintenance.rebuild.report import ENDED, RebuildReport
from rmqcore.maintenance.salvage.log_copy import Copied, LogCopy
from rmqcore.maintenance.salvage.new_log import NewLog
from rmqcore.maintenance.salvage.new_store import new_store
from rmqcore.maintenance.salvage.other_parts import OtherParts
from rmqcore.maintenance.salvage.queue_claims import QueueClaims
from rmqcore.maintenance.salvage.queue_loss import (
    MOST_LISTED,
    LostLog,
    MissingMessages,
    missing_messages,
    old_entry,
    unserved_messages,
)
from rmqcore.maintenance.salvage.report import SalvageReport
from rmqcore.maintenance.salvage.room import check_room, full_disk_error
from rmqcore.maintenance.salvage.set_aside import set_aside
from rmqcore.offline.found_config import found_config
from rmqcore.offline.fsck.findings import ERROR, Finding
from rmqcore.offline.fsck.fsck import fsck
from rmqcore.offline.log.damage import DamageList, lost_ranges
from rmqcore.offline.log.log_files import LogFile, holds_store, list_log_files
from rmqcore.offline.missing_log import emptied_files
from rmqcore.offline.reader import store_paths
from rmqcore.vocabulary.topics import QueueKey

if TYPE_CHECKING:
    from rmqcore.offline.log.walk import Progress
    from rmqcore.offline.reader import LogDirectories


def salvage(
    path: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    log_only: bool = False,
    config: MessageStoreConfig | None = None,
    commitlog: LogDirectories | None = None,
    follow_links: bool = False,
    for_version: str | None = None,
    progress: Progress | None = None,
) -> SalvageReport:
    """Make a new, sound store of every record of a damaged one that proves itself.

    Each record keeps its physical offset and its queue offset, so message ids, consumer offsets, transactions and timers stay
    right. Records that no sink takes stand where bytes are lost. The old store is only read; it may be in use. Nothing appears in
    `out` before all is written and synced.

    Parameters
    ----------
    path : path-like
        The store's root, or the directory of its CommitLog.
    out : path-like
        A new or empty folder, outside of the store.
    log_only : bool
        Look at the CommitLog alone, also where the store has more.
    config : MessageStoreConfig, optional
        Delay levels, paths, and sizes of files that the store lacks.
    commitlog : str, path-like or sequence of path-like, optional
        Where the CommitLog is; see `rmqcore.read`.
    follow_links : bool
        As of `rmqcore.read`.
    for_version : str, optional
        A release of RocketMQ, such as ``"4.9"``. Records that this release cannot read are left out, and reported as lost: the
        release would cut the log at the first of them. By default that of `config`.
    progress : callable, optional
        Called with (bytes done, bytes in all).

    Raises
    ------
    NotAStoreError, LinkError, FileNotFoundError, NotADirectoryError
        As of `rmqcore.read`.
    StoreFormatError
        There is no CommitLog file.
    TargetNotEmptyError
        `out` holds something.
    ValueError
        `out` lies in the store.
    OSError
        A file cannot be read or written. What was made is removed.
    """
    began = time.perf_counter()
    paths = _paths(path, config, commitlog, follow_links=follow_links, log_only=log_only)
    target_path = absolute_path(out, "out")
    check_apart(paths, target_path)
    files = list_log_files(paths)
    if not files:
        raise StoreFormatError(f"{paths.commitlog} has no CommitLog file: nothing can be saved")
    settings = _settings(paths, config, files)
    if for_version is not None:
        settings = settings.changed(for_version=for_version)
    work = _Salvage(paths, files, settings, target_path / WORKING, progress)
    with new_store(target_path, paths.root) as working:
        needed = check_room(working, files, paths)
        with full_disk_error(target_path, needed):
            work.run(working, with_parts=not _is_log_only(paths))
            sync_tree(working)
    return work.report(os.fspath(target_path), time.perf_counter() - began)


def _paths(
    path: str | os.PathLike[str],
    config: MessageStoreConfig | None,
    commitlog: LogDirectories | None,
    *,
    follow_links: bool,
    log_only: bool,
) -> StorePaths:
    root = absolute_path(path, "path")
    paths = store_paths(root, config, commitlog, follow_links=follow_links)
    alone = paths.root != root and not holds_store(set(os.listdir(paths.root)) - {"commitlog"})
    if log_only or alone:  # a root in which nothing else is looked for
        paths = StorePaths(paths.commitlog, commitlog=paths.commitlogs)
    paths.leave_out_links = True
    return paths


def _is_log_only(paths: StorePaths) -> bool:
    return paths.root == paths.commitlog


def _settings(
    paths: StorePaths, config: MessageStoreConfig | None, files: list[LogFile]
) -> MessageStoreConfig:
    """The sizes of the new store's files; of a log of one file, which may be a part of one, a given configuration knows it."""
    settings = found_config(paths, config)
    if config is not None and len(files) == 1:
        size = max(config.mapped_file_size_commit_log, settings.mapped_file_size_commit_log)
        settings = settings.changed(mapped_file_size_commit_log=size)
    return dispatch_config(settings)


class _Salvage:
    """One run of `salvage`."""

    def __init__(
        self,
        paths: StorePaths,
        files: list[LogFile],
        config: MessageStoreConfig,
        working: Path,
        progress: Progress | None,
    ) -> None:
        self._paths = paths
        self._files = files
        self._config = config
        self._new = StorePaths(working)
        self._progress = progress
        self._bytes = sum(file.size for file in files)
        self._damage = DamageList()
        self._claims = QueueClaims()
        self._copied = Copied()
        self._moved: dict[int, int] = {}
        self._parts: OtherParts | None = None
        self._missing: list[MissingMessages] = []
        self._missing_messages = 0
        self._idle_queues = 0

    def run(self, working: Folder, *, with_parts: bool) -> None:
        """Make the new store in a folder; nothing is synced."""
        if with_parts:
            with Folder(self._paths.root) as root:
                logs = [
                    folder for folder in self._paths.commitlogs if folder.is_relative_to(root.path)
                ]
                made = {folder.relative_to(root.path).parts[0] for folder in logs}
                self._parts = OtherParts(root, working, made)
                self._parts.copy()
        working.make("commitlog")
        with working.folder("commitlog") as folder:
            self._copy_log(folder)
        self._aside = self._claims.settle(
            self._config.consume_queue_file_size,
            self._old_entry,
        )
        self._aside_messages = set_aside(list_log_files(self._new), self._aside)
        self._built = self._build()
        self._misnamed = misnamed_entries(self._paths, self._new, self._damage)
        # A store without a log file begins at 0, and takes entries for those of messages that it has lost.
        if list_log_files(self._new):
            with working.folder("consumequeue") as queues:
                self._idle_queues = keep_idle_queues(
                    self._paths,
                    self._files[0].file_from_offset,
                    self._config.consume_queue_file_size,
                    queues,
                )
        self._batch_problems = self._check_batch_queues()
        self._drop_expired()
        self._find_missing()
        self._find_unserved()
        self._write_checkpoint()
        if self._progress is not None:
            self._progress(2 * self._bytes, 2 * self._bytes)

    def _copy_log(self, folder: Folder) -> None:
        log = NewLog(folder, self._config.mapped_file_size_commit_log)
        topics = BatchTopics(self._paths)
        copy = LogCopy(self._files, log, self._config, topics, self._claims, self._damage)
        try:
            self._copied, self._moved = copy.run(self._part_of_progress(0)), copy.moved
        finally:
            log.close()
        self._damage += emptied_files(self._paths)

    def _old_entry(self, place: QueueKey, queue_offset: int) -> int:
        """Offset in the new log of the record that the old queue entry points to; -1 without an entry."""
        phy_offset = old_entry(self._paths, place, queue_offset)
        return self._moved.get(phy_offset, phy_offset)

    def _build(self) -> RebuildReport:
        """Queues and index, which reads the new log whole: what was copied is what proved itself before."""
        built = build_parts(self._new, self._new, self._config, progress=self._part_of_progress(1))
        if built.damage:
            found = built.damage[0]
            raise StoreError(
                f"{self._paths.commitlog}: the log changed while it was read, at "
                f"{found.start_phy_offset}: run salvage again"
            )
        return built

    def _check_batch_queues(self) -> list[Finding]:
        """Compare queues of batches, which are not made anew, with the new log."""
        if not BatchTopics(self._new):
            return []
        found = fsck(self._new.root, check_index=False).findings
        folder = f"{self._new.batchconsumequeue.name}/"
        return [one for one in found if one.severity == ERROR and one.path.startswith(folder)]

    def _part_of_progress(self, part: int) -> Callable[[int, int], object] | None:
        report, size = self._progress, self._bytes
        if report is None:
            return None
        return lambda done, total: report(part * size + done * size // max(total, 1), 2 * size)

    def _drop_expired(self) -> None:
        """What the store in use has cleaned meanwhile is not lost."""
        begin = min((file.file_from_offset for file in list_log_files(self._paths)), default=0)
        if begin > self._files[0].file_from_offset:
            self._damage[:] = [one for one in self._damage if one.end_phy_offset > begin]

    def _find_missing(self) -> None:
        lost = LostLog(
            self._files[0].file_from_offset,
            self._copied.end_phy_offset,
            lost_ranges(self._damage),
            self._config.mapped_file_size_commit_log,
        )
        for one in missing_messages(self._paths, self._claims, lost):
            self._missing_messages += one.count
            if len(self._missing) < MOST_LISTED:
                self._missing.append(one)

    def _find_unserved(self) -> None:
        begin = min((file.file_from_offset for file in list_log_files(self._new)), default=0)
        found = unserved_messages(self._new, self._claims, begin)
        self._unserved = list(islice(found, MOST_LISTED))

    def _write_checkpoint(self) -> None:
        """All of the store is on disk when it appears."""
        newest = self._copied.newest_ms
        checkpoint = CheckpointFile(self._new.checkpoint)
        checkpoint.update(
            physic_msg_timestamp_ms=newest,
            logics_msg_timestamp_ms=newest,
            index_msg_timestamp_ms=self._index_time(),
            confirm_phy_offset=self._copied.last_phy_offset,
            logics_physical_offset=self._copied.last_phy_offset,
        )
        checkpoint.flush()

    def _index_time(self) -> int:
        """The end of the newest index file that is full."""
        times = [0]
        for path in self._new.index.iterdir():
            header = read_header(path)
            if header.index_count >= self._config.max_index_num:
                times.append(header.end_timestamp_ms)
        return max(times)

    def report(self, out: str, seconds: float) -> SalvageReport:
        """Return the report."""
        built, parts = self._built, self._parts
        lost = [found for found in self._damage if found.kind != ENDED]
        return SalvageReport(
            path=os.fspath(self._paths.root),
            out=out,
            messages=self._copied.messages,
            message_bytes=self._copied.message_bytes,
            moved_messages=len(self._moved),
            lost=sorted(lost, key=lambda found: found.start_phy_offset),
            lost_bytes=sum(found.byte_count for found in lost),
            torn_tail_bytes=sum(one.byte_count for one in self._damage if one.kind == ENDED),
            missing=self._missing,
            missing_messages=self._missing_messages,
            missing_complete=self._claims.complete,
            unserved=self._unserved,
            set_aside=self._aside,
            set_aside_messages=self._aside_messages,
            misnamed=self._misnamed,
            batch_queue_problems=self._batch_problems,
            queues=built.queues,
            queue_entries=built.queue_entries,
            idle_queues=self._idle_queues,
            index_files=built.index_files,
            index_entries=built.index_entries,
            copied=tuple(parts.copied) if parts else (),
            left_behind=tuple(parts.left_behind) if parts else (),
            config_problems=parts.problems if parts else [],
            seconds=seconds,
        )
