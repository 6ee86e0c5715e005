"""put_arrow from producers that break the rules of the Arrow C data interface.

An error names the column, nothing is read that is not there, and each struct is released exactly once.
"""

from __future__ import annotations

import _thread
import struct
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from support.oracle import records as oracle
from support.stores.append_log import AppendLog, append_log
from support.stores.arrow_structs import Array, Producer, Schema


@pytest.fixture
def log() -> Iterator[AppendLog]:
    with append_log() as opened:
        yield opened


@pytest.fixture
def producer() -> Producer:
    return Producer()


def i32(*values: int) -> bytes:
    return struct.pack(f"={len(values)}i", *values)


def i64(*values: int) -> bytes:
    return struct.pack(f"={len(values)}q", *values)


def view(length: int, text: bytes = b"", block: int = 0, begin: int = 0) -> bytes:
    if length <= 12:
        return struct.pack("=i12s", length, text)
    return struct.pack("=i4sii", length, text[:4], block, begin)


def table(producer: Producer, rows: int, **columns: tuple[Schema, Array]) -> tuple[Schema, Array]:
    """The columns given, and a good topic and body where they are not."""
    good = {
        "topic": (producer.schema(b"u", b"topic"), strings(producer, [b"t"] * rows)),
        "body": (producer.schema(b"z", b"body"), strings(producer, [b"b"] * rows)),
    }
    pairs = list((good | columns).values())
    return (
        producer.schema(b"+s", b"", [pair[0] for pair in pairs]),
        producer.array(rows, [None], [pair[1] for pair in pairs]),
    )


def strings(producer: Producer, texts: list[bytes]) -> Array:
    ends = [sum(map(len, texts[:n])) for n in range(len(texts) + 1)]
    return producer.array(len(texts), [None, i32(*ends), b"".join(texts)])


def once(released: dict[str, int], *kinds: str) -> bool:
    return dict(released) == dict.fromkeys(kinds, 1)


def test_a_good_table_is_released_once(log: AppendLog, producer: Producer) -> None:
    assert log.put_arrow(producer.as_array(*table(producer, 3))).statuses == ["PUT_OK"] * 3
    assert once(producer.released, "schema", "array")


def test_a_good_stream_is_released_once(log: AppendLog, producer: Producer) -> None:
    schema, first = table(producer, 3)
    arrays = [first, table(producer, 0)[1], table(producer, 700)[1]]
    assert log.put_arrow(producer.as_stream(schema, arrays)).statuses == ["PUT_OK"] * 703
    assert producer.released == {"schema": 1, "array": 3, "stream": 1}


def test_a_stream_that_fails(log: AppendLog, producer: Producer) -> None:
    schema, first = table(producer, 3)
    with pytest.raises(OSError, match="the stream failed: no reason given") as caught:
        log.put_arrow(producer.as_stream(schema, [first], error=5))
    assert caught.value.errno == 5
    assert once(producer.released, "schema", "array", "stream")
    assert len(oracle.scan(log.data).records) == 3


Breaker = Callable[[Producer], tuple[Schema, Array]]


def topics(format: bytes, length: int, buffers: list[bytes | None], **more: Any) -> Breaker:
    """A table of `length` rows whose topics are these buffers."""

    def make(p: Producer) -> tuple[Schema, Array]:
        return table(
            p, length, topic=(p.schema(format, b"topic"), p.array(length, buffers, **more))
        )

    return make


def encoded(
    indices: bytes, count: int, format: bytes = b"c", length: int = 2, **more: Any
) -> Breaker:
    def make(p: Producer) -> tuple[Schema, Array]:
        values = p.array(length, [None, i32(0, 1, 3), b"abc"])
        schema = p.schema(format, b"topic", dictionary=p.schema(b"u"))
        return table(
            p, count, topic=(schema, p.array(count, [None, indices], dictionary=values, **more))
        )

    return make


def keys(offsets: bytes, items: int, format: bytes = b"+l", **more: Any) -> Breaker:
    def make(p: Producer) -> tuple[Schema, Array]:
        words = strings(p, [b"k"] * items)
        schema = p.schema(format, b"keys", [p.schema(b"u", b"item")])
        return table(p, 2, keys=(schema, p.array(2, [None, offsets], [words], **more)))

    return make


def properties(
    offsets: bytes, entries: int, names: int, values: int, children: int = 2, buffers: int = 1
) -> Breaker:
    def make(p: Producer) -> tuple[Schema, Array]:
        pairs = [strings(p, [b"n"] * names), strings(p, [b"v"] * values)]
        entry = p.array(entries, [None] * buffers, pairs[:children])
        schema = p.schema(
            b"+m", b"properties", [p.schema(b"+s", b"", [p.schema(b"u"), p.schema(b"u")])]
        )
        return table(p, 2, properties=(schema, p.array(2, [None, offsets], [entry])))

    return make


def changed(**fields: Any) -> Breaker:
    """A good table whose root has other fields."""

    def make(p: Producer) -> tuple[Schema, Array]:
        schema, array = table(p, 2)
        for name, value in fields.items():
            setattr(array, name, value)
        return schema, array

    return make


def without_child(p: Producer) -> tuple[Schema, Array]:
    schema, array = table(p, 2)
    array.children[1] = type(array.children[1])()
    return schema, array


def with_a_released_child(p: Producer) -> tuple[Schema, Array]:
    topic = Array(length=2, n_buffers=3)
    return table(p, 2, topic=(p.schema(b"u", b"topic"), p.held(topic)))


BROKEN: dict[str, tuple[Breaker, str]] = {
    "offsets decrease": (topics(b"u", 2, [None, i32(0, 3, 1), b"abc"]), "'topic', row 0: an offset that leaves"),
    "offsets decrease between": (topics(b"u", 3, [None, i32(0, 2, 1, 3), b"abc"]), "'topic', row 1: an offset that leaves"),
    "an offset behind the last": (topics(b"u", 2, [None, i32(0, 9, 3), b"abc"]), "'topic', row 0: an offset that leaves"),
    "a negative offset between": (topics(b"u", 2, [None, i32(0, -1, 3), b"abc"]), "'topic', row 0: an offset that leaves"),
    "negative offsets": (topics(b"u", 1, [None, i32(-3, -1), b"abc"]), "'topic': offset -3 behind offset 0"),
    "the last before the first": (topics(b"u", 1, [None, i32(3, 1), b"abc"]), "'topic': offset 1 behind offset 3"),
    "large offsets decrease": (topics(b"U", 2, [None, i64(0, 2**62, 3), b"abc"]), "'topic', row 0: an offset that leaves"),
    "large and negative": (topics(b"U", 1, [None, i64(-(2**63), 3), b"abc"]), "'topic': offset -9223372036854775808 behind"),
    "no offsets": (topics(b"u", 1, [None, None, b"abc"]), "'topic': values is 0"),
    "no data": (topics(b"u", 1, [None, i32(0, 3), None]), "'topic': data is 0"),
    "too few buffers": (topics(b"u", 1, [None, i32(0, 3)]), "'topic': n_buffers is 2, which does not fit 3"),
    "too many buffers": (topics(b"u", 1, [None, i32(0, 3), b"abc", b""]), "'topic': n_buffers is 4"),
    "nulls without a bitmap": (topics(b"u", 1, [None, i32(0, 3), b"abc"], null_count=1), "'topic': validity is 0"),
    "more nulls than rows": (topics(b"u", 1, [b"\0", i32(0, 3), b"abc"], null_count=2), "'topic': null_count is 2"),
    "a null_count below -1": (topics(b"u", 1, [b"\0", i32(0, 3), b"abc"], null_count=-2), "'topic': null_count is -2"),
    "a negative offset of the array": (topics(b"u", 1, [None, i32(0, 3), b"abc"], offset=-1), "'topic': offset is -1"),
    "an offset near the end of 64 bits": (topics(b"u", 1, [None, i32(0, 3), b"abc"], offset=2**63 - 1), "'topic': offset is"),
    "a view of negative length": (topics(b"vu", 1, [None, view(-1), i64()]), "'topic', row 0: an offset that leaves"),
    "a view without blocks": (topics(b"vu", 1, [None, view(13), i64()]), "'topic', row 0: an offset that leaves"),
    "a view into no block": (topics(b"vu", 1, [None, view(13, block=1), b"x" * 13, i64(13)]), "row 0: an offset"),
    "a view into a negative block": (topics(b"vu", 1, [None, view(13, block=-1), b"x" * 13, i64(13)]), "row 0: an offset"),
    "a view behind its block": (topics(b"vu", 1, [None, view(13, begin=1), b"x" * 13, i64(13)]), "row 0: an offset"),
    "a view before its block": (topics(b"vu", 1, [None, view(13, begin=-1), b"x" * 13, i64(13)]), "row 0: an offset"),
    "a view into a block that is NULL": (topics(b"vu", 1, [None, view(13), None, i64(13)]), "row 0: an offset"),
    "a view whose end wraps": (topics(b"vu", 1, [None, view(2**31 - 1, begin=2**31 - 1), b"x", i64(1)]), "row 0: an off"),
    "views without lengths": (topics(b"vu", 1, [None, view(13), b"x" * 13, None]), "'topic': buffer lengths is 0"),
    "an index behind the dictionary": (encoded(b"\0\2", 2), "'topic', row 1: an index outside its dictionary"),
    "a negative index": (encoded(b"\xff", 1), "'topic', row 0: an index outside its dictionary"),
    "an index of 64 bits": (encoded(struct.pack("=Q", 2**64 - 1), 1, b"L"), "'topic', row 0: an index outside its dictionary"),
    "an index into an empty dictionary": (encoded(b"\0", 1, length=0), "'topic', row 0: an index outside its dictionary"),
    "a dictionary of negative length": (encoded(b"\0", 1, length=-1), "'topic': length is -1"),
    "list offsets behind the items": (keys(i32(0, 1, 3), 2), "'keys': list items is 2, which does not fit 3"),
    "list offsets that decrease": (keys(i32(0, 2, 1), 2), "'keys', row 0: an offset that leaves"),
    "list offsets that are negative": (keys(i32(-1, 1, 1), 2), "'keys': offset -1 behind offset 0"),
    "large list offsets": (keys(i64(0, 2**40, 1), 2, b"+L"), "'keys', row 0: an offset that leaves"),
    "map offsets behind the entries": (properties(i32(0, 1, 3), 2, 2, 2), "'properties': list items is 2"),
    "fewer names than entries": (properties(i32(0, 1, 2), 2, 1, 2), "'properties': length is 1"),
    "fewer values than entries": (properties(i32(0, 1, 2), 2, 2, 1), "'properties': length is 1"),
    "entries without values": (properties(i32(0, 1, 2), 2, 2, 2, children=1), "'properties': n_children is 1"),
    "entries with a buffer too many": (properties(i32(0, 1, 2), 2, 2, 2, buffers=2), "'properties': n_buffers is 2"),
    "a column shorter than the table": (changed(length=3), "'topic': length is 2, which does not fit 3"),
    "a negative length": (changed(length=-1), "the batch: length is -1"),
    "an offset that no column has": (changed(offset=1, length=2), "'topic': length is 2, which does not fit 3"),
    "a length near the end of 64 bits": (changed(length=2**63 - 1), "the batch: offset is 0"),
    "fewer columns than the schema": (changed(n_children=1), "the batch: n_children is 1, which does not fit 2"),
    "more columns than the schema": (changed(n_children=3), "the batch: n_children is 3, which does not fit 2"),
    "no buffers at all": (changed(n_buffers=0), "the batch: n_buffers is 0"),
    "a missing column": (without_child, "'body': array is 0"),
    "a column that was released": (with_a_released_child, "'topic': array is 0"),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
@pytest.mark.parametrize("streamed", [False, True])
def test_a_broken_array_is_a_value_error_and_released_once(
    log: AppendLog, producer: Producer, name: str, streamed: bool
) -> None:
    breaker, match = BROKEN[name]
    schema, array = breaker(producer)
    data = producer.as_stream(schema, [array]) if streamed else producer.as_array(schema, array)
    with pytest.raises(ValueError, match=r"^put_arrow: .*the producer is broken") as caught:
        log.put_arrow(data)
    assert match in str(caught.value)
    kinds = ["schema", "array", "stream"] if streamed else ["schema", "array"]
    assert once(producer.released, *kinds)


def test_rows_before_the_broken_one_are_stored(log: AppendLog, producer: Producer) -> None:
    broken = topics(b"u", 600, [None, i32(*range(590), 5, *range(590, 600)), b"x" * 600])
    match = "row 589: an offset that leaves the data: the producer is broken; the rows before it"
    with pytest.raises(ValueError, match=match):
        log.put_arrow(producer.as_array(*broken(producer)))
    assert len(oracle.scan(log.data).records) == 589


@pytest.mark.parametrize("column", ["topic", "body"])
def test_a_child_of_the_schema_that_is_missing(
    log: AppendLog, producer: Producer, column: str
) -> None:
    schema, array = table(producer, 1)
    schema.children[column == "body"] = type(schema.children[0])()
    with pytest.raises(ValueError, match="the schema has no children where it says so"):
        log.put_arrow(producer.as_array(schema, array))
    assert once(producer.released, "schema", "array")


def test_a_type_without_a_format(log: AppendLog, producer: Producer) -> None:
    schema, array = table(producer, 1)
    schema.children[0].contents.format = None
    with pytest.raises(TypeError, match="'topic' is nothing, expected string"):
        log.put_arrow(producer.as_array(schema, array))
    assert once(producer.released, "schema", "array")


TYPES: dict[str, Callable[[Producer], Schema]] = {
    "list without items": lambda p: p.schema(b"+l", b"keys"),
    "list of two": lambda p: p.schema(b"+l", b"keys", [p.schema(b"u"), p.schema(b"u")]),
    "map without entries": lambda p: p.schema(b"+m", b"properties"),
    "map of strings": lambda p: p.schema(b"+m", b"properties", [p.schema(b"u")]),
    "map without values": lambda p: p.schema(
        b"+m", b"properties", [p.schema(b"+s", b"", [p.schema(b"u")])]
    ),
    "timestamp of no unit": lambda p: p.schema(b"tsx:", b"born_timestamp_ms"),
    "timestamp without unit": lambda p: p.schema(b"ts", b"born_timestamp_ms"),
    "no text": lambda p: p.schema(b"\xff\xff", b"tags"),
    "strings as indices": lambda p: p.schema(b"u", b"tags", dictionary=p.schema(b"u")),
    "dictionary in a dictionary": lambda p: p.schema(
        b"c", b"tags", dictionary=p.schema(b"c", dictionary=p.schema(b"u"))
    ),
    "empty": lambda p: p.schema(b"", b"flag"),
}


@pytest.mark.parametrize("name", TYPES)
def test_types_that_are_none(log: AppendLog, producer: Producer, name: str) -> None:
    column = TYPES[name](producer)
    more = {"more": (column, producer.array(1, [None, i32(0, 0)]))}
    with pytest.raises(TypeError, match=f"column '{column.name.decode()}' is .*, expected "):
        log.put_arrow(producer.as_array(*table(producer, 1, **more)))
    assert once(producer.released, "schema", "array")


def test_a_name_that_is_no_text(log: AppendLog, producer: Producer) -> None:
    more = {"more": (producer.schema(b"u", b"\xff"), strings(producer, [b""]))}
    with pytest.raises(ValueError, match="unknown columns '\ufffd'"):
        log.put_arrow(producer.as_array(*table(producer, 1, **more)))
    assert once(producer.released, "schema", "array")


def test_an_interrupt_ends_the_call_between_chunks_and_releases(
    log: AppendLog, producer: Producer
) -> None:
    """A KeyboardInterrupt is noticed once some hundred rows, not at the end of the batch."""
    schema, array = table(producer, 5000)
    log.log.appender.arm_append(_thread.interrupt_main)
    with pytest.raises(KeyboardInterrupt):
        log.put_arrow(producer.as_array(schema, array))
    assert once(producer.released, "schema", "array")
    assert 0 < len(oracle.scan(log.data).records) < 5000
