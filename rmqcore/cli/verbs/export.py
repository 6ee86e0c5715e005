"""``rmqcore export``: a store into Parquet, CSV or JSON Lines, partitioned by topic and day."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from rmqcore.cli.common import arguments
from rmqcore.cli.common.allocator import give_large_pieces_back
from rmqcore.cli.common.bodies import BodyMode
from rmqcore.cli.common.errors import note, report_damage
from rmqcore.cli.common.output import (
    counted,
    human_bytes,
    print_json,
    print_line,
    refuse_csv_safe,
    wants_json,
)
from rmqcore.cli.common.progress import progress_bar
from rmqcore.cli.stores.given_store import ended_like_ctrl_c, opened_store
from rmqcore.cli.typed.unknown_topics import UnknownTopics
from rmqcore.cli.values import choice
from rmqcore.offline.export.export import ExportReport
from rmqcore.offline.export.export import export as export_store


class PartFormat(StrEnum):
    """Values of ``--format``."""

    parquet = "parquet"
    csv = "csv"
    jsonl = "jsonl"


def export(
    store: arguments.AnyStore,
    out: Annotated[
        Path,
        typer.Option(
            "-o",
            "--out",
            metavar="DIR",
            help="A new or empty directory.",
            parser=arguments.local_folder,
            show_default=False,
        ),
    ],
    file_format: Annotated[
        PartFormat, choice(PartFormat, "--format", help="Format of the part files.")
    ] = PartFormat.parquet,
    topics: arguments.Topics = None,
    queues: arguments.Queues = None,
    tags: arguments.Tags = None,
    keys: arguments.Keys = None,
    since: arguments.Since = None,
    until: arguments.Until = None,
    from_phy: arguments.FromPhy = None,
    to_phy: arguments.ToPhy = None,
    body: Annotated[
        BodyMode | None,
        choice(
            BodyMode,
            "--body",
            help="How to write bodies to CSV and JSON Lines; Parquet holds them as stored, or none.",
            show_default="text",
        ),
    ] = None,
    max_body: arguments.MaxStoredBody = None,
    unwrap: arguments.Unwrap = False,
    verify_crc: arguments.VerifyCrc = False,
    compression: arguments.Compression = arguments.ParquetCompression.zstd,
    overwrite: arguments.Overwrite = False,
    csv_safe: arguments.CsvSafe = False,
    commitlog: arguments.CommitLog = None,
    follow_links: arguments.FollowLinks = False,
    storage: arguments.Storage = None,
    json: arguments.Json = False,
    no_progress: arguments.NoProgress = False,
) -> int:
    """Write Parquet, CSV or JSON Lines, by topic and day.

    Files are DIR/topic_dir=NAME/day=YYYY-MM-DD/part-00000.parquet (or .csv, .jsonl). Spark, pyarrow, DuckDB and
    Polars read DIR as one table with a column topic, partitioned by topic_dir and UTC day. The files appear in
    DIR once all are written. Damage is skipped and listed, and the exit code is 2. For an unknown topic the exit
    code is 1.

    Example:
      rmqcore export /data/store --format parquet -o /data/parquet
      rmqcore export /data/store --format jsonl --topic Orders -o /tmp/orders
    """
    wanted = arguments.conditions(topics, queues, tags, keys, since, until, from_phy, to_phy)
    if file_format == PartFormat.parquet and body not in (None, BodyMode.none):
        raise typer.BadParameter(
            "Parquet holds bodies only as stored: omit this option, or use --body none",
            param_hint="--body",
        )
    refuse_csv_safe(file_format.value, csv_safe)
    if file_format == PartFormat.parquet:
        give_large_pieces_back()
    with opened_store(store, storage, commitlog, follow_links=follow_links) as reader:
        unknown = UnknownTopics(
            reader, topics, whole_log={*wanted.keywords()} == {"topics"}, shown=wanted
        )
        with ended_like_ctrl_c(), progress_bar("export", no_progress=no_progress) as progress:
            report = export_store(
                reader,
                out,
                file_format=file_format.value,
                overwrite=overwrite,
                body=None if body is None else body.value,
                max_body=max_body,
                unwrap=unwrap,
                compression=compression.value,
                verify_crc=verify_crc,
                csv_safe=csv_safe,
                progress=progress,
                **wanted.keywords(),
            )
        unknown.met(set(topics or ()).difference(report.topics_without_rows))
        code = unknown.exit_code(report.exit_code)
        if wants_json(json):
            print_json({**report.as_dict(), "exit_code": code})
        else:
            _print_summary(report)
        if report.shortened_bodies:
            places = ", ".join(map(str, report.shortened_at))
            more = " ..." if report.shortened_bodies > len(report.shortened_at) else ""
            note(
                f"{counted(report.shortened_bodies, 'body')} shortened to {report.max_body} bytes "
                f"(raise it with --max-body), of the messages at {places}{more}"
            )
        if report.wrapped:
            note(
                f"{counted(report.wrapped, 'batch')} written as one message, since they cannot be taken apart: at "
                f"{', '.join(map(str, report.wrapped_at))}"
                f"{' ...' if report.wrapped > len(report.wrapped_at) else ''}"
            )
        report_damage(report.damage)
        unknown.refuse()
        return code


def _print_summary(report: ExportReport) -> None:
    rate = f", {human_bytes(int(report.stored_bytes / report.seconds))}/s" if report.seconds else ""
    print_line(
        f"{counted(report.rows, 'message')}, {human_bytes(report.stored_bytes)} of records, in {report.seconds:.1f} s{rate}"
    )
    print_line(
        f"{counted(report.files, f'{report.format} file')}, {human_bytes(report.file_bytes)}, in "
        f"{counted(report.partitions, 'partition')} "
        f"below {report.out}"
    )
    if report.damage:
        ranges = sum(found.range_count for found in report.damage)
        note(f"damaged ranges: {ranges}, {human_bytes(report.damaged_bytes)}")
