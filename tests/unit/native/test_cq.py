"""ConsumeQueue entries: packing and unpacking at the edges of their fields, and where the valid entries end."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from rmqcore._native.format.cq import pack_cq, prefix_below, valid_prefix
from rmqcore._native.format.cq_arrays import unpack_cq_entries
from rmqcore._native.format.layout import CQ_FILLER_SIZE

LONGS = (0, 1, -1, (1 << 63) - 1, -(1 << 63))
INTS = (0, 1, -1, CQ_FILLER_SIZE, -(1 << 31))


@pytest.mark.parametrize(("long", "int_"), list(zip(LONGS, INTS, strict=True)))
def test_one_entry_is_20_big_endian_bytes(long: int, int_: int) -> None:
    assert pack_cq(long, int_, -long - 1) == struct.pack(">qiq", long, int_, -long - 1)


def test_columns_are_packed_in_order() -> None:
    packed = pack_cq(list(LONGS), np.array(INTS, np.int64), np.array(LONGS)[::-1])
    assert packed == b"".join(
        struct.pack(">qiq", *entry) for entry in zip(LONGS, INTS, LONGS[::-1], strict=True)
    )


def test_unpacking_gives_the_fields_back() -> None:
    entries = unpack_cq_entries(pack_cq(LONGS, INTS, LONGS))
    assert entries.tolist() == list(zip(LONGS, INTS, LONGS, strict=True))
    assert entries.dtype.names == ("phy_offset", "msg_size", "tags_code")


def test_nothing_packs_to_nothing() -> None:
    assert pack_cq([], [], []) == b""
    assert len(unpack_cq_entries(b"")) == 0


@pytest.mark.parametrize("size", [1, 19, 21])
def test_a_partial_entry_is_refused(size: int) -> None:
    with pytest.raises(ValueError, match=f"{size} bytes"):
        unpack_cq_entries(bytes(size))


@pytest.mark.parametrize(
    "entry",
    [(1 << 63, 1, 1), (1, 1 << 31, 1), (1, 1, -(1 << 63) - 1), ([1], [-(1 << 31) - 1], [1])],
)
def test_a_value_without_room_is_refused(entry: tuple[int, int, int]) -> None:
    with pytest.raises(OverflowError):
        pack_cq(*entry)


def test_columns_must_be_integers_of_one_length() -> None:
    with pytest.raises(ValueError, match="different lengths"):
        pack_cq([1, 2], [1], [1, 2])
    with pytest.raises(TypeError, match="msg_size"):
        pack_cq([1], [1.5], [1])  # type: ignore[list-item]
    with pytest.raises(ValueError, match="one dimension"):
        pack_cq([[1]], [1], [1])  # type: ignore[list-item]


@pytest.mark.parametrize("bad", [(-1, 10, 0), (0, 0, 0), (0, -1, 0)])
def test_the_valid_prefix_ends_at_the_first_invalid_entry(bad: tuple[int, int, int]) -> None:
    good = pack_cq(0, CQ_FILLER_SIZE, 0) + pack_cq(0, 1, -1) + pack_cq((1 << 63) - 1, 1, 0)
    assert valid_prefix(good + pack_cq(*bad) + good) == 3
    assert valid_prefix(pack_cq(*bad)) == 0


@pytest.mark.parametrize(("cut", "valid"), [(0, 0), (19, 0), (20, 1), (39, 1), (40, 2)])
def test_a_partial_entry_at_the_end_does_not_count(cut: int, valid: int) -> None:
    assert valid_prefix((pack_cq(1, 1, 1) * 2)[:cut]) == valid
    assert prefix_below((pack_cq(1, 1, 1) * 2)[:cut], 100) == valid


def test_the_prefix_below_an_offset() -> None:
    data = pack_cq([0, 100, 200, 150], [10] * 4, [0] * 4)
    assert [prefix_below(data, bound) for bound in (0, 1, 100, 101, 200, 201)] == [0, 1, 1, 2, 2, 4]
    assert prefix_below(data + pack_cq(0, 0, 0) + data, 1000) == 4
