"""Kernels over a column of values: equal to the codec one value at a time, and never outside the data they were given."""

from __future__ import annotations

import itertools
import random
import zlib
from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.oracle import records as oracle
from support.oracle import strategies

from rmqcore import Message, codec
from rmqcore._native.scan import places
from rmqcore._native.scan.value_columns import MAX_PROPERTIES_LEN, TRAILING, Values
from rmqcore.errors import CorruptMessageError

pa = pytest.importorskip("pyarrow")


def column(values: list[bytes], before: int = 0) -> tuple[array[int], bytes, int, int]:
    """Offsets, data, first and count of a column whose first `before` values are not wanted."""
    values = [b"unwanted"] * before + values
    ends = array("i", [0])
    for value in values:
        ends.append(ends[-1] + len(value))
    return ends, b"".join(values), before, len(values) - before


def numbers(count: int) -> array[int]:
    return array("i", [-99] * count)


@given(st.lists(strategies.bodies, max_size=20), st.integers(0, 3))
def test_body_crcs_are_those_of_the_codec(values: list[bytes], before: int) -> None:
    out = numbers(len(values))
    Values(*column(values, before)).body_crcs(out)
    assert out.tolist() == [zlib.crc32(value) & 0x7FFFFFFF for value in values]
    assert out.tolist() == [codec.body_crc(value) for value in values]


@given(st.lists(st.text(strategies.characters, max_size=40), max_size=20), st.integers(0, 3))
def test_hashes_are_those_of_java(texts: list[str], before: int) -> None:
    out = numbers(len(texts))
    Values(*column([text.encode() for text in texts], before)).java_hashes(out)
    assert out.tolist() == [oracle.java_hash(text) for text in texts]


@st.composite
def values_near_records(draw: st.DrawFn) -> bytes:
    raw = draw(strategies.samples()).expected
    kind = draw(st.sampled_from(["whole", "whole", "damaged", "behind", "twice", "any"]))
    if kind == "damaged":
        return draw(strategies.damaged(raw))
    if kind == "behind":
        return raw + draw(st.binary(min_size=1, max_size=9))
    if kind == "twice":
        return raw + raw
    return draw(st.binary(max_size=200)) if kind == "any" else raw


def size_alone(value: bytes, *, check_crc: bool) -> int | None:
    """Size of the record in the value; None when the value is no record."""
    try:
        size = codec.check(value, check_crc=check_crc)
    except CorruptMessageError:
        return None
    return size if size == len(value) and size > 0 else None


@given(st.lists(values_near_records(), max_size=6), st.integers(0, 3), st.booleans())
def test_a_value_is_a_record_when_the_codec_says_so(
    values: list[bytes], before: int, check_crc: bool
) -> None:
    out = numbers(len(values))
    sound = Values(*column(values, before)).check_records(out, check_crc=check_crc)
    expected = [size_alone(value, check_crc=check_crc) for value in values]
    assert [size if size > TRAILING else None for size in out] == expected
    assert sound == sum(size is not None for size in expected)


def test_each_way_to_be_no_record_has_its_code() -> None:
    raw = codec.encode(Message("T", b"body"), phy_offset=0, queue_offset=0, store_timestamp_ms=1)
    flipped = raw.replace(b"body", b"bodY")
    values = [raw, raw + b"x", raw[:-1], b"", bytes(100), flipped]
    out = numbers(len(values))
    assert Values(*column(values)).check_records(out, check_crc=True) == 1
    assert out.tolist() == [
        len(raw),
        TRAILING,
        places.SHORT,
        places.SHORT,
        places.ZERO,
        places.BODYCRC,
    ]
    assert Values(*column(values)).check_records(out, check_crc=False) == 2
    assert out[-1] == len(raw)


def maps(values: Values) -> list[list[tuple[str, str]]]:
    rows: list[list[tuple[str, str]]] = pa.record_batch(values.properties()).column(0).to_pylist()
    return rows


@given(
    st.lists(
        strategies.property_maps.map(codec.encode_properties)
        | st.binary(max_size=80)
        | st.lists(st.sampled_from([b"a", b"b", b"\x01", b"\x02", b"\xff", "é".encode()])).map(
            b"".join
        ),
        max_size=20,
    ),
    st.integers(0, 3),
)
def test_maps_are_the_dicts_of_the_codec(values: list[bytes], before: int) -> None:
    found = maps(Values(*column(values, before)))
    assert found == [list(codec.decode_properties(value).items()) for value in values]


def test_maps_of_very_many_and_of_repeated_names() -> None:
    many = b"".join(b"%d\x01v\x02" % (n % 3000) for n in range(5000))[:MAX_PROPERTIES_LEN]
    found = maps(Values(*column([many, b"", many])))
    assert found == [list(codec.decode_properties(value).items()) for value in (many, b"", many)]


def test_properties_longer_than_those_of_a_record_are_refused() -> None:
    values = column([b"a\x01b\x02", b"n\x01" + bytes(MAX_PROPERTIES_LEN)])
    with pytest.raises(ValueError, match=r"^value 1: 32769 bytes are more than the 32767 "):
        Values(*values).properties()


@pytest.mark.parametrize(
    "ends",
    [[0, 5, 3, 8], [0, 4, 9, 8], [-1, 4, 5, 8], [0, 4, 2**31 - 1, 8], [0, -(2**31), 4, 8]],
    ids=["falling", "past the data", "negative", "far past", "very negative"],
)
def test_offsets_that_leave_the_data_are_an_error(ends: list[int]) -> None:
    values = Values(array("i", ends), bytes(8), 0, 3)
    out = numbers(3)
    for call in (
        lambda: values.body_crcs(out),
        lambda: values.java_hashes(out),
        lambda: values.check_records(out, check_crc=True),
        values.properties,
    ):
        with pytest.raises(ValueError, match=r"^value [012]: offsets .* in 8 bytes of data$"):
            call()


@given(st.randoms(use_true_random=False), st.integers(0, 40))
def test_any_offsets_over_any_data_are_an_answer_or_an_error(rng: random.Random, size: int) -> None:
    ends = array("i", [rng.randint(-3, size + 3) for _ in range(rng.randint(1, 8))])
    if rng.random() < 0.5:
        ends = array("i", sorted(ends))
    data = bytearray(rng.randbytes(size))  # exactly so long: the sanitizer sees a byte too many
    values = Values(ends, data, 0, len(ends) - 1)
    out = numbers(len(values))
    right = all(0 <= a <= b <= size for a, b in itertools.pairwise(ends))
    for call in (
        lambda: values.body_crcs(out),
        lambda: values.java_hashes(out),
        lambda: values.check_records(out, check_crc=True),
        values.properties,
    ):
        if right:
            call()
        else:
            with pytest.raises(ValueError):
                call()


def test_rows_that_the_offsets_do_not_have_are_refused() -> None:
    ends = array("i", [0, 1, 2])
    for first, count in [(0, 3), (2, 1), (-1, 1), (0, -1), (3, 0), (2**62, 2**62), (0, 2**63 - 1)]:
        with pytest.raises(ValueError, match="need more than the 3 offsets given"):
            Values(ends, b"ab", first, count)
    assert len(Values(ends, b"ab", 2, 0)) == 0
    with pytest.raises(ValueError, match="need more than the 0 offsets"):
        Values(b"", None, 0, 0)


def test_the_answers_need_room() -> None:
    values = Values(*column([b"a", b"b"]))
    with pytest.raises(ValueError, match="2 numbers of 4 bytes do not fit 7 bytes"):
        values.body_crcs(bytearray(7))
    with pytest.raises((BufferError, TypeError), match=r"(?i)writable|read-only"):
        values.java_hashes(bytes(8))
    with pytest.raises(ValueError, match="aligned"):
        values.check_records(memoryview(bytearray(9))[1:], check_crc=False)


def test_values_without_data_are_empty_ones() -> None:
    values = Values(array("i", [0, 0, 0]), None, 0, 2)
    out = numbers(2)
    values.body_crcs(out)
    assert out.tolist() == [0, 0]
    assert values.check_records(out, check_crc=True) == 0
    assert maps(values) == [[], []]
