"""``rmqcore spark audit``: every record of whole stores checked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqcore.cli.common.errors import note, report_damage
from rmqcore.cli.common.output import counted, human_bytes, print_json, print_line
from rmqcore.cli.spark.run_options import RunOptions, Stores, spark_verb

if TYPE_CHECKING:
    from rmqcore.spark.jobs.audit import AuditReport


@spark_verb
def audit(run: RunOptions, stores: Stores) -> int:
    """Check the lengths, offset and CRC of every record.

    The chain from each record to the next is checked too.

    Exit code 2: the store is damaged; stderr names the ranges.

    Example:
      rmqcore spark audit /data/store
      rmqcore spark audit --master local[4] --option maxPartitionBytes=64m "/data/*/store"
    """
    options = run.source_options(stores, table="corrupt")
    with run.session("audit") as spark:
        from rmqcore.spark import run_audit

        report = run_audit(spark, stores, **options)
    if run.prints_json:
        print_json(report.as_dict())
    else:
        _print_summary(report)
    report_damage(found for _, found in report.damage)
    return report.exit_code


def _print_summary(report: AuditReport) -> None:
    seconds = max(report.seconds, 1e-9)
    print_line(
        f"{counted(report.records, 'record')}, {human_bytes(report.record_bytes)}, in {counted(report.files, 'file')} of "
        f"{counted(len(report.stores), 'store')}"
    )
    print_line(
        f"{counted(report.splits, 'task')} in {report.seconds:.1f} s: {report.records / seconds / 1e6:.2f} million records/s, "
        f"{human_bytes(int(report.record_bytes / seconds))}/s"
    )
    if report.rewalked_files:
        note(
            "read again as a whole because their parts did not fit together: "
            f"{counted(report.rewalked_files, 'file')}"
        )
    if report.damage:
        ranges = sum(found.range_count for _, found in report.damage)
        note(f"damaged ranges: {ranges}, {human_bytes(report.damaged_bytes)}")
    else:
        print_line("no damage")
