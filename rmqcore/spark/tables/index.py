"""Table ``index``: a row for each entry of the IndexFiles."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from rmqcore._native.format.layout import (
    INDEX_ENTRY_SIZE,
    index_file_size,
)
from rmqcore._native.index.index_reader import INDEX_ENTRY_DTYPE
from rmqcore.disk.paths import StorePaths, is_index_file_name
from rmqcore.disk.read_range import read_range
from rmqcore.errors import CorruptIndexError
from rmqcore.offline.index.index_files import IndexFileReader, find_index_files
from rmqcore.spark.rows.columns import MAX_MS
from rmqcore.spark.storage.store_location import StoreLocation
from rmqcore.spark.tables.table import TableRead, batch_of
from rmqcore.vocabulary.units import INT_MAX


@dataclass(frozen=True)
class IndexPart:
    """The entries of one file with numbers in [`start`, `end`); on another filesystem, all entries of a file not yet read."""

    store: StoreLocation
    file: str
    slot_count: int | None = None
    start: int = 1
    end: int = INT_MAX


class IndexRead(TableRead):
    """A read of ``index``."""

    def planned_parts(self) -> list[IndexPart]:
        """Return parts of pieces of files.

        Raises
        ------
        CorruptIndexError
            Entries of a file cannot be found: its header is zeros, or its length and its header disagree.
        """
        parts: list[IndexPart] = []
        for store in self.stores:
            parts += self._local_parts(store) if store.is_local else self._remote_parts(store)
        return parts

    def _local_parts(self, store: StoreLocation) -> Iterator[IndexPart]:
        most = max(1, self.options.max_partition_bytes // INDEX_ENTRY_SIZE)
        for reader in find_index_files(store.paths):
            slots = _slot_count(reader)
            if reader.header.index_count <= 1:
                continue
            for start in range(1, _end_of(reader), most):
                yield IndexPart(
                    store, reader.path.name, slots, start, min(start + most, _end_of(reader))
                )

    @staticmethod
    def _remote_parts(store: StoreLocation) -> Iterator[IndexPart]:
        for name, is_dir in store.names("index").items():
            if not is_dir and is_index_file_name(name):
                yield IndexPart(store, name)

    def read(self, part: IndexPart) -> Iterator[Any]:
        """Read the entries."""
        with part.store.local_copy(f"index/{part.file}") as paths:
            yield from self._entries(part, paths)

    def _entries(self, part: IndexPart, paths: StorePaths) -> Iterator[Any]:
        path = paths.index / part.file
        if not path.exists():  # the broker has deleted it
            return
        reader = IndexFileReader(path, slot_count=part.slot_count)
        slots = _slot_count(reader)
        if reader.header.index_count <= 1:
            return
        for start in range(part.start, min(part.end, _end_of(reader)), self.options.batch_rows):
            count = min(self.options.batch_rows, part.end - start, _end_of(reader) - start)
            pos = index_file_size(slots, start)
            data = read_range(path, pos, count * INDEX_ENTRY_SIZE)
            entries = np.frombuffer(data, INDEX_ENTRY_DTYPE, len(data) // INDEX_ENTRY_SIZE)
            if not len(entries):
                return
            begin_ms = reader.header.begin_timestamp_ms
            seconds = entries["time_diff"].astype(np.int64)
            times: Any = (begin_ms + seconds * 1000) * 1000
            if abs(begin_ms) > MAX_MS - (1 << 42):
                times = [None] * len(entries)
            hashes = entries["key_hash"].astype(np.int32)
            values = {
                "broker": part.store.broker,
                "file": part.file,
                "entry": np.arange(start, start + len(entries), dtype=np.int32),
                "slot": hashes % np.int32(slots),
                "key_hash": hashes,
                "phy_offset": entries["phy_offset"].astype(np.int64),
                "time_diff_s": entries["time_diff"].astype(np.int32),
                "store_timestamp": times,
                "previous_entry": entries["prev_index"].astype(np.int32),
            }
            yield batch_of(self.columns, values, len(entries))


def _slot_count(reader: IndexFileReader) -> int:
    """Return the slots of a file whose entries can be found; 0 of a file without entries."""
    why = reader.problem()
    if why is not None:
        raise CorruptIndexError(
            f"index/{reader.path.name}",
            0,
            "file",
            "one whose entries can all be found",
            f"damaged: {why}",
        )
    return reader.slot_count or 0


def _end_of(reader: IndexFileReader) -> int:
    """Return the number behind that of the last entry."""
    return min(reader.header.index_count, reader.max_index_num or 0)
