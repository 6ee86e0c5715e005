"""Plan of a recovery, made by reading only; missing queues can be built during the scan.

Source: RocketMQ 5.5.0 DefaultMessageStore#recover, CommitLog#recoverNormally, #recoverAbnormally.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

from rmqcore._native.files.mapped_file import MappedFile
from rmqcore._native.scan.scan import ColumnScan
from rmqcore.config import MessageStoreConfig
from rmqcore.disk.checkpoint import StoreCheckpoint
from rmqcore.engine.log.commitlog import CommitLog
from rmqcore.engine.queues.consume_queues import ConsumeQueues
from rmqcore.engine.recovery import heal
from rmqcore.engine.recovery.aside import Aside, InNoQueue, in_no_queue_fields
from rmqcore.engine.recovery.cut import LogCut, find_cut
from rmqcore.engine.recovery.queue_findings import CLEAN_BYTES, QueueCheck, QueueFindings
from rmqcore.engine.recovery.queue_maker import MAKING_ROWS, QueueMaker
from rmqcore.engine.recovery.record_compare import RecordCompare
from rmqcore.engine.recovery.scan import (
    BATCH_BYTES,
    BLANK_LAST,
    Progress,
    RecoveryScan,
    ScannedLog,
    batch_rows,
)
from rmqcore.engine.recovery.start_file import Start, choose_start
from rmqcore.engine.recovery.unread_records import UnreadCount
from rmqcore.errors import CommitLogMissingError
from rmqcore.vocabulary.topics import QueueKey


@dataclass(frozen=True, slots=True)
class RecoveryPlan:
    """Plan of a recovery, made by `plan_recovery`.

    Attributes
    ----------
    clean_exit : bool
        True if the store had no abort file: the normal recovery, otherwise the abnormal one.
    distrust : str
        Reason to compare a store without an abort file as after a crash; empty if it is not.
    start : Start or None
        The file to start with; None if the log has no files.
    scan : ScannedLog or None
    min_phy_offset, end_phy_offset : int
        Start and future end of the log; -1 and 0 without files.
    confirm_phy_offset : int
        Start of the last sound record.
    dispatch_from : int
        Greatest end of a message with a queue entry; -1 without entries.
    findings : QueueFindings
        The part of the log compared with the queues, and the missing or wrong entries.
    queues_by_dispatch : bool
        True if no queue exists, and the log has each queue's records in order from its first one: dispatch makes the
        queues.
    cut : LogCut
    truncated_queues : tuple of (str, int)
        Queues with entries behind the end.
    destroys_queues : bool
        True if no CommitLog file exists, and the configuration lets the store continue without.
    warnings : tuple of str
    seconds : float
        Time spent on the plan.
    aside : InNoQueue
        Messages that no queue will hold; empty unless the caller asked for them.
    is_closed_end : bool
        True if the store was cleanly closed with this end of the log, and no record starts behind it.
    """

    clean_exit: bool
    distrust: str
    start: Start | None
    scan: ScannedLog | None
    min_phy_offset: int
    end_phy_offset: int
    confirm_phy_offset: int
    dispatch_from: int
    findings: QueueFindings
    queues_by_dispatch: bool
    cut: LogCut
    truncated_queues: tuple[tuple[str, int], ...]
    destroys_queues: bool
    warnings: tuple[str, ...]
    seconds: float
    aside: InNoQueue = field(default_factory=InNoQueue)
    is_closed_end: bool = False

    @property
    def cut_bytes(self) -> int:
        """Bytes of the log to cut."""
        return self.cut.cut_bytes

    @property
    def differing_entries(self) -> int:
        """Queue entries that are missing or wrong."""
        return self.findings.differing_entries

    @property
    def cuts_stale_bytes(self) -> bool:
        """True if the cut bytes are not records and lie behind a cleanly closed log: writeWithoutMmap leaves them."""
        return self.is_closed_end and self.cut_bytes > 0 and not self.cut.later

    @property
    def drops_something(self) -> bool:
        """True if messages are missing, or the recovery removes messages or their entries."""
        misnamed = () if self.findings.keeps_misnamed else self.findings.misnamed
        return bool(
            (self.cut_bytes and not self.cuts_stale_bytes)
            or self.truncated_queues
            or self.destroys_queues
            or self.warnings
            or self.aside.count
            or any(one.at_the_end for one in misnamed)
        )

    @property
    def loses_something(self) -> bool:
        """True if messages are missing, removed or damaged."""
        return self.drops_something or bool(self.findings.misnamed or self.findings.damage)

    def as_dict(self) -> dict[str, Any]:
        """Return the attributes as plain JSON values."""
        plain = asdict(replace(self, findings=QueueFindings()))
        del plain["findings"], plain["aside"]
        plain |= in_no_queue_fields(self.aside)
        plain["displaced_messages"] = self.aside.displaced
        return {**plain, **self.findings.as_dict(), "cut_bytes": self.cut_bytes}


def plan_recovery(
    commitlog: CommitLog,
    queues: ConsumeQueues,
    checkpoint: StoreCheckpoint,
    config: MessageStoreConfig,
    *,
    clean_exit: bool,
    compared_bytes: int | None = None,
    progress: Progress | None = None,
    maker: QueueMaker | None = None,
    foresee: bool = False,
    ends_at: int | None = None,
) -> RecoveryPlan:
    """Find the end of the log and the work to do; map no file, and write only through `maker`.

    Parameters
    ----------
    commitlog : CommitLog
        Loaded.
    queues : ConsumeQueues
        Loaded and recovered.
    checkpoint : StoreCheckpoint
    clean_exit : bool
        True if the store has no abort file.
    compared_bytes : int, optional
        Bytes of the log to compare with the queues; None: ``recover_check_bytes``.
    progress : callable, optional
        Called with (bytes done, bytes at most).
    maker : QueueMaker, optional
        Makes missing queues during the scan, if dispatch can make them.
    foresee : bool
        Find the messages that no queue will hold; files with entries that differ are read again for this.
    ends_at : int, optional
        CommitLog offset at which the log shall end, behind a record: all bytes behind it are cut, sound or not.
        `clean_exit` must be false.

    Raises
    ------
    ValueError
        No record ends at `ends_at`.
    CommitLogMissingError
        Queues have messages, but the CommitLog has no file.
    OSError
        A file cannot be read.
    """
    began = time.perf_counter()
    files, file_size = commitlog.files.files, commitlog.file_size
    dispatch_from = queues.max_phy_offset
    if not files and ends_at is None:
        return _plan_without_log(commitlog, queues, config, clean_exit, began)
    scanned = _before(files, ends_at)
    start = choose_start(
        scanned, file_size, checkpoint, dispatch_from, config, clean_exit=clean_exit
    )
    compare_from = max(0, dispatch_from - CLEAN_BYTES) if clean_exit else 0
    no_queue = not queues.queues()
    makes = maker if no_queue and start.number == 0 else None
    rows = MAKING_ROWS if makes else batch_rows(len(queues.queues()))
    most = config.recover_check_bytes if compared_bytes is None else compared_bytes
    check = QueueCheck(
        commitlog, queues, config, most, compare_from, none_held=no_queue, maker=makes
    )
    scan = partial(
        _scan,
        commitlog,
        scanned,
        rows,
        config,
        start,
        progress=progress,
        known_to=dispatch_from,
        ends_at=ends_at,
    )
    found = scan(check, batches_from=compare_from)
    end = found.end_phy_offset
    if ends_at is not None and end > ends_at:
        raise ValueError(
            f"ends_at is {ends_at}, expected the end of a record: the one there ends at {end}"
        )
    cut = find_cut(files, file_size, end, ends_in_blank=found.stop.reason == BLANK_LAST)
    distrust = _behind_the_log(cut, dispatch_from, checkpoint, end) if clean_exit else ""
    trusted = clean_exit and not distrust
    findings = check.finish(found.start_phy_offset, end, clean_exit=trusted)
    if check.is_half:
        check = QueueCheck(commitlog, queues, config, most)
        scan(check)
        findings = check.finish(found.start_phy_offset, end, clean_exit=trusted)
    distrust = distrust or findings.distrust
    by_dispatch = no_queue and found.records > 0 and start.number == 0 and check.is_in_order
    if makes is not None and not by_dispatch:
        makes.stop()
    aside = InNoQueue()
    if foresee and not by_dispatch and findings.differing:
        noted = Aside()
        heal_by_plan(findings, commitlog, queues, config, end, noted, plans=True)
        aside = noted.in_no_queue(queues)
    return RecoveryPlan(
        clean_exit=clean_exit,
        distrust=distrust,
        start=start,
        scan=found,
        min_phy_offset=files[0].file_from_offset,
        end_phy_offset=end,
        confirm_phy_offset=found.last_phy_offset if found.records else found.start_phy_offset,
        dispatch_from=dispatch_from,
        findings=findings,
        queues_by_dispatch=by_dispatch,
        cut=cut,
        truncated_queues=_queues_behind(queues, end),
        destroys_queues=False,
        warnings=tuple(missing_files(files, file_size)),
        seconds=time.perf_counter() - began,
        aside=aside,
        is_closed_end=clean_exit
        and found.stop.field == "MAGIC"
        and checkpoint.closed_with(found.last_phy_offset, found.last_store_timestamp_ms),
    )


def refuse_missing_end(
    commitlog: CommitLog,
    queues: ConsumeQueues,
    checkpoint: StoreCheckpoint,
    config: MessageStoreConfig,
) -> None:
    """Refuse a log that was longer at its clean exit: new messages would get the offsets of files missing at its end.

    A single entry, or the checkpoint, may lead behind the last file because of damage: two witnesses are required.

    Parameters
    ----------
    commitlog : CommitLog
        Loaded.
    queues : ConsumeQueues
        Loaded and recovered.
    checkpoint : StoreCheckpoint
    config : MessageStoreConfig
        ``recover_without_commit_log`` lets the open continue.

    Raises
    ------
    CommitLogMissingError
        A directory of the log is missing, or not configured.
    """
    if not len(commitlog.files) or config.recover_without_commit_log:
        return
    end = commitlog.files.end_offset
    behind = _queues_behind(queues, end)
    witnesses = len(behind) + (checkpoint.newest_known_phy_offset >= end)
    if behind and witnesses > 1:
        raise CommitLogMissingError(
            f"{', '.join(map(str, commitlog.folders))}: the last file ends at {end}, but after a "
            f"clean exit {len(behind)} consume queues have entries up to CommitLog offset "
            f"{queues.max_phy_offset}"
        )


def heal_by_plan(
    findings: QueueFindings,
    commitlog: CommitLog,
    queues: ConsumeQueues,
    config: MessageStoreConfig,
    end_phy_offset: int,
    aside: Aside,
    *,
    plans: bool = False,
) -> heal.HealResult:
    """Write the entries that a comparison found missing or wrong, newest file first; with `plans` write nothing."""

    def end_of(place: QueueKey) -> int | None:
        end = findings.end_of(place)
        if end is None:
            queue = queues.find(*place)
            end = queue.max_offset if queue is not None and queue.last_file >= 0 else None
        return end

    healer = heal.Healer(
        commitlog,
        queues,
        config,
        end_phy_offset,
        ends=end_of,
        aside=aside,
        plans=plans,
        passed=[one.phy_offset for one in findings.staying],
    )
    for file in reversed(commitlog.files.files):
        if file.file_from_offset in findings.differing:
            healer.heal_file(file, differs=True)
    return healer.result


def _before(files: Sequence[MappedFile], ends_at: int | None) -> Sequence[MappedFile]:
    """Return the files with bytes before the end that the caller set for the log."""
    if ends_at is None:
        return files
    found = [file for file in files if file.file_from_offset < ends_at]
    if not found:
        first = files[0].file_from_offset if files else 0
        raise ValueError(f"ends_at is {ends_at}, but the log starts at {first}")
    return found


def _scan(
    commitlog: CommitLog,
    files: Sequence[MappedFile],
    batch_rows: int,
    config: MessageStoreConfig,
    start: Start,
    check: QueueCheck,
    *,
    progress: Progress | None,
    batches_from: int = 0,
    known_to: int,
    ends_at: int | None,
) -> ScannedLog:
    """Scan the log from a file on, and pass each batch and each skipped range to `check`."""
    columns = dict.fromkeys((*RecordCompare.columns, *UnreadCount(config.for_version).wanted))
    rows = ColumnScan(
        tuple(columns),
        delay_levels=commitlog.delay_levels,
        stop_offset=ends_at,
        batch_rows=batch_rows,
        batch_bytes=BATCH_BYTES,
    )
    return RecoveryScan(
        files,
        commitlog.file_size,
        config,
        rows,
        check.add,
        progress,
        watch=check.records.watch,
        batches_from=batches_from,
        passed_over=check.found.damage.append,
        known_to=known_to,
        ends_from=start.ends_from,
    ).run(start.number)


def _plan_without_log(
    commitlog: CommitLog,
    queues: ConsumeQueues,
    config: MessageStoreConfig,
    clean_exit: bool,
    began: float,
) -> RecoveryPlan:
    dispatch_from, known = queues.max_phy_offset, tuple(queues.queues())
    if dispatch_from > 0 and not config.recover_without_commit_log:
        raise CommitLogMissingError(
            f"{', '.join(map(str, commitlog.folders))}: there is no CommitLog file, but "
            f"{len(known)} consume queues have entries up to CommitLog offset {dispatch_from}"
        )
    nothing = LogCut(None, (), ())
    return RecoveryPlan(
        clean_exit=clean_exit,
        distrust="",
        start=None,
        scan=None,
        min_phy_offset=-1,
        end_phy_offset=0,
        confirm_phy_offset=0,
        dispatch_from=dispatch_from,
        findings=QueueFindings(),
        queues_by_dispatch=False,
        cut=nothing,
        truncated_queues=known if dispatch_from > 0 else (),
        destroys_queues=bool(known),
        warnings=(),
        seconds=time.perf_counter() - began,
    )


def _behind_the_log(
    cut: LogCut, dispatch_from: int, checkpoint: StoreCheckpoint, end_phy_offset: int
) -> str:
    """Return why a store without an abort file was not cleanly closed: bytes, entries or checkpoint behind the log.

    Queues of a store that was not cleanly closed end earlier than before, in files that the open of a closed store
    checks only by their first and last entries. Entries that this open misses there would differ at the next one.
    """
    if cut.cut_bytes:
        return f"{cut.cut_bytes} bytes are behind the end of the log"
    if dispatch_from > end_phy_offset:
        return f"queues have entries up to {dispatch_from}, the log ends at {end_phy_offset}"
    known = checkpoint.newest_known_phy_offset
    if known > 0 and known >= end_phy_offset:
        return f"the checkpoint names a message at {known}, the log ends at {end_phy_offset}"
    return ""


def _queues_behind(queues: ConsumeQueues, end_offset: int) -> tuple[tuple[str, int], ...]:
    """Return the queues that have messages behind the end of the log."""
    if queues.max_phy_offset <= end_offset:
        return ()
    found = ((place, queues.find(*place)) for place in queues.queues())
    return tuple(
        place for place, queue in found if queue is not None and queue.max_phy_offset > end_offset
    )


def missing_files(files: Sequence[MappedFile], file_size: int) -> list[str]:
    """Return the files that are missing between the first and the last one.

    As in Java the log continues behind them with unchanged offsets; their messages cannot be read.
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
