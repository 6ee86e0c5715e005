"""``rmqcore spark audit``: every record of whole stores checked."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from rmqcore.cli import filters
from rmqcore.cli.errors import note, report_damage
from rmqcore.cli.output import human_bytes, print_json, stdout_is_terminal
from rmqcore.cli.spark_session import (
    Conf,
    Log,
    Master,
    SourceOption,
    Stores,
    source_options,
    spark_session,
)

if TYPE_CHECKING:
    from rmqcore.spark.job_audit import AuditReport


def audit(
    stores: Stores,
    master: Master = "local[*]",
    conf: Conf = None,
    option: SourceOption = None,
    log: Log = None,
    json: filters.Json = False,
    no_progress: filters.NoProgress = False,
) -> int:
    """Check lengths, place and CRC of every record, and the chain from each to the next.

    Exit code 2: something is damaged; stderr says where.

    Example:
      rmqcore spark audit /data/store
      rmqcore spark audit --master local[4] --option maxPartitionBytes=64m "/data/*/store"
    """
    options = source_options(option, stores, table="corrupt")
    with spark_session(master, conf, log, what="audit", no_progress=no_progress) as spark:
        from rmqcore.spark import run_audit

        report = run_audit(spark, stores, **options)
    if json or not stdout_is_terminal():
        print_json(report.as_dict())
    else:
        _print_summary(report)
    report_damage(found for _, found in report.damage)
    return report.exit_code


def _print_summary(report: AuditReport) -> None:
    seconds = max(report.seconds, 1e-9)
    typer.echo(
        f"{report.records} records, {human_bytes(report.record_bytes)}, in {report.files} files of {len(report.stores)} stores"
    )
    typer.echo(
        f"{report.splits} tasks in {report.seconds:.1f} s: {report.records / seconds / 1e6:.2f} million records/s, "
        f"{human_bytes(int(report.record_bytes / seconds))}/s"
    )
    if report.rewalked_files:
        note(f"{report.rewalked_files} files were read again as a whole: their parts did not fit")
    if report.damage:
        note(f"damaged ranges: {len(report.damage)}, {human_bytes(report.damaged_bytes)}")
    else:
        typer.echo("no damage")
