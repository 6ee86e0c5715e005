"""Queues whose messages have all left the log: no record says where they end, and a consumer group has read that far.

Without their files a broker would number their next messages from 0 again, and groups that are behind that would not see them.
"""

from __future__ import annotations

import os

import numpy as np

from rmqcore._native.format.cq import valid_prefix
from rmqcore._native.format.cq_arrays import unpack_cq_entries
from rmqcore._native.format.layout import CQ_FILLER_SIZE, CQ_STORE_UNIT_SIZE
from rmqcore.disk.inside.folder import Folder
from rmqcore.disk.inside.opened import naming, write_all
from rmqcore.disk.paths import StorePaths, file_name
from rmqcore.disk.queue_files import QueueFile
from rmqcore.errors import RocksdbError
from rmqcore.offline.queues.queues import QueueFiles, each_queue


def keep_idle_queues(paths: StorePaths, log_begin: int, file_size: int, target: Folder) -> int:
    """Write the file in which the expired messages of a queue end, for each queue that `target` lacks.

    Parameters
    ----------
    paths : StorePaths
        Of the old store.
    log_begin : int
        CommitLog offset, bytes: entries of messages before it are expired.
    file_size : int
        Bytes of a queue file.
    target : Folder
        The new ``consumequeue`` folder, with all queues that have records in the log.

    Returns
    -------
    int
        The number of queues that were kept.
    """
    kept = 0
    for queue in each_queue(paths, unreadable=pass_over_damaged_database):
        if target.status(f"{queue.topic}/{queue.queue_id}") is not None:
            continue
        end = expired_end(queue, log_begin, file_size)
        if end is not None:
            write_end(target, queue.topic, queue.queue_id, end, file_size)
            kept += 1
    return kept


def pass_over_damaged_database(path: str, error: OSError) -> None:
    """Pass over queues in a database that cannot be read, which fsck and doctor report: queues are made of the log also then."""
    del path
    if not isinstance(error, RocksdbError):
        raise error


def expired_end(queue: QueueFiles, log_begin: int, file_size: int) -> tuple[int, bytes] | None:
    """Return the start of the queue's newest file with expired messages, in bytes, and the entries there up to the last of them.

    None if no file of `file_size` has an entry of an expired message. The other parameters are those of `keep_idle_queues`.
    """
    for file in reversed(queue.files):
        if file.file_from_offset % file_size or file.size > file_size:
            continue  # a file of another size
        data = _expired(file, log_begin)
        if data:
            return file.file_from_offset, data
    return None


def write_end(
    target: Folder, topic: str, queue_id: int, end: tuple[int, bytes], file_size: int
) -> str:
    """Write a queue file with what `expired_end` returned; return its path relative to `target`.

    Raises
    ------
    OSError
        The file is there, or cannot be written.
    """
    start, data = end
    place, name = f"{topic}/{queue_id}", file_name(start)
    with target.folder(place, make=True) as folder:
        file = folder.open_file(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        try:
            with naming(folder.path / name):
                os.ftruncate(file.fileno(), file_size)
                write_all(file.fileno(), data, 0)
        finally:
            file.close()
    return f"{place}/{name}"


def _expired(file: QueueFile, log_begin: int) -> bytes:
    """The first entries of a file, as far as they are those of expired messages."""
    data = file.read(0, file.entry_count)
    entries = unpack_cq_entries(data[: valid_prefix(data) * CQ_STORE_UNIT_SIZE])
    phy_offsets = entries["phy_offset"].astype(np.int64)
    filler = (entries["msg_size"] == CQ_FILLER_SIZE) & (phy_offsets == 0)
    before = np.maximum.accumulate(np.concatenate(([-1], phy_offsets[:-1])))
    fits = filler | ((phy_offsets < log_begin) & (phy_offsets > before))
    count = len(entries) if fits.all() else int(np.argmin(fits))
    messages = np.flatnonzero(~filler[:count])
    return data[: (int(messages[-1]) + 1) * CQ_STORE_UNIT_SIZE] if len(messages) else b""
