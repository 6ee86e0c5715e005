"""What a recovery will do, found by reading only.

Source: RocketMQ 5.5.0 DefaultMessageStore#recover, CommitLog#recoverNormally, #recoverAbnormally.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from rmqcore._native.mapped_file import MappedFile, MappedFiles
from rmqcore._native.scan import Batch
from rmqcore.config import MessageStoreConfig
from rmqcore.engine.checkpoint import StoreCheckpoint
from rmqcore.engine.recovery_cut import LogCut, find_cut
from rmqcore.engine.recovery_scan import BLANK_LAST, Progress, RecoveryScan, ScanResult
from rmqcore.engine.recovery_start import Start, choose_start
from rmqcore.errors import CommitLogMissingError
from rmqcore.sysflag import TRANSACTION_PREPARED

COLUMNS = ("phy_offset", "msg_size", "sys_flag", "store_timestamp_ms")


class Log(Protocol):
    """What a plan needs of a CommitLog that is loaded."""

    files: MappedFiles
    file_size: int


class Queue(Protocol):
    """What a plan needs of a ConsumeQueue."""

    @property
    def max_phy_offset(self) -> int:
        """End of the last message that has an entry; -1 without any."""


class Queues(Protocol):
    """What a plan needs of ConsumeQueues that are loaded and recovered."""

    @property
    def max_phy_offset(self) -> int:
        """The greatest of all queues; -1 without any entry."""

    def end_at_holes(self, phy_offset: int) -> int:
        """End queues before the first entry that is missing at or behind an offset; how many."""

    def queues(self) -> list[tuple[str, int]]:
        """Topics and queue ids."""

    def find(self, topic: str, queue_id: int) -> Any:
        """One of them."""


@dataclass(frozen=True, slots=True)
class RecoveryPlan:
    """What `plan_recovery` found.

    Attributes
    ----------
    clean_exit : bool
        There was no abort file: the normal recovery, else the abnormal one.
    start : Start or None
        The file to begin with; None without files.
    scan : ScanResult or None
    min_phy_offset, end_phy_offset : int
        Where the log begins and will end; -1 and 0 without files.
    confirm_phy_offset : int
        Start of the last sound record.
    dispatch_from : int
        Greatest end of a message that has a queue entry; -1 without any.
    redispatch_from, redispatch_count : int
        Records from here on are given to the queues again, and how many of them have entries. What a queue has, it ignores.
    scanned_entries : int
        Records of the scan that have entries.
    cut : LogCut
    truncated_queues : tuple of (str, int)
        Queues with entries behind the end.
    destroys_queues : bool
        There is no CommitLog file, and the configuration says to go on without.
    warnings : tuple of str
    seconds : float
        What finding all this took.
    """

    clean_exit: bool
    start: Start | None
    scan: ScanResult | None
    min_phy_offset: int
    end_phy_offset: int
    confirm_phy_offset: int
    dispatch_from: int
    redispatch_from: int
    redispatch_count: int
    scanned_entries: int
    cut: LogCut
    truncated_queues: tuple[tuple[str, int], ...]
    destroys_queues: bool
    warnings: tuple[str, ...]
    seconds: float

    @property
    def cut_bytes(self) -> int:
        """Bytes of the log that are cut."""
        return self.cut.cut_bytes

    @property
    def loses_something(self) -> bool:
        """Whether anything that somebody wrote is cut or missing."""
        return bool(
            self.cut_bytes or self.truncated_queues or self.destroys_queues or self.warnings
        )

    def as_dict(self) -> dict[str, Any]:
        """The attributes as plain JSON values."""
        return {**asdict(self), "cut_bytes": self.cut_bytes}


def plan_recovery(
    commitlog: Log,
    queues: Queues,
    checkpoint: StoreCheckpoint,
    config: MessageStoreConfig,
    *,
    clean_exit: bool,
    progress: Progress | None = None,
) -> RecoveryPlan:
    """Find where the log ends and what has to be done; nothing is written or mapped.

    Parameters
    ----------
    commitlog : CommitLog
        Loaded.
    queues : ConsumeQueues
        Loaded and recovered.
    checkpoint : StoreCheckpoint
    clean_exit : bool
        There is no abort file.
    progress : callable, optional
        Called with (bytes done, bytes at most).

    Raises
    ------
    CommitLogMissingError
        There are queues with messages and no CommitLog file at all.
    OSError
        A file cannot be read.
    """
    began = time.perf_counter()
    files, file_size = commitlog.files.files, commitlog.file_size
    dispatch_from = queues.max_phy_offset
    if not files:
        return _plan_without_log(queues, dispatch_from, config, clean_exit, began)
    start = choose_start(files, file_size, checkpoint, dispatch_from, config, clean_exit=clean_exit)
    if not clean_exit and queues.end_at_holes(files[start.number].file_from_offset):
        dispatch_from = queues.max_phy_offset
    counted = _Redispatch(dispatch_from)
    found = RecoveryScan(files, file_size, config, COLUMNS, counted.add, progress).run(start.number)
    end = found.end_phy_offset
    if not clean_exit or dispatch_from > end:
        counted.take_all(found.start_phy_offset)
    return RecoveryPlan(
        clean_exit=clean_exit,
        start=start,
        scan=found,
        min_phy_offset=files[0].file_from_offset,
        end_phy_offset=end,
        confirm_phy_offset=found.last_phy_offset if found.records else found.start_phy_offset,
        dispatch_from=dispatch_from,
        redispatch_from=counted.first if counted.first >= 0 else end,
        redispatch_count=counted.count,
        scanned_entries=counted.all,
        cut=find_cut(files, file_size, end, ends_in_blank=found.stop.reason == BLANK_LAST),
        truncated_queues=_queues_behind(queues, end),
        destroys_queues=False,
        warnings=(*missing_files(files, file_size), *_not_in_queues(start, found, dispatch_from)),
        seconds=time.perf_counter() - began,
    )


def _plan_without_log(
    queues: Queues, dispatch_from: int, config: MessageStoreConfig, clean_exit: bool, began: float
) -> RecoveryPlan:
    known = tuple(queues.queues())
    if dispatch_from > 0 and not config.recover_without_commit_log:
        raise CommitLogMissingError(
            f"there is no CommitLog file, but {len(known)} consume queues know messages up to CommitLog offset "
            f"{dispatch_from}"
        )
    nothing = LogCut(None, (), ())
    return RecoveryPlan(
        clean_exit=clean_exit,
        start=None,
        scan=None,
        min_phy_offset=-1,
        end_phy_offset=0,
        confirm_phy_offset=0,
        dispatch_from=dispatch_from,
        redispatch_from=0,
        redispatch_count=0,
        scanned_entries=0,
        cut=nothing,
        truncated_queues=known if dispatch_from > 0 else (),
        destroys_queues=bool(known),
        warnings=(),
        seconds=time.perf_counter() - began,
    )


class _Redispatch:
    """Counts the records that the queues are given again: those behind `after`, or (after a crash, as in Java) all."""

    def __init__(self, after: int) -> None:
        self._after = after
        self.first = -1
        self.count = 0
        self.all = 0

    def add(self, batch: Batch, begin: int) -> None:
        """Look at a batch whose first record lies at CommitLog offset `begin`."""
        phy_offset = np.frombuffer(batch.buffer("phy_offset"), np.int64)
        sys_flag = np.frombuffer(batch.buffer("sys_flag"), np.int32)
        # The types with this bit, PREPARED and ROLLBACK, have no entry.
        has_entry = sys_flag & TRANSACTION_PREPARED == 0
        wanted = phy_offset > self._after
        self.all += int(np.count_nonzero(has_entry))
        self.count += int(np.count_nonzero(wanted & has_entry))
        if self.first < 0 and wanted.any():
            sizes = np.frombuffer(batch.buffer("msg_size"), np.int32)
            self.first = begin + int(sizes[: int(wanted.argmax())].sum(dtype=np.int64))

    def take_all(self, start: int) -> None:
        """Count all records of the scan, which began at CommitLog offset `start`."""
        self.first, self.count = start, self.all


def _queues_behind(queues: Queues, end_offset: int) -> tuple[tuple[str, int], ...]:
    """Queues that know messages behind the end of the log."""
    if queues.max_phy_offset <= end_offset:
        return ()
    return tuple(
        place for place in queues.queues() if queues.find(*place).max_phy_offset > end_offset
    )


def _not_in_queues(start: Start, found: ScanResult, dispatch_from: int) -> list[str]:
    """Say when the scan begins behind messages that may be in no queue: only so many of the newest files are looked at."""
    if start.matched or start.number == 0 or dispatch_from >= found.start_phy_offset:
        return []
    where = f"messages before CommitLog offset {found.start_phy_offset}"
    return [
        f"{where} may have no queue entry, and are not dispatched again ({start.reason}): run `rmqcore rebuild --cq`"
    ]


def missing_files(files: Sequence[MappedFile], file_size: int) -> list[str]:
    """Say which files are missing between the first and the last one.

    As in Java the log goes on behind them with its offsets unchanged; what they held cannot be read.
    """
    found = []
    for one, other in pairwise(files):
        expected = one.file_from_offset + file_size
        if other.file_from_offset > expected:
            size = other.file_from_offset - expected
            found.append(
                f"{Path(other.path).parent}: files are missing between offsets {expected} and "
                f"{other.file_from_offset} ({size} bytes); messages there cannot be read"
            )
    return found
