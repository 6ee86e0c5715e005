"""Consume queues and index made anew from the CommitLog, beside the originals.

Only reads the store, which may be in use or broken. What was built takes its place in a store by `rmqcore.engine.swap`, under
the store's lock.
"""

from __future__ import annotations

import os
import shutil
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from rmqcore._native.codec import DelayLevels
from rmqcore._native.scan import Batch, ColumnScan
from rmqcore.config import MessageStoreConfig
from rmqcore.engine.dispatch import INDEX_COLUMNS, QUEUE_COLUMNS
from rmqcore.engine.files import sync_directory
from rmqcore.engine.index_service import IndexService
from rmqcore.engine.multi_dispatch import MultiDispatch
from rmqcore.engine.paths import StorePaths
from rmqcore.engine.swap import PARTS
from rmqcore.errors import TargetNotEmptyError
from rmqcore.offline.damage import DamageRange
from rmqcore.offline.files import list_log_files
from rmqcore.offline.hidden_records import HiddenRecords
from rmqcore.offline.rebuild_queues import QueueBuilder
from rmqcore.offline.store_config import found_config
from rmqcore.offline.walk import Blank, LogWalk, Progress

BATCH_ROWS, BATCH_BYTES = 262_144, 64 << 20
FOLDER = "rebuilt"
"""In a store, when no other folder is named; brokers do not look at it."""
WORKING = ".building"
ENDED = "torn_tail"


@dataclass(frozen=True)
class RebuildReport:
    """What was built.

    Attributes
    ----------
    path, out : str
        The store, and the folder that holds what was built.
    parts : tuple of str
        ``consumequeue``, ``index``.
    records, record_bytes : int
        Read from the log.
    queues, queue_files, queue_entries : int
    filled_entries : int
        Entries in the place of records that damage in the log has taken.
    ignored_records : int
        Without an entry: their queue offset was taken, or is none.
    index_files, index_entries : int
    damage : list of DamageRange
        Of the log.
    seconds : float
    """

    path: str
    out: str
    parts: tuple[str, ...]
    records: int
    record_bytes: int
    queues: int
    queue_files: int
    queue_entries: int
    filled_entries: int
    ignored_records: int
    index_files: int
    index_entries: int
    damage: list[DamageRange]
    seconds: float

    @property
    def exit_code(self) -> int:
        """2 when the log is damaged, else 0; a torn tail is what any unclean exit leaves."""
        return 2 if any(found.kind != ENDED for found in self.damage) else 0

    def as_dict(self) -> dict[str, Any]:
        """The attributes as plain JSON values."""
        return asdict(self)


class DispatchScan:
    """A `ColumnScan` as a walk's sink, which also has entries of further queues put."""

    def __init__(self, columns: ColumnScan, multi: MultiDispatch | None) -> None:
        self._columns = columns
        self._multi = multi

    @property
    def pending_rows(self) -> int:
        """Rows that `take` would give."""
        return self._columns.pending_rows

    def take(self) -> Batch:
        """Give what was filled, and begin anew."""
        return self._columns.take()

    def feed(
        self,
        buf: Any,
        length: int,
        pos: int,
        phy_offset: int,
        end_offset: int,
        *,
        trusted: int = -1,
    ) -> tuple[int, int, int, int]:
        """Take the records from `pos` on; see `ColumnScan.feed`."""
        stop = self._columns.feed(buf, length, pos, phy_offset, end_offset, trusted=trusted)
        if self._multi is not None and stop[0] > pos:
            self._multi.put(buf, pos, stop[0], 0)
        return stop


def rebuild(
    paths: StorePaths,
    out: Path,
    *,
    queues: bool = True,
    index: bool = True,
    config: MessageStoreConfig | None = None,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> RebuildReport:
    """Build consume queues and index below `out`, which is new or empty; nothing is there before all is written and synced.

    Parameters
    ----------
    paths : StorePaths
    out : Path
    queues, index : bool
        What to build.
    config : MessageStoreConfig, optional
        Delay levels, and sizes of files of which the store has none.
    overwrite : bool
        Replace what an earlier rebuild left in `out`.
    progress : callable, optional
        Called with (bytes done, bytes in all).

    Raises
    ------
    TargetNotEmptyError
        `out` holds something.
    OSError
        A file cannot be read or written. What was built so far is removed.
    """
    began = time.perf_counter()
    settings = found_config(paths, config)
    made = not out.exists()
    out.mkdir(parents=True, exist_ok=True)
    if overwrite:
        for part in PARTS:
            shutil.rmtree(out / part, ignore_errors=True)
    if set(os.listdir(out)) - {WORKING}:
        raise TargetNotEmptyError(f"{out} is not empty")
    working = out / WORKING
    shutil.rmtree(working, ignore_errors=True)  # of an attempt that was killed
    working.mkdir()
    try:
        report = _build(paths, StorePaths(working), settings, queues, index, progress)
        sync_tree(working)
        for part in report.parts:
            (working / part).rename(out / part)
        working.rmdir()
        sync_directory(out)
    except BaseException:
        shutil.rmtree(working, ignore_errors=True)
        if made:
            shutil.rmtree(out, ignore_errors=True)
        raise
    return replace(report, out=os.fspath(out), seconds=time.perf_counter() - began)


def _build(
    paths: StorePaths,
    target: StorePaths,
    config: MessageStoreConfig,
    queues: bool,
    index: bool,
    progress: Progress | None,
) -> RebuildReport:
    levels = DelayLevels(config.delay_levels_ms)
    damage: list[DamageRange] = []
    hidden = HiddenRecords(damage)
    builder = QueueBuilder(target.consumequeue, config.consume_queue_file_size, hidden.before)
    settings = dispatch_config(config)
    service = IndexService(target, settings, on_full=lambda _: None)
    parts = [part for part, wanted in zip(PARTS, (queues, index), strict=True) if wanted]
    for part in parts:
        (target.root / part).mkdir()
    columns = QUEUE_COLUMNS + (INDEX_COLUMNS if index else ())
    rows = ColumnScan(columns, delay_levels=levels, batch_rows=BATCH_ROWS, batch_bytes=BATCH_BYTES)
    multi = MultiDispatch(builder, settings, levels) if queues else None
    walk = LogWalk(list_log_files(paths), DispatchScan(rows, multi), damage, progress=progress)
    records = record_bytes = 0
    try:
        for batch in walk.run():
            assert not isinstance(batch, Blank)
            records += len(batch)
            record_bytes += batch.nbytes
            if queues:
                builder.add(rows, batch)
            if index:
                service.put_batch(rows, batch, 0)
    finally:
        builder.close()
        files = service.files
        index_entries = sum(file.native.index_count - 1 for file in files)
        service.close()
    return RebuildReport(
        path=os.fspath(paths.root),
        out="",
        parts=tuple(parts),
        records=records,
        record_bytes=record_bytes,
        queues=builder.queues,
        queue_files=len(builder.paths),
        queue_entries=builder.entries,
        filled_entries=builder.filled,
        ignored_records=builder.ignored,
        index_files=len(files),
        index_entries=index_entries,
        damage=damage,
        seconds=0.0,
    )


def dispatch_config(config: MessageStoreConfig) -> MessageStoreConfig:
    """A configuration with everything switched on that makes entries: what the records ask for is built."""
    return replace(
        config, message_index_enable=True, index_file_write_enable=True, enable_lmq=True,
        enable_multi_dispatch=True,
    )  # fmt: skip


def sync_tree(folder: Path) -> None:
    """Wait until all files below a folder, and their names, are on disk.

    One sync of everything first: thousands of small ones after each other would take a disk seek each.
    """
    os.sync()
    for path, _, names in os.walk(folder):
        for name in names:
            fd = os.open(os.path.join(path, name), os.O_RDONLY)
            try:
                os.fsync(fd)
            finally:
                os.close(fd)
        sync_directory(path)
