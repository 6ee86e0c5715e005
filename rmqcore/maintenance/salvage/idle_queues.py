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
from rmqcore.maintenance.salvage.queue_claims import QueueClaims
from rmqcore.offline.queues.queues import QueueFiles, each_queue


def keep_idle_queues(
    paths: StorePaths, claims: QueueClaims, log_begin: int, file_size: int, target: Folder
) -> int:
    """Give each queue that has no record in the log the file in which its expired messages end; answer how many these are.

    Parameters
    ----------
    paths : StorePaths
        Of the old store.
    claims : QueueClaims
    log_begin : int
        Entries of messages before this CommitLog offset are expired.
    file_size : int
        Bytes of a queue file.
    target : Folder
        The ``consumequeue`` folder of the new store.
    """
    kept = 0
    for queue in each_queue(paths):
        if not claims.has((queue.topic, queue.queue_id)):
            kept += _keep(queue, log_begin, file_size, target)
    return kept


def _keep(queue: QueueFiles, log_begin: int, file_size: int, target: Folder) -> bool:
    for file in reversed(queue.files):
        if file.file_from_offset % file_size or file.size > file_size:
            continue  # no file of this store
        data = _expired(file, log_begin)
        if data:
            _write(
                target, f"{queue.topic}/{queue.queue_id}", file.file_from_offset, file_size, data
            )
            return True
    return False


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


def _write(target: Folder, place: str, start: int, file_size: int, data: bytes) -> None:
    with target.folder(place, make=True) as folder:
        name = file_name(start)
        file = folder.open_file(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        try:
            with naming(folder.path / name):
                os.ftruncate(file.fileno(), file_size)
                write_all(file.fileno(), data, 0)
        finally:
            file.close()
