"""Bytes of the log that a broker start would cut.

A start reads records, beginning with a file near the log's end, and takes the first place without a sound record for
the end of the log.

Source: RocketMQ 5.5.0 CommitLog#recoverNormally, #recoverAbnormally, #isMappedFileMatchedRecover.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from rmqcore.disk.checkpoint import StoreCheckpoint
from rmqcore.offline.fsck.log_pass import LogAudit
from rmqcore.offline.log.damage import DamageRange
from rmqcore.offline.log.long_record import MOST_WHOLE

RECOVER_FILES = 10
"""commitLogRecoverMaxNum."""

CUTTING = ("crc", "record", "torn_tail", "blank", "short_file", "unreadable")
"""Kinds of damage at which Java's recovery ends the log; behind a missing file it goes on with the next file."""

PASSED_OVER = ("crc", "record")
"""Kinds with something sound behind them, of which a start may pass over all."""


@dataclass(frozen=True, slots=True)
class BrokerStart:
    """Changes to the log when a broker opens it with its default configuration.

    Attributes
    ----------
    recovers_from : int
        CommitLog offset of the file with which it begins to read.
    cut_phy_offset : int or None
        Where it cuts the log; None when it keeps the whole log.
    cut_bytes, cut_records : int
        Bytes from there to the last written byte, and the sound records in them. Only records before the end of the first
        10,000 damaged ranges are counted.
    """

    recovers_from: int
    cut_phy_offset: int | None
    cut_bytes: int
    cut_records: int

    def as_dict(self) -> dict[str, Any]:
        """The attributes by name."""
        return asdict(self)


def broker_start(
    log: LogAudit, checkpoint: StoreCheckpoint | None, dispatched_end: int, *, unclean: bool
) -> BrokerStart:
    """Find what a broker start would cut.

    Parameters
    ----------
    dispatched_end : int
        The greatest end of a message that has a queue entry; -1 when no message has.
    unclean : bool
        The abort file is there.
    """
    start = _recovers_from(log, checkpoint or StoreCheckpoint(), dispatched_end, unclean=unclean)
    for at, damaged in enumerate(log.damage.ranges):
        if damaged.kind in CUTTING and damaged.end_phy_offset > start:
            cut = _first_cut(log, damaged)
            if cut is None:
                continue
            end = max(log.log_end, log.damage.ranges[-1].end_phy_offset)
            sound_before = log.damage.sound_before
            before = sound_before[at] if at < len(sound_before) else log.records
            return BrokerStart(start, cut, end - cut, log.records - before)
    return BrokerStart(start, None, 0, 0)


def _first_cut(log: LogAudit, damaged: DamageRange) -> int | None:
    """Return the first place in a damaged range where a broker's start ends the log; None if the start passes over all of it.

    It asks for no PHYSICALOFFSET, and for no BODYCRC of an empty body.
    """
    at = damaged.start_phy_offset
    while damaged.kind in PASSED_OVER and at < damaged.end_phy_offset:
        view = log.record_of_any_place(at, damaged.end_phy_offset)
        if view is None or (view.body_size > 0 and not view.crc_ok()):
            return at
        at += view.msg_size
    return None if at == damaged.end_phy_offset else damaged.start_phy_offset


def _recovers_from(
    log: LogAudit, checkpoint: StoreCheckpoint, dispatched_end: int, *, unclean: bool
) -> int:
    """Return the newest file whose first record is old enough; the oldest of the last ten files if no file is."""
    files = log.files[-RECOVER_FILES:]
    for file in reversed(files):
        first = log.record(file.file_from_offset, most_whole=MOST_WHOLE)
        if first is None or first.store_timestamp_ms == 0 or not first.crc_ok():
            continue
        if not unclean:
            old = first.phy_offset <= dispatched_end
        elif checkpoint.logics_physical_offset > 0:
            old = first.phy_offset <= checkpoint.logics_physical_offset
        else:
            old = first.store_timestamp_ms <= checkpoint.logics_msg_timestamp_ms
        if old:
            return file.file_from_offset
    return files[0].file_from_offset if files else 0
