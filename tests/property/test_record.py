"""Records: the package against the oracle, whole and damaged."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.oracle import records as oracle
from support.oracle.strategies import Sample, damaged, samples
from support.oracle.views import fields_of

from rmqcore import codec
from rmqcore._native.format.codec import describe
from rmqcore.codec.message import MessageView, pack_host
from rmqcore.errors import CorruptMessageError


def encoded(sample: Sample) -> bytes:
    record = sample.record
    return codec.encode(
        sample.message,
        phy_offset=record.phy_offset,
        queue_offset=record.queue_offset,
        store_timestamp_ms=record.store_timestamp_ms,
        append_prop_crc=sample.append_prop_crc,
    )


def assert_same(view: MessageView, record: oracle.Record, raw: bytes) -> None:
    """Every name of a view against the oracle's reading of the same bytes."""
    properties = record.property_map
    assert {
        name: getattr(view, name)
        for name in dir(view)
        if not name.startswith("_") and not callable(getattr(view, name))
    } == fields_of(record) | {
        "properties": properties,
        "keys": tuple(oracle.key_tokens(properties.get("KEYS", ""))),
        "raw": raw,
        "body_size": len(record.body),
    }
    assert list(view.properties) == list(properties)


@given(samples())
def test_encode_gives_the_oracles_bytes_and_decode_gives_the_message_back(sample: Sample) -> None:
    raw = encoded(sample)
    assert raw == sample.expected
    view = codec.decode(raw)
    again = oracle.decode_record(raw)
    assert isinstance(again, oracle.Record)
    assert_same(view, again, raw)
    # The identity, without the oracle: what went in comes out.
    assert view.topic == sample.message.topic
    assert view.body == sample.message.body
    kept = {k: v for k, v in sample.properties.items() if v}
    if sample.append_prop_crc:
        kept["__CRC32#"] = view.properties["__CRC32#"]
    assert view.properties == kept
    assert pack_host(view.born_host) == sample.record.born_host.packed
    assert pack_host(view.store_host) == sample.record.store_host.packed
    assert view.crc_ok()
    assert codec.check(raw, check_prop_crc=sample.append_prop_crc) == len(raw)


@given(samples(), st.binary(max_size=100), st.binary(max_size=100))
def test_a_record_is_found_at_its_position_between_other_bytes(
    sample: Sample, before: bytes, after: bytes
) -> None:
    raw = sample.expected
    view = codec.decode(before + raw + after, len(before))
    assert view.raw == raw
    assert codec.check(before + raw + after, len(before)) == len(raw)


def compare_check(data: bytes, pos: int, *, check_crc: bool, check_prop_crc: bool) -> None:
    try:
        size = oracle.check_record(data, pos, check_crc=check_crc, check_prop_crc=check_prop_crc)
    except oracle.Refused as refused:
        with pytest.raises(CorruptMessageError) as caught:
            codec.check(data, pos, check_crc=check_crc, check_prop_crc=check_prop_crc)
        error = caught.value
        expected = describe(refused.reason, refused.found, refused.expected)
        assert (error.phy_offset, error.field, error.expected, error.found) == (pos, *expected)
        return
    assert codec.check(data, pos, check_crc=check_crc, check_prop_crc=check_prop_crc) == size


def compare_decode(data: bytes, pos: int) -> None:
    try:
        record = oracle.decode_record(data, pos)
    except oracle.Refused:
        record = None
    if isinstance(record, oracle.Record):
        assert record.msg_size is not None
        assert_same(codec.decode(data, pos), record, data[pos : pos + record.msg_size])
    else:
        with pytest.raises(CorruptMessageError):
            codec.decode(data, pos)


@given(st.data(), samples(), st.booleans(), st.booleans())
def test_damaged_records_are_accepted_or_refused_as_by_the_oracle(
    data: st.DataObject, sample: Sample, check_crc: bool, check_prop_crc: bool
) -> None:
    mutated = data.draw(damaged(sample.expected))
    compare_check(mutated, 0, check_crc=check_crc, check_prop_crc=check_prop_crc)
    compare_decode(mutated, 0)


@given(st.binary(max_size=300), st.data())
def test_arbitrary_bytes_are_refused_as_by_the_oracle(noise: bytes, data: st.DataObject) -> None:
    pos = data.draw(st.integers(0, len(noise)))
    compare_check(noise, pos, check_crc=True, check_prop_crc=True)
    compare_decode(noise, pos)


@given(samples())
def test_every_cut_of_a_record_is_short(sample: Sample) -> None:
    raw = sample.expected
    for size in {0, 1, 7, 8, 40, 88, 90, 91, len(raw) // 2, len(raw) - 1} & set(range(len(raw))):
        compare_check(raw[:size], 0, check_crc=True, check_prop_crc=False)
        compare_decode(raw[:size], 0)


@given(st.data(), samples(appended=st.just(True)))
def test_one_changed_byte_breaks_the_appended_crc(data: st.DataObject, sample: Sample) -> None:
    raw = bytearray(sample.expected)
    at = data.draw(st.integers(0, len(raw) - 1))
    raw[at] ^= data.draw(st.integers(1, 255))
    with pytest.raises(CorruptMessageError):
        codec.check(bytes(raw), check_crc=False, check_prop_crc=True)
