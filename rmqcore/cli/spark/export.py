"""``rmqcore spark export-parquet``: whole stores to Parquet, written by Spark's workers."""

from __future__ import annotations

from typing import Annotated

import typer

from rmqcore.cli.common import arguments
from rmqcore.cli.common.errors import note, report_damage
from rmqcore.cli.common.output import counted, human_bytes, print_json, print_line
from rmqcore.cli.spark.run_options import Out, RunOptions, Stores, spark_verb
from rmqcore.cli.values import wrong_value

TargetFileSize = Annotated[
    str,
    typer.Option(
        "--target-file-size",
        metavar="BYTES",
        help="Start another file of a topic and day at this size: 128m, 1g.",
    ),
]


def file_bytes(text: str) -> int:
    """Parse ``--target-file-size``; checked here, because Spark takes seconds to start.

    Raises
    ------
    typer.BadParameter
        No size, or one below 64 KiB.
    """
    from rmqcore.spark.jobs.export_files import LEAST_TARGET
    from rmqcore.spark.options.values import size_in

    try:
        return size_in(LEAST_TARGET, 1 << 40)(text)
    except ValueError as error:
        raise wrong_value(text, str(error), "--target-file-size") from None


@spark_verb
def export_parquet(
    run: RunOptions,
    stores: Stores,
    out: Out,
    topics: arguments.Topics = None,
    no_bodies: Annotated[bool, typer.Option("--no-bodies", help="Do not export bodies.")] = False,
    compression: arguments.Compression = arguments.ParquetCompression.zstd,
    target_file_size: TargetFileSize = "128m",
    overwrite: arguments.Overwrite = False,
) -> int:
    """Write Parquet, by topic and day.

    Files are DIR/topic_dir=NAME/day=YYYY-MM-DD/part-00000.parquet. They get these names once all are written;
    then DIR/_SUCCESS is created. After an interruption, the same command continues with the splits that it had
    finished. Exit code 2: the store is damaged; stderr names the ranges.

    Example:
      rmqcore spark export-parquet /data/store -o /data/parquet
    """
    options = run.source_options(stores, topics=topics)
    target_bytes = file_bytes(target_file_size)
    with run.session("export") as spark:
        from rmqcore.spark import export_parquet as export

        report = export(
            spark,
            stores,
            out,
            overwrite=overwrite,
            compression=compression.value,
            target_file_bytes=target_bytes,
            body="none" if no_bodies else None,
            **options,
        )
    if run.prints_json:
        print_json(report.as_dict())
    else:
        seconds = max(report.seconds, 1e-9)
        print_line(
            f"{counted(report.rows, 'message')} in {counted(report.files, 'file')}, {human_bytes(report.file_bytes)}, "
            f"in {counted(report.partitions, 'partition')} below {report.out}"
        )
        kept = f", {report.kept_splits} of them before" if report.kept_splits else ""
        print_line(
            f"{counted(report.splits, 'task')}{kept} in {report.seconds:.1f} s: "
            f"{report.rows / seconds / 1e6:.2f} million messages/s"
        )
        if report.damage:
            note(f"damaged ranges: {sum(found.range_count for _, found in report.damage)}")
    report_damage(found for _, found in report.damage)
    return report.exit_code
