"""ConsumeQueue entries and the checkpoint: bytes and numbers equal the oracle's."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.oracle import records as oracle
from support.oracle.strategies import int32, int64

from rmqcore import codec
from rmqcore._native.format import cq, cq_arrays
from rmqcore.disk.checkpoint import StoreCheckpoint

entries = st.lists(st.tuples(int64, int32, int64) | st.just(oracle.CQ_FILLER), max_size=30)


@given(entries)
def test_entries_there_and_back(rows: list[tuple[int, int, int]]) -> None:
    data = oracle.pack_cq(rows)
    columns = [np.array([entry[i] for entry in rows], dtype=np.int64) for i in range(3)]
    assert codec.pack_cq(*columns) == data
    assert codec.pack_cq(*(column.tolist() for column in columns)) == data
    assert [tuple(entry) for entry in codec.unpack_cq_entries(data).tolist()] == rows
    for i, entry in enumerate(rows):
        assert codec.unpack_cq(data, 20 * i) == entry
        assert codec.pack_cq(*entry) == data[20 * i : 20 * i + 20]


@given(entries, st.binary(max_size=19), int64)
def test_the_valid_entries_are_counted_as_one_by_one(
    rows: list[tuple[int, int, int]], partial: bytes, limit: int
) -> None:
    data = oracle.pack_cq(rows) + partial
    valid = 0
    while valid < len(rows) and rows[valid][0] >= 0 and rows[valid][1] > 0:
        valid += 1
    below = next((i for i in range(valid) if rows[i][0] >= limit), valid)
    assert cq.valid_prefix(data) == valid
    assert cq.prefix_below(data, limit) == below


@pytest.mark.parametrize("size", [1, 19, 21, 39])
def test_bytes_that_are_no_whole_entries_are_refused(size: int) -> None:
    with pytest.raises(ValueError, match="20"):
        codec.unpack_cq_entries(bytes(size))


@pytest.mark.parametrize(
    ("size", "pos"), [(0, 0), (19, 0), (20, 1), (20, -1), (40, 21), (40, 2**70), (40, -(2**70))]
)
def test_an_entry_that_is_not_there_is_a_value_error(size: int, pos: int) -> None:
    with pytest.raises(ValueError, match="no whole entry"):
        codec.unpack_cq(bytes(size), pos)


@pytest.mark.parametrize(
    "entry",
    [(2**63, 1, 0), (-(2**63) - 1, 1, 0), (0, 2**31, 0), (0, -(2**31) - 1, 0), (0, 1, 2**63)],
)
def test_numbers_without_room_are_never_cut(entry: tuple[int, int, int]) -> None:
    with pytest.raises(OverflowError):
        codec.pack_cq(*entry)
    with pytest.raises(OverflowError):
        codec.pack_cq(*([value] for value in entry))


def test_columns_that_do_not_fit_together_are_refused() -> None:
    with pytest.raises(ValueError, match="different lengths"):
        codec.pack_cq([1, 2], [1], [1])
    with pytest.raises(TypeError, match="integers"):
        codec.pack_cq([1.5], [1], [1])  # type: ignore[list-item]
    with pytest.raises(ValueError, match="dimension"):
        codec.pack_cq([[1]], [[1]], [[1]])  # type: ignore[list-item]


KINDS: dict[str, Callable[[bytes], Any]] = {
    "bytes": bytes,
    "bytearray": bytearray,
    "memoryview": memoryview,
    "numpy": lambda data: np.frombuffer(data, ">i4"),
    "numpy entries": lambda data: np.frombuffer(data, cq_arrays.CQ_DTYPE),
    "memoryview of int": lambda data: memoryview(data).cast("i"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_contiguous_buffer_is_taken(kind: str) -> None:
    data = oracle.pack_cq([oracle.CQ_FILLER, (1, 2, 3)])
    buf = KINDS[kind](data)
    assert codec.unpack_cq(buf, 20) == (1, 2, 3)
    assert codec.unpack_cq_entries(buf).tolist() == [oracle.CQ_FILLER, (1, 2, 3)]
    assert cq.valid_prefix(buf) == 2


@given(st.tuples(*[int64] * 6), st.binary(max_size=4048))
def test_the_checkpoint_is_six_longs(values: tuple[int, ...], rest: bytes) -> None:
    named = dict(zip(oracle.CHECKPOINT_FIELDS, values, strict=True))
    assert StoreCheckpoint(**named).encode() == oracle.encode_checkpoint(named)
    data = struct.pack(">6q", *values) + rest
    assert StoreCheckpoint.decode(data) == StoreCheckpoint(**named)
    with pytest.raises(ValueError, match="48 bytes"):
        StoreCheckpoint.decode(data[:47])
