"""Builds consume queues and index from the CommitLog, beside the originals.

The store is only read; it may be in use or broken. With `apply` the new parts replace those of the store
(`in_place.py`).
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from rmqcore._native.format.codec import DelayLevels
from rmqcore._native.scan.batch import Batch
from rmqcore._native.scan.scan import ColumnScan
from rmqcore.config import MessageStoreConfig
from rmqcore.disk.inside.files import make_folder
from rmqcore.disk.inside.folder import Folder, open_target, remove_made
from rmqcore.disk.paths import StorePaths, absolute_path
from rmqcore.disk.queue_files import BatchTopics
from rmqcore.disk.swap import PARTS
from rmqcore.engine.dispatch.dispatcher import INDEX_COLUMNS, QUEUE_COLUMNS
from rmqcore.engine.dispatch.multi_dispatch import MultiDispatch
from rmqcore.engine.index.index_service import IndexService
from rmqcore.errors import StoreError, TargetNotEmptyError
from rmqcore.maintenance.guard.foreign_files import check_no_foreign_files
from rmqcore.maintenance.guard.idle_queues import keep_idle_queues
from rmqcore.maintenance.guard.misnamed import misnamed_entries
from rmqcore.maintenance.guard.missing_log import check_log_is_there
from rmqcore.maintenance.rebuild.dispatch_scan import dispatch_config, dispatch_scan
from rmqcore.maintenance.rebuild.in_place import rebuild_in_place
from rmqcore.maintenance.rebuild.index_pages import IndexPages
from rmqcore.maintenance.rebuild.queue_builder import QueueBuilder
from rmqcore.maintenance.rebuild.report import FOLDER, RebuildReport
from rmqcore.offline.found_config import found_config
from rmqcore.offline.log.damage import DamageList
from rmqcore.offline.log.log_files import list_log_files
from rmqcore.offline.log.long_record import LongRecords
from rmqcore.offline.log.walk import Blank, LogWalk, Progress, Sink
from rmqcore.offline.missing_log import StoreEnd
from rmqcore.offline.reader import LogDirectories, store_paths

BATCH_ROWS, BATCH_BYTES = 262_144, 16 << 20
TOPIC_ROOM = 8 << 20
"""Bytes of memory for the topics of a batch, and of those before it."""
WORKING = ".building"


def rebuild(
    store: StorePaths | str | os.PathLike[str],
    out: str | os.PathLike[str] | None = None,
    *,
    queues: bool = True,
    index: bool = True,
    config: MessageStoreConfig | None = None,
    commitlog: LogDirectories | None = None,
    follow_links: bool = False,
    overwrite: bool = False,
    apply: bool = False,
    drop: int | None = None,
    progress: Progress | None = None,
) -> RebuildReport:
    """Build consume queues and index below `out`, which is new or empty.

    The folders appear there after all files are written and synced. Queues whose messages have all left the log keep
    their ends.

    Parameters
    ----------
    store : path-like or StorePaths
        The store's root, or where its files are.
    out : path-like, optional
        None: the folder ``rebuilt`` in the store, which replaces the folder of an earlier rebuild.
    queues, index : bool
        What to build.
    config : MessageStoreConfig, optional
        Delay levels, and sizes of files that the store lacks.
    commitlog : str, path-like or sequence of path-like, optional
        Where the CommitLog is, as for `StoreReader`; not beside a StorePaths.
    follow_links : bool
        As of `StoreReader`.
    overwrite : bool
        Replace the folders of an earlier rebuild in `out`.
    apply : bool
        Replace the store's folders by the new ones; no other process may use the store.
    drop : int, optional
        With `apply`: the number of entries of the store's folders that may be lost, as a KnowsLessError says it. The
        old folders are kept in the store then (`RebuildReport.kept`).
    progress : callable, optional
        Called with (bytes done, bytes in all).

    Raises
    ------
    TargetNotEmptyError
        `out` is not empty; with `overwrite`, it has files that no rebuild makes. No file was deleted.
    ForeignFilesError
        With `overwrite`: a folder that would be replaced holds files of another program.
    CommitLogMissingError
        The CommitLog has no file, but queues, index or checkpoint name messages.
    KnowsLessError
        With `apply`: the store's folders know more than the new ones, and `drop` is another number. Nothing was
        changed.
    StoreKindError
        With `apply`: rmqcore does not write this kind of store.
    LinkError
        `out` lies in the store and is a link; with `apply`, a folder that would be replaced is one.
    OSError
        A file cannot be read or written. The files built so far are removed.
    """
    began = time.perf_counter()
    if isinstance(store, StorePaths):
        paths = store
    else:
        root = absolute_path(store, "store")
        paths = store_paths(root, config, commitlog, follow_links=follow_links)
    folder = paths.root / FOLDER if out is None else absolute_path(out, "out")

    def build() -> RebuildReport:
        report = _build_beside(
            paths,
            folder,
            config,
            queues=queues,
            index=index,
            overwrite=overwrite or out is None,
            progress=progress,
        )
        return replace(report, seconds=time.perf_counter() - began)

    if not apply:
        return build()
    parts = [part for part, wanted in zip(PARTS, (queues, index), strict=True) if wanted]
    return rebuild_in_place(paths, config or MessageStoreConfig(), build, parts, folder, drop=drop)


def _build_beside(
    paths: StorePaths,
    out: Path,
    config: MessageStoreConfig | None,
    *,
    queues: bool,
    index: bool,
    overwrite: bool,
    progress: Progress | None,
) -> RebuildReport:
    settings = found_config(paths, config)
    check_log_is_there(paths)
    made = not os.path.lexists(out)
    target = open_target(out, paths.root, make=True)
    earlier = PARTS if overwrite else ()
    if set(target.names()) - {WORKING, *earlier}:
        raise TargetNotEmptyError(f"{out} is not empty")
    check_no_foreign_files(StorePaths(out), earlier)
    for name in (*earlier, WORKING):  # WORKING: files of a killed attempt
        target.remove(name)
    target.make(WORKING)
    try:
        report = build_parts(
            paths,
            StorePaths(out / WORKING),
            settings,
            queues=queues,
            index=index,
            progress=progress,
        )
        if queues:
            misnamed = misnamed_entries(paths, StorePaths(out / WORKING), report.damage)
            report = replace(
                report, misnamed=misnamed, idle_queues=_keep_idle(paths, target, settings)
            )
        sync_tree(target.folder(WORKING))
        for part in report.parts:
            target.move(f"{WORKING}/{part}", part)
        target.remove_empty(WORKING)
        target.sync()
    except BaseException:
        with suppress(OSError, StoreError):  # the first error is the one to raise
            target.remove(WORKING)
            if made:
                remove_made(out)
        raise
    return replace(report, out=os.fspath(out))


def _keep_idle(paths: StorePaths, target: Folder, config: MessageStoreConfig) -> int:
    """Keep the ends of the queues that have no record in the log."""
    files = list_log_files(paths)
    if not files:
        return 0
    with target.folder(f"{WORKING}/{PARTS[0]}") as folder:
        return keep_idle_queues(
            paths, files[0].file_from_offset, config.consume_queue_file_size, folder
        )


def build_parts(
    paths: StorePaths,
    target: StorePaths,
    config: MessageStoreConfig,
    *,
    queues: bool = True,
    index: bool = True,
    progress: Progress | None = None,
) -> RebuildReport:
    """Make ``consumequeue`` and ``index`` in the root of `target`, where neither lies; nothing is synced.

    The other parameters are those of `rebuild`; `config` has the sizes that the files get.
    """
    damage = DamageList()
    builder = QueueBuilder(target.consumequeue, config.consume_queue_file_size, BatchTopics(paths))
    settings = dispatch_config(config)
    service = IndexService(target, settings, on_full=lambda _: None)
    parts = [part for part, wanted in zip(PARTS, (queues, index), strict=True) if wanted]
    for part in parts:
        make_folder(target.root / part)
    log = _Log(paths, settings, builder if queues else None, progress)
    pages = IndexPages(service)
    records = record_bytes = 0
    try:
        try:
            for rows, batch in log.batches(INDEX_COLUMNS if index else (), damage):
                records += len(batch)
                record_bytes += batch.nbytes
                if queues:
                    builder.add(rows, batch)
                if index:
                    service.put_batch(rows, batch, 0)
                    pages.after_put()
            builder.flush()
        finally:
            files = service.files
            index_entries = sum(file.native.index_count - 1 for file in files)
            service.close()
        while builder.again:
            builder.next_pass()
            for rows, batch in log.batches((), DamageList(most=0)):
                builder.add(rows, batch)
            builder.flush()
    finally:
        builder.close()
    return RebuildReport(
        path=os.fspath(paths.root),
        out="",
        parts=tuple(parts),
        records=records,
        record_bytes=record_bytes,
        queues=builder.queues,
        queue_files=builder.file_count,
        queue_entries=builder.entries,
        filled_entries=builder.filled,
        ignored_records=builder.ignored,
        set_aside=builder.set_aside,
        index_files=len(files),
        index_entries=index_entries,
        damage=list(damage),
        seconds=0.0,
    )


class _Log:
    """Passes over the log for the queues, each up to the log's end at the first pass.

    Parameters
    ----------
    paths : StorePaths
    settings : MessageStoreConfig
        Settings that determine the entries.
    builder : QueueBuilder or None
        Gets the entries of further queues; None: no queues are made.
    progress : callable, optional
    """

    def __init__(
        self,
        paths: StorePaths,
        settings: MessageStoreConfig,
        builder: QueueBuilder | None,
        progress: Progress | None,
    ) -> None:
        self._files = list_log_files(paths)
        self._store_end = StoreEnd(paths)
        self._levels = DelayLevels(settings.delay_levels_ms)
        self._multi = None if builder is None else MultiDispatch(settings, self._levels)
        self._builder = builder
        self._progress = progress
        self._end: int | None = None

    def batches(
        self, columns: tuple[str, ...], damage: DamageList
    ) -> Iterator[tuple[ColumnScan, Batch]]:
        """The records of the log, with the columns of queues and some more; a batch is valid until the next one."""
        rows = ColumnScan(
            QUEUE_COLUMNS + columns,
            delay_levels=self._levels,
            stop_offset=self._end,
            batch_rows=BATCH_ROWS,
            batch_bytes=BATCH_BYTES,
            topic_room=TOPIC_ROOM,
        )
        sink: Sink[Batch] = rows
        if self._builder is not None and self._multi is not None:
            sink = dispatch_scan(rows, self._multi, self._builder.put_entry)
        walk = LogWalk(
            self._files,
            sink,
            damage,
            stop=self._end,
            long_records=LongRecords(),
            progress=self._progress,
            end=self._store_end if self._end is None else None,
        )
        for batch in walk.run():
            assert not isinstance(batch, Blank)
            yield rows, batch
        self._end = walk.end_phy_offset


def sync_tree(folder: Folder) -> None:
    """Wait until all files below a folder, and their names, are on disk.

    One sync of the file system first: thousands of small ones after each other would take a disk seek each.
    """
    folder.sync_file_system()
    folder.sync_tree()
