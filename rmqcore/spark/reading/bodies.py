"""Decompression of bodies, for the option decompressBody."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from rmqcore.codec.compression import decompress_body
from rmqcore.errors import CompressionError, CompressionLibraryError
from rmqcore.spark.options.source_options import Mode
from rmqcore.vocabulary import sysflag


class PlainBodies:
    """Decompresses the column ``body`` of a record batch.

    Parameters
    ----------
    file : str
        Name of the CommitLog file, for messages.
    mode : str
        What happens to a body that cannot be decompressed: PERMISSIVE makes it null, DROPMALFORMED leaves the row out,
        FAILFAST raises. A body that needs a library that is not installed raises in every mode.
    part_bytes : int
        A batch ends when its plain bodies reach this size: they can be a thousand times as large as the stored bodies.
    """

    def __init__(self, file: str, mode: Mode, part_bytes: int) -> None:
        self._file = file
        self._mode = mode
        self._part_bytes = part_bytes

    def parts(self, rows: Any) -> Iterator[tuple[Any, Any, dict[int, str]]]:
        """Yield ``(rows, bodies, reasons)``: a part of `rows`, its bodies, and by row number why a body is missing."""
        flags = rows.column("sys_flag").to_numpy()
        packed = np.flatnonzero(flags & sysflag.COMPRESSED)
        if not len(packed):
            yield rows, rows.column("body"), {}
            return
        begin = total = 0
        plain: dict[int, bytes | None] = {}
        reasons: dict[int, str] = {}
        for row in map(int, packed):
            body, reason = self._plain(rows, row, int(flags[row]))
            plain[row - begin] = body
            if reason:
                reasons[row - begin] = reason
            total += len(body or b"")
            if total >= self._part_bytes:
                yield self._part(rows.slice(begin, row + 1 - begin), plain, reasons)
                begin = row + 1
                total = 0
                plain = {}
                reasons = {}
        yield self._part(rows.slice(begin), plain, reasons)

    def _plain(self, rows: Any, row: int, sys_flag: int) -> tuple[bytes | None, str]:
        try:
            return decompress_body(rows.column("body")[row].as_py(), sys_flag), ""
        except CompressionError as error:
            # Raised in every mode: with a missing library every body of its kind would be null, or left out, though the
            # data is sound.
            if self._mode == "FAILFAST" or isinstance(error, CompressionLibraryError):
                where = f"{self._file}@{rows.column('phy_offset')[row].as_py()}"
                raise type(error)(f"{where}: {error}") from error
            return None, str(error)

    def _part(
        self, rows: Any, plain: dict[int, bytes | None], reasons: dict[int, str]
    ) -> tuple[Any, Any, dict[int, str]]:
        import pyarrow as pa

        bodies = rows.column("body").to_pylist()
        for row, body in plain.items():
            bodies[row] = body
        array = pa.array(bodies, pa.binary())
        if not reasons or self._mode != "DROPMALFORMED":
            return rows, array, reasons
        good = pa.array([row not in reasons for row in range(len(bodies))])
        return rows.filter(good), array.filter(good), {}
