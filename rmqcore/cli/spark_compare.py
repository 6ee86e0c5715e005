"""``rmqcore spark compare``: two stores held against each other."""

from __future__ import annotations

from typing import Annotated

import typer

from rmqcore.cli import filters
from rmqcore.cli.output import human_bytes, print_json, printable, stdout_is_terminal
from rmqcore.cli.spark_session import (
    Conf,
    Log,
    Master,
    SourceOption,
    source_options,
    spark_session,
)

SHOWN = 50


def compare(
    left: Annotated[str, typer.Argument(metavar="LEFT", help="A store.", show_default=False)],
    right: Annotated[
        str, typer.Argument(metavar="RIGHT", help="The other one.", show_default=False)
    ],
    master: Master = "local[*]",
    conf: Conf = None,
    option: SourceOption = None,
    log: Log = None,
    json: filters.Json = False,
    no_progress: filters.NoProgress = False,
) -> int:
    """Compare the CommitLogs of two stores, such as a master's and its slave's, byte by byte.

    Says in which ranges of CommitLog offsets one has nothing, or damage, or other records.

    Exit code 2: they differ.

    Example:
      rmqcore spark compare /data/store /data/slave
    """
    options = source_options(option, [left], table="corrupt")
    source_options(option, [right], table="corrupt")
    with spark_session(master, conf, log, what="compare", no_progress=no_progress) as spark:
        from rmqcore.spark import run_compare

        report = run_compare(spark, left, right, **options)
    if json or not stdout_is_terminal():
        print_json(report.as_dict())
        return report.exit_code
    seconds = max(report.seconds, 1e-9)
    typer.echo(
        f"{human_bytes(report.compared_bytes)} that both have compared in {report.seconds:.1f} s, "
        f"{human_bytes(int(report.compared_bytes / seconds))}/s"
    )
    for found in report.differences[:SHOWN]:
        path = printable(found.left_path or found.right_path or "")
        size = found.end_phy_offset - found.start_phy_offset
        typer.echo(
            f"{found.kind}: {found.start_phy_offset}..{found.end_phy_offset} ({size} bytes), {path}"
        )
    if len(report.differences) > SHOWN:
        typer.echo(f"and {len(report.differences) - SHOWN} more ranges: --json lists all")
    if not report.differences:
        typer.echo("no difference")
    return report.exit_code
