"""Consume queues and index made anew from the CommitLog, beside the originals.

The store is only read; it may be in use or broken. What was built is put in place in a store by `rmqcore.disk.swap`, under
the store's lock.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace

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
from rmqcore.maintenance.rebuild.dispatch_scan import dispatch_config, dispatch_scan
from rmqcore.maintenance.rebuild.index_pages import IndexPages
from rmqcore.maintenance.rebuild.queue_builder import QueueBuilder
from rmqcore.maintenance.rebuild.report import RebuildReport
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
    out: str | os.PathLike[str],
    *,
    queues: bool = True,
    index: bool = True,
    config: MessageStoreConfig | None = None,
    commitlog: LogDirectories | None = None,
    follow_links: bool = False,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> RebuildReport:
    """Build consume queues and index below `out`, which is new or empty; nothing appears there before all is written and synced.

    Parameters
    ----------
    store : path-like or StorePaths
        The store's root, or where its files are.
    out : path-like
    queues, index : bool
        What to build.
    config : MessageStoreConfig, optional
        Delay levels, and sizes of files of which the store has none.
    commitlog : str, path-like or sequence of path-like, optional
        Where the CommitLog is, as for `StoreReader`; not beside a StorePaths.
    follow_links : bool
        As of `StoreReader`.
    overwrite : bool
        Replace what an earlier rebuild left in `out`.
    progress : callable, optional
        Called with (bytes done, bytes in all).

    Raises
    ------
    TargetNotEmptyError
        `out` holds something; with `overwrite` something that no rebuild makes. Nothing is deleted then.
    LinkError
        `out` lies in the store and is a link.
    OSError
        A file cannot be read or written. What was built so far is removed.
    """
    began = time.perf_counter()
    if isinstance(store, StorePaths):
        paths = store
    else:
        root = absolute_path(store, "store")
        paths = store_paths(root, config, commitlog, follow_links=follow_links)
    out = absolute_path(out, "out")
    settings = found_config(paths, config)
    made = not os.path.lexists(out)
    target = open_target(out, paths.root, make=True)
    earlier = PARTS if overwrite else ()
    if set(target.names()) - {WORKING, *earlier}:
        raise TargetNotEmptyError(f"{out} is not empty")
    for name in (*earlier, WORKING):  # WORKING: what a killed attempt left
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
        sync_tree(target.folder(WORKING))
        for part in report.parts:
            target.move(f"{WORKING}/{part}", part)
        target.remove_empty(WORKING)
        target.sync()
    except BaseException:
        with suppress(OSError, StoreError):  # the error that led here is the one to tell
            target.remove(WORKING)
            if made:
                remove_made(out)
        raise
    return replace(report, out=os.fspath(out), seconds=time.perf_counter() - began)


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
        index_files=len(files),
        index_entries=index_entries,
        damage=list(damage),
        seconds=0.0,
    )


class _Log:
    """The log, as often as queues need it: each time up to where it ended the first time.

    Parameters
    ----------
    paths : StorePaths
    settings : MessageStoreConfig
        What is dispatched.
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

    One sync of everything first: thousands of small ones after each other would take a disk seek each.
    """
    os.sync()
    folder.sync_tree()
