"""The property CRCs of a run of records, and any bytes in their place."""

from __future__ import annotations

import random

import pytest
from support.oracle import records as oracle

from rmqcore._native.scan import places

RECORDS = [
    oracle.Record(b"T", bytes([number]) * number, b"", phy_offset=number) for number in range(20)
]
ENCODED = [
    oracle.encode_record(record, append_prop_crc=number % 4 > 0)
    for number, record in enumerate(RECORDS)
]
WHOLE = b"".join(ENCODED)


def start_of(number: int) -> int:
    return sum(map(len, ENCODED[:number]))


def test_records_with_the_area_are_counted() -> None:
    assert places.prop_crc_failures(WHOLE, 0, len(WHOLE), 10) == (15, 0, [])
    assert places.prop_crc_failures(WHOLE, 0, 0, 10) == (0, 0, [])
    assert places.prop_crc_failures(WHOLE, start_of(5), start_of(9), 10) == (3, 0, [])


def test_failures_have_their_place_and_values() -> None:
    damaged = bytearray(WHOLE)
    for number in (1, 7, 8, 9):  # record 8 has no property CRC
        damaged[start_of(number) + 16] ^= 1
    checked, failures, first = places.prop_crc_failures(damaged, 0, len(damaged), 2)
    assert (checked, failures) == (15, 3)
    assert [pos for pos, _, _ in first] == [start_of(1), start_of(7)]
    own = bytes(damaged[start_of(1) : start_of(2)])
    assert first[0][1] == int(oracle.crc_area(own[:-20])[9:19][::-1])
    assert first[0][2] == int(own[-11:-1][::-1])
    assert places.prop_crc_failures(damaged, 0, len(damaged), 0) == (15, 3, [])
    assert places.prop_crc_failures(damaged, start_of(7), len(damaged), 9)[2][0][0] == start_of(7)


def test_a_record_without_the_area_fails_where_it_is_required() -> None:
    checked, failures, first = places.prop_crc_failures(WHOLE, 0, len(WHOLE), 9, required=True)
    assert (checked, failures) == (15, 5)
    assert first == [(start_of(number), 0, -1) for number in range(0, 20, 4)]


@pytest.mark.parametrize(("begin", "end"), [(-1, 5), (5, 4), (0, len(WHOLE) + 1)])
def test_places_outside_the_buffer(begin: int, end: int) -> None:
    with pytest.raises(ValueError, match="do not fit"):
        places.prop_crc_failures(WHOLE, begin, end, 1)
    with pytest.raises(ValueError, match="negative"):
        places.prop_crc_failures(WHOLE, 0, 0, -1)


def test_any_bytes() -> None:
    chance = random.Random(1)
    for _ in range(300):
        data = bytearray(WHOLE)
        for _ in range(chance.randrange(1, 20)):
            data[chance.randrange(len(data))] = chance.randrange(256)
        begin = chance.randrange(len(data))
        end = chance.randrange(begin, len(data) + 1)
        checked, failures, first = places.prop_crc_failures(data, begin, end, 3)
        assert 0 <= failures <= checked <= 15
        assert len(first) == min(failures, 3)
