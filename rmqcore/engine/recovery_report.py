"""What a recovery did."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from rmqcore.engine.recovery_plan import RecoveryPlan


@dataclass(frozen=True, slots=True)
class RecoveryReport:
    """What was scanned, cut and dispatched again when a store was opened.

    Attributes
    ----------
    clean_exit : bool
        There was no abort file.
    start_phy_offset : int
        Where reading began, the start of a file.
    start_reason : str
    scanned_records, scanned_bytes : int
    stop_reason : str
        What was at the end of the log: why nothing behind it is believed.
    min_phy_offset, end_phy_offset, confirm_phy_offset : int
        Of the log; the last is the start of its last record.
    cut_bytes : int
        Bytes behind the end, up to the last in each file that was not zero; 0 when nothing was cut.
    cut_path : str or None
        The folder in which they are now.
    cut_files : tuple of str
    removed_files : tuple of str
        Files that had been made ahead and held nothing.
    redispatched_records : int
        Records given to the queues again. A queue ignores what it has.
    truncated_entries : int
        Queue entries of messages behind the end, taken away.
    queues : int
    warnings : tuple of str
    plan_seconds, apply_seconds : float
    """

    clean_exit: bool
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
    redispatched_records: int
    truncated_entries: int
    queues: int
    warnings: tuple[str, ...]
    plan_seconds: float
    apply_seconds: float

    def as_dict(self) -> dict[str, Any]:
        """The attributes as plain JSON values."""
        return asdict(self)

    def __str__(self) -> str:
        kind = "normal" if self.clean_exit else "abnormal"
        scanned = f"{self.scanned_records} records, {self.scanned_bytes} bytes"
        lines = [
            f"{kind} recovery from {self.start_phy_offset} ({self.start_reason}): {scanned}",
            f"the log ends at {self.end_phy_offset}: {self.stop_reason}",
        ]
        if self.cut_bytes:
            lines.append(f"cut {self.cut_bytes} bytes, kept in {', '.join(self.cut_files)}")
        if self.redispatched_records or self.truncated_entries:
            lines.append(
                f"queues: {self.redispatched_records} records dispatched again, "
                f"{self.truncated_entries} entries taken away"
            )
        return "\n".join([*lines, *self.warnings])


def report_of(
    plan: RecoveryPlan,
    *,
    cut_path: str | None,
    cut_files: tuple[str, ...],
    redispatched_records: int,
    truncated_entries: int,
    queues: int,
    apply_seconds: float,
) -> RecoveryReport:
    """Put a plan and what came of it together."""
    scan = plan.scan
    return RecoveryReport(
        clean_exit=plan.clean_exit,
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
        redispatched_records=redispatched_records,
        truncated_entries=truncated_entries,
        queues=queues,
        warnings=plan.warnings,
        plan_seconds=plan.seconds,
        apply_seconds=apply_seconds,
    )
