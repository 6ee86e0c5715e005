"""Comparison of the bytes of two CommitLogs, whose files may have different sizes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from rmqcore.errors import StoreError
from rmqcore.offline.diff.units import Cells, FileUnits, Offsets
from rmqcore.offline.log.log_files import LogBytes, LogFile, LogShape

WINDOW = 1024 * 1024
PIECE = 64 * 1024
"""The pieces in which differences are looked for, in bytes."""

Bytes = npt.NDArray[np.uint8]
Range = tuple[int, int]
"""CommitLog offsets, the end exclusive."""


@dataclass(frozen=True)
class BytesTask:
    """A range that lies in a single file on each side."""

    left: LogFile
    right: LogFile
    start: int
    end: int


def differing_pieces(task: BytesTask) -> list[Range]:
    """Return where the two files differ: in each piece of 64 KiB from the first to the last byte that differs."""
    found: list[Range] = []
    for start, left, right in _windows(task):
        if _equal(left, right):
            continue
        for pos in range(0, len(left), PIECE):
            left_piece, right_piece = left[pos : pos + PIECE], right[pos : pos + PIECE]
            if not _equal(left_piece, right_piece):
                places = _differences(left_piece, right_piece)
                found.append((start + pos + int(places[0]), start + pos + int(places[-1]) + 1))
    return found


def _windows(task: BytesTask) -> Iterator[tuple[int, Bytes, Bytes]]:
    """The bytes of both sides, a window after the other in the same memory."""
    room = min(WINDOW, task.end - task.start)
    memory = np.empty(room, np.uint8), np.empty(room, np.uint8)
    with ExitStack() as stack:
        sources = [
            stack.enter_context(file.read_until(task.end).open(lambda start, end, error: None))
            for file in (task.left, task.right)
        ]
        for start in range(task.start, task.end, WINDOW):
            size = min(WINDOW, task.end - start)
            for source, buf in zip(sources, memory, strict=True):
                _read(source, start, buf[:size])
            yield start, memory[0][:size], memory[1][:size]


def _read(source: LogBytes, start: int, buf: Bytes) -> None:
    with buf.data as view:
        got = source.read_into(view, start - source.file.file_from_offset)
    if got < len(buf):
        raise StoreError(f"{source.file.location} was cut while it was compared")


def _equal(left: Bytes, right: Bytes) -> bool:
    """Compare eight bytes at a time, without the GIL: four times as fast as bytearrays."""
    if len(left) % 8 == 0:
        return np.array_equal(left.view(np.uint64), right.view(np.uint64))
    return np.array_equal(left, right)


def _differences(left: Bytes, right: Bytes) -> Offsets:
    return np.flatnonzero(left != right)


@dataclass(frozen=True)
class UnitsTask:
    """Files between two places where a file begins on both sides, and the pieces in those files that differ.

    Attributes
    ----------
    left, right : list of LogFile
    left_shape, right_shape : LogShape
    edges : list of int
        Offsets where the bytes of a side begin or end.
    pieces : list of (BytesTask, list of Range)
    """

    left: list[LogFile]
    right: list[LogFile]
    left_shape: LogShape
    right_shape: LogShape
    edges: list[int]
    pieces: list[tuple[BytesTask, list[Range]]]


def differing_units(task: UnitsTask) -> list[tuple[int, int, str]]:
    """Return the ranges of records and damage that differ, with the kind of difference."""
    left = FileUnits.of_all(task.left, task.left_shape)
    right = FileUnits.of_all(task.right, task.right_shape)
    cells = Cells(left, right, task.edges)
    found: set[int] = set()
    for where, pieces in task.pieces:
        for start, end in pieces:
            for at, left_bytes, right_bytes in _windows(replace(where, start=start, end=end)):
                found |= cells.of(_differences(left_bytes, right_bytes) + at)
    return joined(cells.ranges(found))


def joined(ranges: Sequence[tuple[int, int, str]]) -> list[tuple[int, int, str]]:
    """Return ranges in order, each once; neighbours of the same kind become one range."""
    found: list[tuple[int, int, str]] = []
    for start, end, kind in sorted(ranges):
        if found and found[-1][2] == kind and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]), kind)
        else:
            found.append((start, end, kind))
    return found
