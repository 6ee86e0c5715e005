"""The properties string, Java's string hash and what becomes of malformed UTF-8."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.oracle import records as oracle
from support.oracle.strategies import property_names, property_values, text_without

from rmqcore import codec

# Mostly separators, so that empty names, empty values and empty segments meet in every way.
separator_soup = st.lists(
    st.sampled_from(
        [b"\x01", b"\x02", b"\x01", b"\x02", b"a", b"b", "é".encode(), "\U0001f600".encode()]
    )
).map(b"".join)
malformed = st.lists(
    st.sampled_from(
        [bytes([lead]) for lead in (0x01, 0x02, 0x41, 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF)]
    )
    | st.sampled_from(
        [bytes([lead]) for lead in (0xC0, 0xC2, 0xDF, 0xE0, 0xED, 0xEF, 0xF0, 0xF4, 0xF5)]
    )
).map(b"".join)
# Blocks of 64 bytes are looked at together: pairs must be found on both sides of each border.
long_pairs = st.lists(
    st.tuples(st.integers(0, 70), st.integers(0, 140)), min_size=1, max_size=6
).map(
    lambda sizes: b"".join(b"n" * name + b"\x01" + b"v" * value + b"\x02" for name, value in sizes)
)
any_bytes = st.binary(max_size=200) | separator_soup | malformed | long_pairs


@given(any_bytes)
def test_decode_properties_is_the_oracles(data: bytes) -> None:
    found = codec.decode_properties(data)
    assert found == oracle.decode_properties(data)
    assert list(found) == list(oracle.decode_properties(data))


@given(any_bytes)
def test_what_was_read_reads_the_same_after_encoding(data: bytes) -> None:
    first = codec.decode_properties(data)
    again = codec.encode_properties(first)
    assert again == oracle.encode_properties(first)
    assert codec.decode_properties(again) == first


@given(st.dictionaries(property_names, property_values | st.none()))
def test_encode_properties_is_the_oracles(properties: dict[str, str | None]) -> None:
    data = codec.encode_properties(properties)
    assert data == oracle.encode_properties(properties)
    assert codec.decode_properties(data) == {k: v for k, v in properties.items() if v}


@given(text_without(""), st.sampled_from("\x01\x02"), text_without(""), st.booleans())
def test_a_separator_that_would_change_the_meaning_is_refused(
    before: str, separator: str, after: str, in_name: bool
) -> None:
    text = before + separator + after
    if in_name:
        with pytest.raises(ValueError, match="separator"):
            codec.encode_properties({text: "value"})
    elif "\x02" in text:
        with pytest.raises(ValueError, match="separator"):
            codec.encode_properties({"name": text})
    else:
        assert codec.decode_properties(codec.encode_properties({"name": text})) == {"name": text}


@given(st.text(st.characters(exclude_categories=[])))
def test_java_hash_is_the_oracles_also_with_lone_surrogates(text: str) -> None:
    assert codec.java_hash(text) == oracle.java_hash(text)


@given(any_bytes.map(lambda data: data.replace(b"\x02", b"")))
def test_the_tags_code_is_the_hash_of_the_text_that_java_would_read(tags: bytes) -> None:
    properties = b"TAGS\x01" + tags + b"\x02"
    raw = oracle.encode_record(oracle.Record(b"topic", b"", properties))
    view = codec.decode(raw)
    assert view.tags == (oracle.text_of(tags) or None)
    assert view.tags_code == oracle.java_hash(oracle.text_of(tags))
    assert codec.java_hash(view.tags or "") == view.tags_code


@given(malformed)
def test_a_topic_that_is_no_utf8_reads_as_in_java(topic: bytes) -> None:
    view = codec.decode(oracle.encode_record(oracle.Record(topic[:255], b"", b"")))
    assert view.topic == oracle.text_of(topic[:255])
