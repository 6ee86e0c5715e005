"""``rmqcore spark export-table`` and ``compact``: a table that grows with the log, and its small files."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from rmqcore.cli.common import arguments
from rmqcore.cli.common.errors import note, report_damage
from rmqcore.cli.common.output import counted, human_bytes, print_json, print_line
from rmqcore.cli.spark.export import TargetFileSize, file_bytes
from rmqcore.cli.spark.run_options import RunOptions, Stores, spark_verb
from rmqcore.cli.values import choice


class Format(StrEnum):
    """The formats of a table."""

    parquet = "parquet"
    delta = "delta"
    iceberg = "iceberg"


TableFolder = Annotated[
    str,
    typer.Option(
        "-o",
        "--out",
        metavar="DIR",
        help="The table's directory, which all workers share; new or empty for a new table.",
        show_default=False,
    ),
]


@spark_verb
def export_table(
    run: RunOptions,
    stores: Stores,
    out: TableFolder,
    format: Annotated[  # noqa: A002
        Format, choice(Format, "--format", help="Format of the table.")
    ] = Format.parquet,
    topics: arguments.Topics = None,
    no_bodies: Annotated[bool, typer.Option("--no-bodies", help="Do not export bodies.")] = False,
    compression: arguments.Compression = arguments.ParquetCompression.zstd,
    target_file_size: TargetFileSize = "128m",
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace the table by this run's rows.")
    ] = False,
) -> int:
    """Add new messages to a table.

    Run it every hour. The table records how far it has each store, in the same commit as the rows, so each
    message is in the table once, even if a run is killed. Exit code 2: the store is damaged or incomplete; stderr
    names the ranges.

    Example:
      rmqcore spark export-table /data/store -o /data/table
      rmqcore spark export-table broker-a=/data/store -o /data/delta --format delta
    """
    options = run.source_options(stores, topics=topics)
    target_bytes = file_bytes(target_file_size)
    with run.session("export") as spark:
        from rmqcore.spark import export_table as export

        report = export(
            spark,
            stores,
            out,
            format=format.value,
            overwrite=overwrite,
            compression=compression.value,
            target_file_bytes=target_bytes,
            body="none" if no_bodies else None,
            **options,
        )
    if run.prints_json:
        print_json(report.as_dict())
    else:
        print_line(
            f"{counted(report.rows, 'new message')} in {counted(report.files, 'file')}, {human_bytes(report.file_bytes)}, "
            f"below {report.out}"
        )
        for broker, phy_offset in report.watermarks.items():
            print_line(f"{broker}: up to CommitLog offset {phy_offset}")
        if report.damage:
            note(f"damaged ranges: {sum(found.range_count for _, found in report.damage)}")
    for broker in report.unfinished:
        note(
            f"{broker}: the log ends in an incomplete record, which a later run exports once it is "
            "complete"
        )
    for broker in report.not_given:
        note(f"{broker}: the table has messages of this store, but this run did not read it")
    report_damage(found for _, found in report.damage)
    return report.exit_code


@spark_verb
def compact(
    run: RunOptions,
    out: Annotated[
        str, typer.Argument(metavar="DIR", help="The table's directory.", show_default=False)
    ],
    compression: arguments.Compression = arguments.ParquetCompression.zstd,
    target_file_size: TargetFileSize = "128m",
) -> int:
    """Rewrite the small files of a table as larger ones.

    The table is a Parquet table made by export-table. It keeps the same rows, in files of the target size.

    Example:
      rmqcore spark compact /data/table
    """
    if run.option:
        raise typer.BadParameter("compact does not read a store", param_hint="--option")
    target_bytes = file_bytes(target_file_size)
    with run.session("compact") as spark:
        from rmqcore.spark import compact as rewrite

        report = rewrite(spark, out, target_file_bytes=target_bytes, compression=compression.value)
    if run.prints_json:
        print_json(report.as_dict())
    else:
        print_line(
            f"{report.rewritten} of {counted(report.files_before, 'file')} became {report.written}: "
            f"{human_bytes(report.rewritten_bytes)}, now {human_bytes(report.written_bytes)}, {counted(report.rows, 'message')}"
        )
    return 0
