"""Report of a recovery."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from rmqcore.disk.misnamed import Misnamed
from rmqcore.engine.recovery.aside import InNoQueue, in_no_queue_fields
from rmqcore.engine.recovery.heal import HealResult
from rmqcore.engine.recovery.index.heal import IndexReport
from rmqcore.engine.recovery.plan import RecoveryPlan
from rmqcore.engine.recovery.unread_records import UnreadRecords
from rmqcore.errors.exit_codes import DAMAGED, OK
from rmqcore.shown.report import Report


@dataclass(frozen=True, slots=True)
class RecoveryReport(Report):
    """Bytes scanned and cut, and entries corrected, when a store was opened.

    Attributes
    ----------
    clean_exit : bool
        True if the store had no abort file.
    distrust : str
        Reason to compare a store without an abort file as after a crash; empty if it was not.
    start_phy_offset : int
        CommitLog offset at which reading started, the start of a file.
    start_reason : str
    scanned_records, scanned_bytes : int
    stop_reason : str
        Bytes found at the end of the log: why the log ends there.
    min_phy_offset, end_phy_offset, confirm_phy_offset : int
        Start, end and last record's start of the log.
    cut_bytes : int
        Bytes cut behind the end, up to the last byte in each file that was not zero.
    cut_path : str or None
        Folder that holds them.
    cut_files : tuple of str
    removed_files : tuple of str
        Empty files that had been made ahead.
    compared_records, compared_bytes : int
        Records compared with their queue entries (those in light queues count too), and their bytes of log.
    compared_from : int
        CommitLog offset from which all records were compared.
    differing_entries, healed_entries : int
        Queue entries that were missing or wrong, and those written. Fewer are written if another record has the same
        place.
    healed_queues : tuple of (str, int, int)
        Topic, queue id and number of written entries of the healed queues.
    queues_by_dispatch : bool
        True if no queue existed, and dispatch made all queues from the whole log.
    heal_reasons : tuple of str
        Missing or wrong entries that the queues' own files showed.
    filled_entries : int
        Fillers written to places for which the log has no record.
    refused_records : int
        Records with a damaged queue offset, which no queue accepts.
    passed_over : tuple of (int, int)
        Parts of the log before the scan without sound records.
    truncated_entries : int
        Queue entries behind the last record of their queue, which were removed.
    queues : int
    warnings : tuple of str
    plan_seconds, apply_seconds : float
    aside : InNoQueue
        Messages that no queue holds, because another record has the place that they name (``set_aside`` in JSON).
    misnamed : tuple of Misnamed
        Entries whose records name another place, because their topic, queue id or queue offset is damaged.
    keeps_misnamed : bool
        True if all of them stay; otherwise, after a crash, those at the end of a queue were removed, and their records
        have entries at the places that they name.
    index : IndexReport
        Findings in ``index/``, and the messages to index again.
    unread : UnreadRecords or None
        Records of the scan that the release of ``for_version`` cannot read; None if it can read all of them.
    """

    clean_exit: bool
    distrust: str
    start_phy_offset: int
    start_reason: str
    scanned_records: int
    scanned_bytes: int
    stop_reason: str
    min_phy_offset: int
    end_phy_offset: int
    confirm_phy_offset: int
    cut_bytes: int
    cut_path: str | None
    cut_files: tuple[str, ...]
    removed_files: tuple[str, ...]
    compared_records: int
    compared_bytes: int
    compared_from: int
    differing_entries: int
    healed_entries: int
    healed_queues: tuple[tuple[str, int, int], ...]
    queues_by_dispatch: bool
    heal_reasons: tuple[str, ...]
    filled_entries: int
    refused_records: int
    passed_over: tuple[tuple[int, int], ...]
    truncated_entries: int
    queues: int
    warnings: tuple[str, ...]
    plan_seconds: float
    apply_seconds: float
    aside: InNoQueue = field(default_factory=InNoQueue)
    misnamed: tuple[Misnamed, ...] = ()
    keeps_misnamed: bool = False
    index: IndexReport = field(default_factory=IndexReport)
    unread: UnreadRecords | None = None

    @property
    def exit_code(self) -> int:
        """2 if messages are missing, damaged, in no queue or name another one, or if entries were removed; otherwise 0."""
        taken = self.aside.count or self.truncated_entries
        lost = self.warnings or self.misnamed or self.passed_over
        return DAMAGED if taken or lost else OK

    def as_dict(self) -> dict[str, Any]:
        """Return the attributes as plain JSON values."""
        plain = asdict(self)
        del plain["aside"]
        return {**plain, **in_no_queue_fields(self.aside)}

    def __str__(self) -> str:
        kind = "normal" if self.clean_exit else "abnormal"
        scanned = f"{self.scanned_records} records, {self.scanned_bytes} bytes"
        lines = [
            f"{kind} recovery from {self.start_phy_offset} ({self.start_reason}): {scanned}",
            f"the log ends at {self.end_phy_offset}: {self.stop_reason}",
        ]
        if self.distrust:
            lines.append(f"there is no abort file, but {self.distrust}")
        if self.cut_bytes:
            lines.append(f"cut {self.cut_bytes} bytes, kept in {', '.join(self.cut_files)}")
        if self.healed_entries or self.filled_entries or self.truncated_entries:
            lines.append(
                f"queues: {self.healed_entries} entries corrected in {len(self.healed_queues)} "
                f"queues, {self.filled_entries} fillers written, {self.truncated_entries} entries "
                "removed"
            )
        if self.index.damage:
            lines.append(
                f"index: {self.index.damage}; messages from {self.index.index_from} on are indexed again"
            )
        if self.aside.count:
            lines.append(
                f"{self.aside.count} messages are in no queue: another record has their queue "
                "offset"
            )
        if self.unread is not None:
            lines.append(str(self.unread))
        return "\n".join([*lines, *self.heal_reasons, *self.warnings, *map(str, self.misnamed)])


def report_of(
    plan: RecoveryPlan,
    *,
    cut_path: str | None,
    cut_files: tuple[str, ...],
    healed: HealResult,
    filled_entries: int,
    truncated_entries: int,
    aside: InNoQueue,
    queues: int,
    apply_seconds: float,
) -> RecoveryReport:
    """Return the report of a plan and its results."""
    scan, found = plan.scan, plan.findings
    return RecoveryReport(
        clean_exit=plan.clean_exit,
        distrust=plan.distrust,
        start_phy_offset=scan.start_phy_offset if scan else 0,
        start_reason=plan.start.reason if plan.start else "there is no CommitLog file",
        scanned_records=scan.records if scan else 0,
        scanned_bytes=scan.record_bytes if scan else 0,
        stop_reason=str(scan.stop) if scan else "there is no CommitLog file",
        min_phy_offset=plan.min_phy_offset,
        end_phy_offset=plan.end_phy_offset,
        confirm_phy_offset=plan.confirm_phy_offset,
        cut_bytes=plan.cut_bytes,
        cut_path=cut_path,
        cut_files=cut_files,
        removed_files=plan.cut.unused,
        compared_records=found.compared_records,
        compared_bytes=found.compared_bytes,
        compared_from=found.compared_from,
        differing_entries=found.differing_entries,
        healed_entries=healed.healed_entries,
        healed_queues=tuple((*place, count) for place, count in sorted(healed.queues.items())),
        queues_by_dispatch=plan.queues_by_dispatch,
        heal_reasons=tuple(found.reasons),
        filled_entries=filled_entries,
        refused_records=found.refused_records,
        passed_over=tuple((one.start_phy_offset, one.end_phy_offset) for one in found.damage),
        truncated_entries=truncated_entries,
        queues=queues,
        warnings=plan.warnings,
        misnamed=tuple(found.misnamed),
        keeps_misnamed=found.keeps_misnamed,
        unread=None if scan is None else scan.unread,
        aside=aside,
        plan_seconds=plan.seconds,
        apply_seconds=apply_seconds,
    )
