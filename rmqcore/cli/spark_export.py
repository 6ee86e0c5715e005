"""``rmqcore spark export-parquet``: whole stores to Parquet, written by Spark's workers."""

from __future__ import annotations

from typing import Annotated

import typer

from rmqcore.cli import filters
from rmqcore.cli.errors import note, report_damage
from rmqcore.cli.export import ParquetCompression
from rmqcore.cli.output import human_bytes, print_json, stdout_is_terminal
from rmqcore.cli.spark_session import (
    Conf,
    Log,
    Master,
    Out,
    SourceOption,
    Stores,
    source_options,
    spark_session,
)


def export_parquet(
    stores: Stores,
    out: Out,
    topics: filters.Topics = None,
    no_bodies: Annotated[bool, typer.Option("--no-bodies", help="Leave bodies out.")] = False,
    compression: Annotated[
        ParquetCompression, typer.Option("--compression", help="Of Parquet files.")
    ] = ParquetCompression.zstd,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace the part files of an earlier export.")
    ] = False,
    master: Master = "local[*]",
    conf: Conf = None,
    option: SourceOption = None,
    log: Log = None,
    json: filters.Json = False,
    no_progress: filters.NoProgress = False,
) -> int:
    """Write messages into DIR/topic=NAME/day=YYYY-MM-DD/part-00000.parquet.

    Nothing appears under these names before all is written, then DIR/_SUCCESS. Interrupted, the same
    command goes on with what it had finished. Exit code 2: something is damaged; stderr says where.

    Example:
      rmqcore spark export-parquet /data/store -o /data/parquet
    """
    options = source_options(option, stores, topics=topics)
    with spark_session(master, conf, log, what="export", no_progress=no_progress) as spark:
        from rmqcore.spark import export_parquet as export

        report = export(
            spark,
            stores,
            out,
            overwrite=overwrite,
            compression=compression.value,
            body="none" if no_bodies else None,
            **options,
        )
    if json or not stdout_is_terminal():
        print_json(report.as_dict())
    else:
        seconds = max(report.seconds, 1e-9)
        typer.echo(
            f"{report.rows} messages in {report.files} files, {human_bytes(report.file_bytes)}, "
            f"in {report.partitions} partitions below {report.out}"
        )
        kept = f", {report.kept_splits} of them before" if report.kept_splits else ""
        typer.echo(
            f"{report.splits} tasks{kept} in {report.seconds:.1f} s: {report.rows / seconds / 1e6:.2f} million messages/s"
        )
        if report.damage:
            note(f"damaged ranges: {len(report.damage)}")
    report_damage(found for _, found in report.damage)
    return report.exit_code
