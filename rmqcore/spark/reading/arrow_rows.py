"""Batches of the native scan as Arrow record batches in exactly the columns, order and types that Spark asks for.

Numbers, texts, bodies and maps are handed over without a copy; keys, times and constant columns are built. Python runs no
code for a single row, except to decompress its body.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from rmqcore._native.scan.batch import Batch
from rmqcore.offline.log.damage import DamageRange
from rmqcore.spark.reading.bodies import PlainBodies
from rmqcore.spark.reading.row_choice import Mask
from rmqcore.spark.rows.columns import MAX_MS, Column
from rmqcore.spark.rows.schema import arrow_schema


class ArrowRows:
    """Makes record batches of the messages of one split.

    Parameters
    ----------
    columns : tuple of Column
        Columns of the table ``messages``, in the order wanted.
    broker, file : str
        The values of the columns ``broker`` and ``_file``.
    most_rows : int
        The most rows that a batch may have.
    bodies : PlainBodies, optional
        Decompresses ``body``.

    Attributes
    ----------
    native : tuple of str
        Columns that the scan must return.
    failed_crcs : dict
        CommitLog offset of a record that fails its CRC -> the damage. The caller fills it.
    resynced : set of int
        CommitLog offsets of records behind damage. The caller fills it.
    """

    def __init__(
        self,
        columns: tuple[Column, ...],
        broker: str,
        file: str,
        most_rows: int,
        bodies: PlainBodies | None = None,
    ) -> None:
        self._columns = columns
        self._schema = arrow_schema(columns)
        self._constants = {"broker": broker, "_file": file}
        self._most_rows = most_rows
        self._filled: dict[str, Any] = {}
        self._bodies = bodies if any(column.name == "body" for column in columns) else None
        native = {name for column in columns for name in column.native}
        if self._bodies is not None:
            native |= {"sys_flag", "phy_offset"}
        self.native = tuple(sorted(native)) or ("phy_offset",)
        self.failed_crcs: dict[int, DamageRange] = {}
        self.resynced: set[int] = set()

    def batches(self, batch: Batch, mask: Mask | None) -> Iterator[Any]:
        """Yield the rows of a batch that the mask selects, or all; in several batches if decompressed bodies are large."""
        import pyarrow as pa

        rows = pa.record_batch(batch)
        if mask is not None:
            rows = rows.filter(pa.array(mask))
        if not rows.num_rows:
            return
        if self._bodies is None:
            yield self._record_batch(rows, None, {})
            return
        for part, bodies, reasons in self._bodies.parts(rows):
            if part.num_rows:
                yield self._record_batch(part, bodies, reasons)

    def _record_batch(self, rows: Any, bodies: Any, reasons: dict[int, str]) -> Any:
        import pyarrow as pa

        arrays = []
        for column in self._columns:
            make = _MADE.get(column.name)
            if column.name == "body" and bodies is not None:
                arrays.append(bodies)
            elif column.name in self._constants:
                arrays.append(
                    self._constant(column.name, self._constants[column.name], rows.num_rows)
                )
            elif column.name == "crc_ok":
                arrays.append(self._crc_ok(rows))
            elif column.name == "resynced":
                arrays.append(self._resynced(rows))
            elif column.name == "corrupt_reason":
                arrays.append(self._reasons(rows, reasons))
            elif column.name == "properties" and column.type == "string":
                arrays.append(stored_properties(rows.column("properties")))
            elif make is not None:
                arrays.append(make(rows))
            else:
                arrays.append(rows.column(column.native[0]))
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    # ---- columns that are the same in nearly every row ----------------------------------------------

    def _constant(self, name: str, value: Any, count: int) -> Any:
        import pyarrow as pa

        known = self._filled.get(name)
        if known is None or len(known) < count:
            # Shorter than the longest allowed batch: batchBytes ends most batches long before batchRows does.
            most = min(2 * count, self._most_rows)
            of_type = self._schema.field(name).type
            known = self._filled[name] = pa.repeat(pa.scalar(value, of_type), most)
        return known.slice(0, count)

    def _crc_ok(self, rows: Any) -> Any:
        import pyarrow as pa

        failed = _among(rows, self.failed_crcs)
        if failed is None:
            return self._constant("crc_ok", value=True, count=rows.num_rows)
        return pa.array(~failed)

    def _resynced(self, rows: Any) -> Any:
        import pyarrow as pa

        found = _among(rows, self.resynced)
        if found is None:
            return self._constant("resynced", value=False, count=rows.num_rows)
        return pa.array(found)

    def _reasons(self, rows: Any, reasons: dict[int, str]) -> Any:
        import pyarrow as pa

        failed = _among(rows, self.failed_crcs)
        if failed is None and not reasons:
            return self._constant("corrupt_reason", None, rows.num_rows)
        texts: list[str | None] = [None] * rows.num_rows
        for row, reason in reasons.items():
            texts[row] = reason
        if failed is not None:
            offsets = rows.column("phy_offset").to_numpy()
            for row in map(int, np.flatnonzero(failed)):
                damage = self.failed_crcs[int(offsets[row])]
                texts[row] = f"{damage.field} is {damage.found}, expected {damage.expected}"
        return pa.array(texts, pa.string())


def _among(rows: Any, phy_offsets: Any) -> Mask | None:
    """Return a mask of the rows that lie at one of `phy_offsets`; None if no row does."""
    if not phy_offsets:
        return None
    offsets = rows.column("phy_offset").to_numpy()
    near = [at for at in phy_offsets if offsets[0] <= at <= offsets[-1]]
    return np.isin(offsets, near) if near else None


def timestamps(ms: Any) -> Any:
    """Return milliseconds as Spark's timestamps; a time that microseconds cannot hold becomes null."""
    import pyarrow as pa

    values = ms.to_numpy()
    bad = None
    if values.max() > MAX_MS or values.min() < -MAX_MS:
        bad = (values > MAX_MS) | (values < -MAX_MS)
        values = np.where(bad, 0, values)
    return pa.array(values * 1000, pa.int64(), mask=bad).view(pa.timestamp("us", tz="UTC"))


def joined_keys(keys: Any) -> Any:
    """Join the words of KEYS with spaces; a message without keys gets null."""
    import pyarrow as pa
    import pyarrow.compute as pc

    joined = pc.binary_join(keys, " ")
    lengths = pc.list_value_length(keys).to_numpy()
    if lengths.all():
        return joined
    return pc.if_else(pa.array(lengths > 0), joined, pa.scalar(None, pa.string()))


def stored_properties(properties: Any) -> Any:
    """Return a map column as texts in the form of records: NAME, byte 1, VALUE, with byte 2 between the pairs."""
    import pyarrow as pa
    import pyarrow.compute as pc

    pairs = pc.binary_join_element_wise(
        properties.keys, properties.items, "\x01", null_handling="replace"
    )
    return pc.binary_join(pa.ListArray.from_arrays(properties.offsets, pairs), "\x02")


_MADE: dict[str, Callable[[Any], Any]] = {
    "store_timestamp": lambda rows: timestamps(rows.column("store_timestamp_ms")),
    "born_timestamp": lambda rows: timestamps(rows.column("born_timestamp_ms")),
    "keys": lambda rows: joined_keys(rows.column("keys")),
}
