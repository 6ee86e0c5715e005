"""Choice of the CommitLog file at which a recovery starts to read.

From the newest file back this is the first file whose first record is so old that queues (and, if configured, the
index) were complete there.

Source: RocketMQ 5.5.0 CommitLog#recoverNormally, #recoverAbnormally, #isMappedFileMatchedRecover,
ConsumeQueueStore#isMappedFileMatchedRecover, IndexService#isMappedFileMatchedRecover.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rmqcore._native.files.mapped_file import MappedFile
from rmqcore._native.scan import places, scan
from rmqcore._native.scan.scan import ColumnScan
from rmqcore.config import MessageStoreConfig
from rmqcore.disk.checkpoint import StoreCheckpoint
from rmqcore.disk.log_window import WholeFile


@dataclass(frozen=True, slots=True)
class FirstRecord:
    """Fields of a file's first record for the choice; `phy_offset` is the record's own PHYSICALOFFSET."""

    phy_offset: int
    store_timestamp_ms: int


@dataclass(frozen=True, slots=True)
class Start:
    """The file at which a recovery starts.

    Attributes
    ----------
    number : int
        Number of the file, counted from the oldest.
    matched : bool
        True if its first record is old enough; False if no file has a first record that is old enough.
    reason : str
    files_looked_at : int
    ends_from : int
        CommitLog offset of the file at which Java starts, after it has looked at ``commit_log_recover_max_num`` files
        at most: damage before it does not end the log.
    """

    number: int
    matched: bool
    reason: str
    files_looked_at: int
    ends_from: int = 0


def choose_start(
    files: Sequence[MappedFile],
    file_size: int,
    checkpoint: StoreCheckpoint,
    dispatch_from: int,
    config: MessageStoreConfig,
    *,
    clean_exit: bool,
) -> Start:
    """Find the file at which a recovery starts.

    At most ``commit_log_recover_max_num`` files are checked, and more while queues end before them; if no file matches,
    the last file checked is the result.

    Parameters
    ----------
    files : sequence of MappedFile
        Ascending, at least one.
    dispatch_from : int
        Greatest end of a message with a queue entry; -1 without entries.
    """
    most = config.commit_log_recover_max_num
    # Java stops here even if queues end before this file, and never makes the entries between.
    oldest = files[max(0, len(files) - most)].file_from_offset
    for number in range(len(files) - 1, -1, -1):
        looked_at = len(files) - number
        first = read_first_record(files[number], file_size, config)
        why = _matches(first, checkpoint, dispatch_from, config, clean_exit=clean_exit)
        if why:
            return Start(number, True, why, looked_at, max(oldest, files[number].file_from_offset))
        missing = 0 <= dispatch_from < files[number].file_from_offset
        if looked_at >= most and not missing:
            return Start(
                number, False, f"none of the newest {most} files qualified", looked_at, oldest
            )
    return Start(0, False, "the oldest file", len(files), oldest)


def read_first_record(
    file: MappedFile, file_size: int, config: MessageStoreConfig
) -> FirstRecord | None:
    """Return the record at the start of a file; None if it is not sound (zeros, a BLANK, damage)."""
    rows = ColumnScan(["phy_offset", "store_timestamp_ms"], batch_rows=1)
    prop_crc = config.check_crc_on_recover and config.force_verify_prop_crc
    with WholeFile(file.path, file_size) as source:
        check_place = config.check_commit_log_offset_on_recover
        window = source.window(file.file_from_offset, room=4096, check_place=check_place)
        while not rows.pending_rows:
            place = window.feed(
                rows.feed,
                0,
                check_place=check_place,
                check_crc=config.check_crc_on_recover and not prop_crc,
            )
            if place.code not in (scan.END, scan.FULL):
                return None
        if prop_crc:
            failures = places.prop_crc_failures(window.buf, 0, window.length, 1, required=True)[2]
            if failures and failures[0][0] == 0:
                return None
    batch = rows.take()
    phy_offset = np.frombuffer(batch.buffer("phy_offset"), np.int64)
    store_timestamp_ms = np.frombuffer(batch.buffer("store_timestamp_ms"), np.int64)
    return FirstRecord(int(phy_offset[0]), int(store_timestamp_ms[0]))


def _matches(
    first: FirstRecord | None,
    checkpoint: StoreCheckpoint,
    dispatch_from: int,
    config: MessageStoreConfig,
    *,
    clean_exit: bool,
) -> str:
    """Return why a recovery may start at the file with this first record; empty if it may not."""
    if first is None or first.store_timestamp_ms == 0:
        return ""
    index_safe = config.message_index_enable and config.message_index_safe
    if index_safe and first.store_timestamp_ms > checkpoint.index_msg_timestamp_ms:
        return ""
    if clean_exit:
        reason, found, limit = "queues reach up to", first.phy_offset, dispatch_from
    elif checkpoint.logics_physical_offset > 0:
        reason = "the checkpoint says that queues were on disk up to"
        found, limit = first.phy_offset, checkpoint.logics_physical_offset
    else:
        reason = "the checkpoint says that queues were on disk up to the time"
        found, limit = first.store_timestamp_ms, checkpoint.logics_msg_timestamp_ms
    return f"{reason} {limit}" if found <= limit else ""
