"""What a store is, in numbers: the answer of `rmqcore info`."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rmqcore._native.scan.batch import Batch
from rmqcore._native.scan.scan import ColumnScan
from rmqcore.disk.checkpoint import StoreCheckpoint, read_checkpoint
from rmqcore.disk.paths import StorePaths
from rmqcore.errors import StoreError
from rmqcore.offline.log.damage import DamageRange
from rmqcore.offline.log.log_files import LogFile, mapped_file_size
from rmqcore.offline.log.walk import Blank, LogWalk


@dataclass(frozen=True)
class StoreInfo:
    """Sizes, counts and offsets of a store.

    Attributes
    ----------
    min_phy_offset, max_phy_offset : int
        CommitLog bytes: start of the first file, and end of the last sound record.
    mapped_file_size : int
        Bytes a CommitLog file has (mappedFileSizeCommitLog).
    first_store_timestamp_ms, last_store_timestamp_ms : int or None
        Of the oldest and newest message.
    abort : bool
        The ``abort`` file is there: the store is in use, or was not cleanly closed.
    commitlog_bytes, consumequeue_bytes, index_bytes : int
        Bytes on disk (allocated blocks: the files are sparse).
    """

    path: str
    mapped_file_size: int
    log_file_count: int
    commitlog_bytes: int
    consumequeue_bytes: int
    index_bytes: int
    min_phy_offset: int
    max_phy_offset: int
    first_store_timestamp_ms: int | None
    last_store_timestamp_ms: int | None
    topic_count: int
    queue_count: int
    index_file_count: int
    checkpoint: StoreCheckpoint | None
    checkpoint_error: str | None
    abort: bool

    def as_dict(self) -> dict[str, Any]:
        """The attributes as plain JSON values."""
        return asdict(self)


def read_info(paths: StorePaths, files: list[LogFile]) -> StoreInfo:
    """Gather a StoreInfo: directories are listed, and only the ends of the CommitLog are read."""
    first, last, end = _log_times(files)
    checkpoint, checkpoint_error = None, None
    try:
        checkpoint = read_checkpoint(paths.checkpoint)
    except StoreError as error:
        checkpoint_error = str(error)
    queue_dirs = _queue_directories(paths.consumequeue)
    return StoreInfo(
        path=str(paths.root),
        mapped_file_size=mapped_file_size(files),
        log_file_count=len(files),
        commitlog_bytes=sum(map(_disk_bytes, paths.commitlogs)),
        consumequeue_bytes=_disk_bytes(paths.consumequeue),
        index_bytes=_disk_bytes(paths.index),
        min_phy_offset=files[0].file_from_offset if files else 0,
        max_phy_offset=end,
        first_store_timestamp_ms=first,
        last_store_timestamp_ms=last,
        topic_count=len({directory.parent for directory in queue_dirs}),
        queue_count=len(queue_dirs),
        index_file_count=sum(name.isdigit() for name in _names(paths.index)),
        checkpoint=checkpoint,
        checkpoint_error=checkpoint_error,
        abort=paths.abort.exists(),
    )


def log_end(files: list[LogFile]) -> int:
    """CommitLog offset behind the last sound record."""
    return _log_times(files)[2]


def _log_times(files: list[LogFile]) -> tuple[int | None, int | None, int]:
    """Store timestamps of the first and last message, and where the log ends.

    The newest file may be allocated and empty, so older ones are asked until one holds a message.
    """
    first, last, end = None, None, files[-1].file_from_offset if files else 0
    for file in files:
        first = next((times[0] for times, _ in _times(files, file)), None)
        if first is not None:
            break
    for file in reversed(files):
        for times, walk_end in _times(files, file):
            last, end = times[-1], walk_end
        if last is not None:
            break
        end = file.file_from_offset
    return first, last, end


def _times(files: list[LogFile], file: LogFile) -> Any:
    """Store timestamps of one file, a batch at a time, with the end of the last record so far."""
    damage: list[DamageRange] = []
    sink = ColumnScan(("phy_offset", "msg_size", "store_timestamp_ms"), batch_rows=65536)
    walk: LogWalk[Batch] = LogWalk(
        files, sink, damage, start=file.file_from_offset, stop=file.end_offset
    )
    for batch in walk.run():
        if isinstance(batch, Blank) or not batch.num_rows:
            continue
        times = np.frombuffer(batch.buffer("store_timestamp_ms"), np.int64)
        starts = np.frombuffer(batch.buffer("phy_offset"), np.int64)
        sizes = np.frombuffer(batch.buffer("msg_size"), np.int32)
        yield [int(times[0]), int(times[-1])], int(starts[-1]) + int(sizes[-1])


def _names(directory: Path) -> list[str]:
    try:
        return sorted(os.listdir(directory))
    except (FileNotFoundError, NotADirectoryError):
        return []


def _queue_directories(consumequeue: Path) -> list[Path]:
    return [
        consumequeue / topic / queue
        for topic in _names(consumequeue)
        for queue in _names(consumequeue / topic)
        if queue.isdigit()
    ]


def _disk_bytes(directory: Path) -> int:
    """Allocated bytes of all files below a directory."""
    total = 0
    for folder, _, names in os.walk(directory):
        for name in names:
            try:
                total += os.stat(os.path.join(folder, name)).st_blocks * 512
            except FileNotFoundError:  # cleaned meanwhile
                continue
    return total
