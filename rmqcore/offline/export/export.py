"""Export of a store: every message into files partitioned by topic and day."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from rmqcore.codec.message import MessageView
from rmqcore.disk.paths import absolute_path
from rmqcore.errors.exit_codes import DAMAGED, OK
from rmqcore.offline.export.message_rows import (
    FIELDS,
    MAX_BODY,
    MAX_STORED_BODY,
    Body,
    NamedMessages,
    most_body,
)
from rmqcore.offline.export.parquet_parts import ParquetParts
from rmqcore.offline.export.parquet_writer import Compression
from rmqcore.offline.export.part_files import TextParts
from rmqcore.offline.export.partitions import ExportTarget, partition_folder
from rmqcore.offline.export.record_batches import RecordBatches
from rmqcore.offline.export.unwrapped import unwrapped
from rmqcore.offline.log.conditions import Conditions
from rmqcore.offline.log.damage import DamageRange
from rmqcore.offline.log.walk import Progress
from rmqcore.offline.reader import StoreReader, read
from rmqcore.offline.remote.store_url import StorageOptions
from rmqcore.shown.report import Report

ExportFormat = Literal["parquet", "csv", "jsonl"]


@dataclass(frozen=True)
class ExportReport(Report):
    """Files that an export wrote, and messages that it shortened or could not take apart.

    Attributes
    ----------
    path, out : str
        The store and the folder written to.
    rows, stored_bytes : int
        Messages written, and the bytes of their records in the store; a message of a stored batch counts as a record of
        its own.
    shortened_bodies : int
        Number of messages whose body was shortened.
    shortened_at : list of int
        The phy offsets of the first 20 of them.
    max_body : int
        Length of the shortened bodies, in bytes.
    files, file_bytes, partitions : int
        Number of part files, their bytes, and the number of folders that hold them.
    topics_without_rows : list of str
        The requested topics without a written message.
    damage : list of DamageRange
        Damaged ranges of the store.
    seconds : float
        Wall time.
    wrapped : int
        Number of stored batches that were written as one message, since they could not be taken apart.
    wrapped_at : list of int
        The phy offsets of the first 20 of them.
    """

    path: str
    out: str
    format: str
    rows: int
    stored_bytes: int
    shortened_bodies: int
    shortened_at: list[int]
    max_body: int
    files: int
    file_bytes: int
    partitions: int
    topics_without_rows: list[str]
    damage: list[DamageRange]
    seconds: float
    wrapped: int = 0
    wrapped_at: list[int] = field(default_factory=list)

    @property
    def damaged_bytes(self) -> int:
        """Bytes in the damaged ranges."""
        return sum(found.byte_count for found in self.damage)

    @property
    def exit_code(self) -> int:
        """0, or 2 when the store or a stored batch was damaged."""
        return DAMAGED if self.damage or self.wrapped else OK

    def as_dict(self) -> dict[str, Any]:
        """The attributes as plain JSON values."""
        return {**asdict(self), "damaged_bytes": self.damaged_bytes, "exit_code": self.exit_code}


def export(
    store: StoreReader | str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    file_format: ExportFormat = "parquet",
    overwrite: bool = False,
    body: Body | None = None,
    max_body: int | None = None,
    unwrap: bool = False,
    compression: Compression = "zstd",
    topics: Iterable[str] | None = None,
    queue_ids: Iterable[int] | None = None,
    tags: Iterable[str] | None = None,
    keys: Iterable[str] | None = None,
    since_ms: int | None = None,
    until_ms: int | None = None,
    start_phy_offset: int | None = None,
    end_phy_offset: int | None = None,
    verify_crc: bool = False,
    csv_safe: bool = False,
    progress: Progress | None = None,
    storage_options: StorageOptions | None = None,
) -> ExportReport:
    """Write the messages of a store into ``out/topic_dir=NAME/day=YYYY-MM-DD/part-NNNNN.FORMAT``.

    The files appear under these names when all are written. Memory stays bounded, for any size of the
    store and number of topics. Conditions, `verify_crc` and `progress` are those of
    `StoreReader.messages`.

    Parameters
    ----------
    store : path-like or StoreReader
        The store's root, which may be a URL, or its reader.
    out : path-like
        A new or empty folder, or with `overwrite` the folder of an earlier export.
    file_format : {"parquet", "csv", "jsonl"}
        Parquet needs pyarrow (``rmqcore[arrow]``).
    body : {"none", "text", "base64", "sha256"}, optional
        Form of bodies in CSV and JSON Lines; None: text. Parquet holds the stored bytes, or with ``none`` no column
        ``body``.
    max_body : int, optional
        Longer bodies are cut to this number of bytes. None: 16 MiB in Parquet, 4 MiB as text and base64. `sys.maxsize`
        writes all, which needs some five times the memory of the longest body.
    unwrap : bool
        Write the messages in a stored batch (of a batch queue) in place of the batch. Conditions are those of the batch.
    compression : {"zstd", "snappy", "none"}
        Of Parquet files.
    csv_safe : bool
        Put an apostrophe before texts in CSV that a spreadsheet would run as a formula.
    storage_options : mapping of str to any, optional
        As of `rmqcore.read`.

    Raises
    ------
    TargetNotEmptyError
        `out` is not empty and `overwrite` is off.
    ValueError
        The format is Parquet, and `body` is neither None nor "none".
    OSError
        The disk is full, or `out` cannot be written.
    ModuleNotFoundError
        The format is Parquet, and pyarrow is not installed.
    """
    wanted = Conditions.of(
        topics, queue_ids, tags, keys, since_ms, until_ms, start_phy_offset, end_phy_offset
    )
    asked: dict[str, Any] = {"verify_crc": verify_crc, "progress": progress}
    if file_format == "parquet" and body not in (None, "none"):
        raise ValueError(f"body {body!r}: Parquet holds bodies only as stored, or no bodies")
    began = time.monotonic()
    shortened, wrapped = NamedMessages(), NamedMessages()
    with (
        _reader_of(store, storage_options) as reader,
        ExportTarget(absolute_path(out, "out"), overwrite=overwrite) as target,
    ):
        if file_format == "parquet":
            max_body = MAX_STORED_BODY if max_body is None else max_body
            batches = RecordBatches(
                reader,
                [name for name in FIELDS if body != "none" or name != "body"],
                wanted,
                max_body=max_body,
                on_shortened=shortened.add,
                on_wrapped=wrapped.add if unwrap else None,
                **asked,
            )
            rows, stored_bytes, places = _parquet(ParquetParts(target.work, compression), batches)
        else:
            max_body = MAX_BODY if max_body is None else max_body
            parts = TextParts(
                target.work,
                file_format,
                body or "text",
                max_body=max_body,
                on_shortened=shortened.add,
                stored=reader.stored_body,
                csv_safe=csv_safe,
            )
            most = None if unwrap else most_body(body or "text", max_body=max_body)
            views = reader.messages(**wanted.keywords(), **asked, most_body=most)
            rows, stored_bytes, places = _text(
                parts, unwrapped(views, wrapped.add) if unwrap else views
            )
        file_bytes = sum(part.stat().st_size for part, _ in places)
        target.publish(places)
    return ExportReport(
        path=str(reader.path),
        out=str(out),
        format=file_format,
        rows=rows,
        stored_bytes=stored_bytes,
        shortened_bodies=shortened.count,
        shortened_at=shortened.first,
        max_body=max_body,
        files=len(places),
        file_bytes=file_bytes,
        partitions=len({place.rpartition("/")[0] for _, place in places}),
        topics_without_rows=_without_rows(wanted, [place for _, place in places]),
        damage=list(reader.damage),
        seconds=round(time.monotonic() - began, 3),
        wrapped=wrapped.count,
        wrapped_at=wrapped.first,
    )


@contextmanager
def _reader_of(
    store: StoreReader | str | os.PathLike[str], storage_options: StorageOptions | None
) -> Iterator[StoreReader]:
    """Yield the given reader, or a new one that is closed at the end."""
    if isinstance(store, StoreReader):
        if storage_options:
            raise ValueError("the store is already open: pass storage_options to rmqcore.read")
        yield store
        return
    with read(store, storage_options=storage_options) as reader:
        yield reader


def _without_rows(wanted: Conditions, places: Iterable[str]) -> list[str]:
    written = {place.partition("/")[0] for place in places}
    return [
        topic
        for topic in sorted(wanted.topics or ())
        if partition_folder(topic, 0).partition("/")[0] not in written
    ]


Written = tuple[int, int, list[tuple[Path, str]]]
"""The number of rows, the bytes of their records, and each part file with its place."""


def _parquet(parts: ParquetParts, batches: RecordBatches) -> Written:
    rows = stored_bytes = 0
    for batch in batches:
        rows += batch.num_rows
        stored_bytes += int(batch.column("msg_size").to_numpy().sum(dtype="int64"))
        parts.write(batch)
        del batch  # the next one may be large, too
    parts.close()
    return rows, stored_bytes, parts.names.places


def _text(parts: TextParts, views: Iterable[MessageView]) -> Written:
    rows = stored_bytes = 0
    for view in views:
        parts.write(view)
        rows += 1
        stored_bytes += view.msg_size
    parts.close()
    return rows, stored_bytes, parts.names.places
