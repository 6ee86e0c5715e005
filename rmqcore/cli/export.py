"""``rmqcore export``: a store into Parquet, CSV or JSON Lines, partitioned by topic and day."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from types import FrameType
from typing import Annotated

import typer

from rmqcore.cli import filters
from rmqcore.cli.bodies import BodyMode
from rmqcore.cli.errors import note, report_damage
from rmqcore.cli.output import human_bytes, print_json, stdout_is_terminal
from rmqcore.cli.progress import progress_bar
from rmqcore.offline.export import ExportReport
from rmqcore.offline.export import export as export_store
from rmqcore.offline.reader import StoreReader


class PartFormat(StrEnum):
    """Formats of part files."""

    parquet = "parquet"
    csv = "csv"
    jsonl = "jsonl"


class ParquetCompression(StrEnum):
    """The values of ``--compression``."""

    zstd = "zstd"
    snappy = "snappy"
    none = "none"


def export(
    store: filters.Store,
    out: Annotated[
        Path,
        typer.Option(
            "-o",
            "--out",
            metavar="DIR",
            help="A new or empty folder.",
            file_okay=False,
            show_default=False,
        ),
    ],
    file_format: Annotated[
        PartFormat, typer.Option("--format", help="Of the part files.")
    ] = PartFormat.parquet,
    topics: filters.Topics = None,
    queues: filters.Queues = None,
    tags: filters.Tags = None,
    keys: filters.Keys = None,
    since: filters.Since = None,
    until: filters.Until = None,
    from_phy: filters.FromPhy = None,
    to_phy: filters.ToPhy = None,
    body: Annotated[
        BodyMode | None,
        typer.Option(
            "--body",
            help="Bodies in CSV and JSON Lines; Parquet has the stored bytes, or none.",
            show_default="text",
        ),
    ] = None,
    verify_crc: filters.VerifyCrc = False,
    compression: Annotated[
        ParquetCompression, typer.Option("--compression", help="Of Parquet files.")
    ] = ParquetCompression.zstd,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace the part files of an earlier export.")
    ] = False,
    json: filters.Json = False,
    no_progress: filters.NoProgress = False,
) -> int:
    """Write messages into DIR/topic=NAME/day=YYYY-MM-DD/part-00000.parquet (or .csv, .jsonl).

    Spark, pyarrow, DuckDB and Polars read DIR as one table partitioned by topic and UTC day.
    Nothing appears in it before all is written. Damage is skipped and listed; the exit code is 2
    then.

    Example:
      rmqcore export /data/store --format parquet -o /data/parquet
      rmqcore export /data/store --format jsonl --topic Orders -o /tmp/orders
    """
    wanted = filters.conditions(topics, queues, tags, keys, since, until, from_phy, to_phy)
    if file_format == PartFormat.parquet and body not in (None, BodyMode.none):
        raise typer.BadParameter(
            "Parquet holds bodies as they are stored, or none", param_hint="--body"
        )
    reader = StoreReader(store)
    with _terminated_cleanly(), progress_bar("export", no_progress=no_progress) as progress:
        report = export_store(
            reader,
            out,
            file_format=file_format.value,
            overwrite=overwrite,
            body=None if body is None else body.value,
            compression=compression.value,
            verify_crc=verify_crc,
            progress=progress,
            **wanted,
        )
    if json or not stdout_is_terminal():
        print_json(report.as_dict())
    else:
        _print_summary(report)
    report_damage(report.damage)
    return report.exit_code


def _print_summary(report: ExportReport) -> None:
    rate = f", {human_bytes(int(report.stored_bytes / report.seconds))}/s" if report.seconds else ""
    typer.echo(
        f"{report.rows} messages, {human_bytes(report.stored_bytes)} of records, in {report.seconds:.1f} s{rate}"
    )
    typer.echo(
        f"{report.files} {report.format} files, {human_bytes(report.file_bytes)}, in {report.partitions} partitions "
        f"below {report.out}"
    )
    if report.damage:
        note(f"damaged ranges: {len(report.damage)}, {human_bytes(report.damaged_bytes)}")


@contextmanager
def _terminated_cleanly() -> Iterator[None]:
    """Let SIGTERM end the verb the way Ctrl-C does, so that half-written files are removed."""

    def stop(_signal: int, _frame: FrameType | None) -> None:
        raise SystemExit(128 + signal.SIGTERM)

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
