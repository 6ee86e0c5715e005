"""``rmqcore spark compare``: where two stores differ."""

from __future__ import annotations

from typing import Annotated

import typer

from rmqcore.cli.common.output import counted, human_bytes, print_json, print_line
from rmqcore.cli.spark.run_options import RunOptions, spark_verb

SHOWN = 50


@spark_verb
def compare(
    run: RunOptions,
    left: Annotated[str, typer.Argument(metavar="LEFT", help="A store.", show_default=False)],
    right: Annotated[
        str, typer.Argument(metavar="RIGHT", help="Another store.", show_default=False)
    ],
) -> int:
    """Compare the CommitLogs of two stores byte by byte.

    The stores may be a master's and its slave's. Prints the ranges of CommitLog offsets where one store has no
    bytes, damage, or other records.

    Exit code 2: the logs differ.

    Example:
      rmqcore spark compare /data/store /data/slave
    """
    options = run.source_options([left], table="corrupt")
    run.source_options([right], table="corrupt")
    with run.session("compare") as spark:
        from rmqcore.spark import run_compare

        report = run_compare(spark, left, right, **options)
    if run.prints_json:
        print_json(report.as_dict())
        return report.exit_code
    seconds = max(report.seconds, 1e-9)
    print_line(
        f"{human_bytes(report.compared_bytes)} in both compared in {report.seconds:.1f} s, "
        f"{human_bytes(int(report.compared_bytes / seconds))}/s"
    )
    for found in report.differences[:SHOWN]:
        path = found.left_path or found.right_path or ""
        size = found.end_phy_offset - found.start_phy_offset
        print_line(
            f"{found.kind}: {found.start_phy_offset}..{found.end_phy_offset} ({counted(size, 'byte')}), {path}"
        )
    if len(report.differences) > SHOWN:
        print_line(
            f"and {counted(len(report.differences) - SHOWN, 'more range')}: --json lists all"
        )
    if not report.differences:
        print_line("no difference")
    return report.exit_code
