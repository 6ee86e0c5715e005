"""The kernel that tells where a part of a CommitLog file begins: each reason for which it refuses to tell."""

from __future__ import annotations

import struct
from dataclasses import replace

import pytest
from support.oracle import records as oracle
from support.stores.split_logs import HEADER, MAGIC, SUFFIX, record
from support.stores.store_maker import sample_records

from rmqcore._native.scan import places

BASE = 3 << 30
FILE = 1 << 20
MOST = 2000


def log(*bodies: bytes, before: bytes = b"\0" * 50) -> tuple[bytearray, list[int]]:
    """Bytes that are no record and then records behind each other, and where the records start."""
    data, starts = bytearray(before), []
    for body in bodies:
        starts.append(len(data))
        data += record(body, BASE + len(data))
    return data, starts


def start(
    data: bytes | bytearray,
    boundary: int,
    *,
    length: int | None = None,
    file_left: int = FILE,
    most: int = MOST,
    anchored: bool = False,
) -> int:
    length = len(data) if length is None else length
    return places.split_start(
        data, length, boundary, BASE, BASE + length + file_left, most, anchored=anchored
    )


def test_every_boundary_leads_to_the_next_record() -> None:
    data, starts = log(b"one", b"", b"three" * 100, b"4", b"5", b"6")
    for boundary in range(starts[0] + 1, starts[-1] + 1):
        assert start(data, boundary) == min(at for at in starts if at >= boundary)


@pytest.mark.parametrize(("boundary", "length"), [(0, 10), (-1, 10), (11, 10), (5, 11)])
def test_boundaries_outside_are_wrong_usage(boundary: int, length: int) -> None:
    with pytest.raises(ValueError):
        start(bytes(10), boundary, length=length)


@pytest.mark.parametrize("most", [0, -1, 1 << 31])
def test_records_have_a_positive_int_for_size(most: int) -> None:
    with pytest.raises(ValueError, match="max_record_size"):
        start(bytes(100), 50, most=most)


@pytest.mark.parametrize("data", [bytes(500), MAGIC * 125, b""], ids=["zeros", "magic", "short"])
def test_without_a_candidate_nothing_is_told(data: bytes) -> None:
    assert start(data + bytes(100), 50) == places.SPLIT_NOTHING


@pytest.mark.parametrize(
    ("at", "field"),
    [(3, "TOTALSIZE"), (11, "BODYCRC"), (HEADER - 1, "BODYLENGTH"), (HEADER + 9, "TOPICLENGTH")],
)
def test_a_record_that_is_nearly_sound_is_odd(at: int, field: str) -> None:
    """A kernel that passed over such a record would hide that the walk arrives there and sees damage."""
    data, starts = log(b"one", b"two", b"body nine", b"four", b"five")
    boundary = starts[3] + 1
    assert start(data, boundary) == starts[4]
    data[starts[2] + at] ^= 1
    assert start(data, boundary) == places.SPLIT_ODD, field


def test_a_record_elsewhere_is_none() -> None:
    """MAGIC is in its place, PHYSICALOFFSET is that of another place: a copy, as in the body of a retry."""
    data, starts = log(b"one", bytes(record(b"copy", BASE + 1)), b"three", b"four")
    assert start(data, starts[2] + 1) == starts[3]


def test_two_stories_are_odd() -> None:
    def forged(at: int, *, padding: int) -> bytes:
        return record(b"forged", at) + bytes(padding)

    data, _ = log(b"one", b"two")
    at = len(data)
    data += record(forged(BASE + at + HEADER, padding=7), BASE + at)
    data += record(b"four", BASE + len(data))
    inside = at + HEADER + 20
    assert start(data, inside) == places.SPLIT_ODD
    # Once the forged chain has ended, it ends at no candidate.
    assert start(data, at + HEADER + len(record(b"forged", 0)) + 3) == places.SPLIT_ODD


def test_a_record_past_the_window_asks_for_more() -> None:
    data, starts = log(b"one", b"two", b"x" * 1000, b"four")
    boundary = starts[2] + 60
    assert start(data, boundary, length=boundary + 100) == places.SPLIT_MORE
    assert start(data, boundary, length=starts[3]) == starts[3]
    # There are no more bytes where the file ends; for a record above the largest size no bytes are asked for.
    assert start(data, boundary, length=boundary + 100, file_left=0) == places.SPLIT_ODD
    assert start(data, boundary, length=boundary + 100, most=900) == places.SPLIT_ODD


def test_a_record_longer_than_the_longest_is_odd() -> None:
    data, starts = log(b"one", b"x" * 1000, b"three", b"four")
    size = starts[2] - starts[1]
    assert start(data, starts[2] + 1, most=size) == starts[3]
    assert start(data, starts[2] + 1, most=size - 1) == places.SPLIT_ODD


def test_the_last_candidate_may_begin_one_byte_before_the_boundary() -> None:
    data, starts = log(b"one", b"two", b"three")
    boundary = starts[1] + 1
    assert start(data, boundary) == starts[2]
    for length in range(boundary, starts[1] + 36):
        assert start(data, boundary, length=length) == places.SPLIT_MORE
        assert start(data, boundary, length=length, file_left=0) == places.SPLIT_ODD


def test_a_magic_in_the_last_bytes_of_a_file_is_odd() -> None:
    data, _ = log(b"one", b"two")
    assert start(data, len(data) - 3, file_left=0) == len(data)
    data[-4:] = (
        MAGIC  # of a record that would begin 8 bytes before the file's end, without room for its place
    )
    assert start(data, len(data) - 8, file_left=0) == len(data)
    assert start(data, len(data) - 7, file_left=0) == places.SPLIT_ODD


def test_a_blank_that_ends_the_file_is_odd() -> None:
    """The walk may have come to the BLANK and ended: what follows are records of an earlier life."""
    data, starts = log(b"one", b"two", b"three", before=bytes(8))
    assert start(data, starts[1] + 1) == starts[2]
    file_size = len(data) + FILE
    data[:8] = oracle.blank(file_size)
    assert start(data, starts[1] + 1) == places.SPLIT_ODD
    data[:8] = oracle.blank(file_size - 1)
    assert start(data, starts[1] + 1) == starts[2]


def nested(depth: int) -> bytes:
    """A record in the body of a record and so on, all of them sound and with one end."""
    raw = record(bytes(500), BASE + HEADER * (depth - 1))
    for level in reversed(range(depth - 1)):
        raw = record(raw[:-SUFFIX], BASE + HEADER * level)
    return raw


def test_records_inside_each_other_are_not_checked_without_end() -> None:
    """Each of n such records is as long as the window: n CRCs over all of it would take hours at 4 MiB."""
    few, many = nested(4), nested(40)
    assert start(few, 3 * HEADER + 40, most=1 << 20) == len(few)
    assert start(many, 39 * HEADER + 40, most=1 << 20) == places.SPLIT_NOTHING


def test_the_first_byte_of_a_file_needs_no_unanimity() -> None:
    """Every walk begins there, so whatever bodies hold does not matter."""
    data, starts = log(b"one", record(b"forged", BASE + HEADER) + bytes(9), b"three", before=b"")
    data[: starts[1]] = record(b"one", BASE)
    forged = bytes(data)
    assert start(forged, starts[1] + 1, anchored=True) == starts[2]
    assert start(forged, 1, anchored=True) == starts[1]
    data[10] ^= 1
    assert start(data, starts[1] + 1, anchored=True) == places.SPLIT_ODD
    long, at = log(b"x" * 1000, b"two", before=b"")
    assert start(long, 1, length=500, anchored=True) == places.SPLIT_MORE
    assert start(long, 1, anchored=True) == at[1]


def test_a_blank_is_no_record_to_begin_with() -> None:
    data, starts = log(b"one", b"two")
    end = len(data)
    data += oracle.blank(FILE + 8 + 100) + bytes(100)
    assert start(data, end) == end
    assert start(data, end + 1) == places.SPLIT_ODD
    assert struct.unpack_from(">i", data, starts[1])[0] == end - starts[1]


def test_records_of_every_form_are_candidates() -> None:
    """Long topics (V2) and hosts of 16 bytes too: a form passed over would look like damage between two other records."""
    data = bytearray(8)
    starts = []
    for sample in sample_records(60):
        starts.append(len(data))
        data += oracle.encode_record(replace(sample, phy_offset=BASE + len(data)))
    for boundary in range(starts[0] + 1, starts[-1] + 1, 3):
        assert start(data, boundary) == min(at for at in starts if at >= boundary)
