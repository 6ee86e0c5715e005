"""Many records, entries, properties and messages of batches at once: the bytes of a store, and what one at a time gives."""

from __future__ import annotations

import copy
import pickle
import tempfile
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given, note
from hypothesis import strategies as st
from support.doses import examples
from support.oracle import batch as batches
from support.oracle import records as oracle
from support.oracle.strategies import (
    Sample,
    bodies,
    damaged,
    host_text,
    hosts,
    int32,
    int64,
    log_of,
    property_maps,
    property_names,
    property_values,
    samples,
    topics,
)
from support.stores.append_log import NOW_MS, append_log

import rmqcore
from rmqcore import Message, codec
from rmqcore.errors import CorruptMessageError

WHERE: dict[str, Any] = {"phy_offset": 0, "store_timestamp_ms": NOW_MS}
QUEUED = (0, 8)
"""Transaction types that have a queue offset: none, COMMIT."""


def as_view(body: bytes) -> memoryview:
    return memoryview(body)


@st.composite
def messages(draw: st.DrawFn) -> Message:
    """A message that a store accepts mostly: few topics and queues, so that several are of the same."""
    return Message(
        draw(st.sampled_from(["a", "b", "é" * 64]) | topics),
        draw(bodies | bodies.map(bytearray) | bodies.map(as_view)),
        draw(st.integers(0, 2)),
        properties=draw(property_maps),
        flag=draw(int32),
        sys_flag=draw(st.sampled_from([0, 1, 4, 8, 12, 0x301]) | int32),
        born_timestamp_ms=draw(st.none() | int64),
        born_host=draw(st.none() | hosts.map(host_text)),
        store_host=draw(st.none() | hosts.map(host_text)),
        reconsume_times=draw(int32),
        prepared_transaction_offset=draw(int64),
    )


def one_by_one(
    given_messages: Iterable[Message], *, phy_offset: int, queue_offset: int = 0, crc: bool = False
) -> bytes:
    """What `encode` gives for each, with the offsets that a store would give them."""
    data = b""
    counted: dict[tuple[str, int], int] = {}
    for message in given_messages:
        place = 0
        if message.sys_flag & oracle.TRANSACTION_MASK in QUEUED:
            queue = message.topic, message.queue_id
            place = counted.get(queue, queue_offset)
            counted[queue] = place + 1
        data += codec.encode(
            message,
            phy_offset=phy_offset + len(data),
            queue_offset=place,
            store_timestamp_ms=NOW_MS,
            append_prop_crc=crc,
        )
    return data


# ---- the bytes of a store ---------------------------------------------------------------------------


@given(st.lists(messages(), max_size=12), st.booleans())
def test_encode_many_gives_the_bytes_of_put_many(given_messages: list[Message], crc: bool) -> None:
    with append_log(append_prop_crc=crc) as log:
        statuses = log.put_many(given_messages).statuses
        stored = [m for m, s in zip(given_messages, statuses, strict=True) if s == "PUT_OK"]
        assert codec.encode_many(stored, **WHERE, append_prop_crc=crc) == log.data
        assert one_by_one(stored, phy_offset=0, crc=crc) == log.data


@examples(0.3)
@given(st.lists(messages(), min_size=1, max_size=8), st.booleans())
def test_encode_many_gives_the_file_of_a_store(given_messages: list[Message], crc: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        with rmqcore.open(
            folder,
            services=False,
            clock=lambda: NOW_MS,
            mapped_file_size_commit_log=1 << 20,
            max_hash_slot_num=100,
            max_index_num=1000,
            enabled_append_prop_crc=crc,
        ) as store:
            stored = [m for m in given_messages if store.put(m).status.name == "PUT_OK"]
            end = store.max_phy_offset
        log = Path(folder) / "commitlog" / f"{0:020d}"
        data = log.read_bytes()[:end] if end else b""  # a store that has taken nothing has no file
    assert codec.encode_many(stored, **WHERE, append_prop_crc=crc) == data


@pytest.mark.parametrize("kind", [list, tuple, iter, deque, lambda m: (one for one in m)])
def test_any_iterable_of_messages(kind: Callable[[list[Message]], Any]) -> None:
    given_messages = [Message("t", b"%d" % n, n % 2) for n in range(1500)]
    assert codec.encode_many(kind(given_messages), **WHERE) == one_by_one(
        given_messages, phy_offset=0
    )


def test_nothing_is_nothing() -> None:
    assert codec.encode_many([], **WHERE) == codec.encode_many(iter(()), **WHERE) == b""


# ---- one at a time ----------------------------------------------------------------------------------


@given(samples(), st.binary(max_size=40), st.binary(max_size=40))
def test_the_three_ways_to_encode_give_the_oracles_bytes(
    sample: Sample, before: bytes, after: bytes
) -> None:
    record, raw = sample.record, sample.expected
    where: dict[str, Any] = {
        "phy_offset": record.phy_offset,
        "store_timestamp_ms": record.store_timestamp_ms,
        "append_prop_crc": sample.append_prop_crc,
    }
    message = sample.message
    assert codec.encode(message, queue_offset=record.queue_offset, **where) == raw
    buffer = bytearray(before + bytes(len(raw)) + after)
    size = codec.encode_into(
        buffer, len(before), message, queue_offset=record.queue_offset, **where
    )
    assert (size, bytes(buffer)) == (len(raw), before + raw + after)
    queued = record.sys_flag & oracle.TRANSACTION_MASK in QUEUED
    expected = (
        raw if queued else codec.encode(message, queue_offset=0, **where)
    )  # as a store has it
    assert codec.encode_many([message], queue_offset=record.queue_offset, **where) == expected
    assert message == sample.message


@given(st.lists(messages(), max_size=8), st.integers(0, 2**62), st.integers(0, 2**62), st.booleans())  # fmt: skip
def test_encode_many_counts_for_each_queue_from_where_it_is_told(
    given_messages: list[Message], phy_offset: int, queue_offset: int, crc: bool
) -> None:
    found = codec.encode_many(
        given_messages,
        phy_offset=phy_offset,
        store_timestamp_ms=NOW_MS,
        queue_offset=queue_offset,
        append_prop_crc=crc,
    )
    assert found == one_by_one(
        given_messages, phy_offset=phy_offset, queue_offset=queue_offset, crc=crc
    )
    views = codec.decode_all(found, check_crc=True)
    assert [view.phy_offset - phy_offset for view in views] == [
        sum(view.msg_size for view in views[:number]) for number in range(len(views))
    ]


def test_the_queue_offsets_by_example() -> None:
    def one(topic: str, queue_id: int, sys_flag: int = 0) -> Message:
        return Message(topic, b"", queue_id, sys_flag=sys_flag)

    given_messages = [
        one("a", 0), one("a", 1), one("b", 0), one("a", 0, 4), one("a", 0, 8), one("a", 0, 12), one("a", 0), one("b", 0, 1),
    ]  # fmt: skip
    data = codec.encode_many(given_messages, **WHERE, queue_offset=10)
    views = codec.decode_all(data)
    assert [view.queue_offset for view in views] == [10, 10, 10, 0, 11, 0, 12, 11]
    many = [
        one(f"t{n % 300}", n % 7) for n in range(5000)
    ]  # more queues than any table begins with
    assert codec.encode_many(many, **WHERE) == one_by_one(many, phy_offset=0)


def test_offsets_that_leave_a_long_are_named() -> None:
    most = 2**63 - 1
    assert codec.encode_many([GOOD], phy_offset=most, store_timestamp_ms=1, queue_offset=most)
    with pytest.raises(OverflowError, match=r"^message 1: phy_offset"):
        codec.encode_many([GOOD] * 3, phy_offset=most, store_timestamp_ms=1)
    with pytest.raises(OverflowError, match=r"^message 1: queue_offset"):
        codec.encode_many([GOOD] * 3, **WHERE, queue_offset=most)
    least = codec.encode_many([GOOD] * 2, phy_offset=-most, store_timestamp_ms=1, queue_offset=-5)
    assert [view.queue_offset for view in codec.decode_all(least)] == [-5, -4]


@pytest.mark.parametrize("crc", [False, True])
def test_a_crc_property_of_the_caller_gives_way(crc: bool) -> None:
    message = Message("t", b"", properties={"a": "b", "__CRC32#": "0123456789", "c": "d"})
    data = codec.encode_many([message] * 3, **WHERE, append_prop_crc=crc)
    assert data.count(b"__CRC32#") == 3
    for view in codec.decode_all(data):
        assert codec.check(view.raw, check_prop_crc=crc) == view.msg_size
        assert view.prop_crc_ok() is (True if crc else None) or not crc


# ---- refusals ---------------------------------------------------------------------------------------

GOOD = Message("t", b"body", 1, "A", ["k"])


def changed(**fields: Any) -> Message:
    message = Message("t", b"")
    for name, value in fields.items():
        setattr(message, name, value)
    return message


REFUSED: dict[str, Message] = {
    "topic too long": Message("t" * 32768, b""),
    "topic with a surrogate": Message("\ud800", b""),
    "properties too long": Message("t", b"", properties={"a": "b" * 32765}),
    "value too long": Message("t", b"", properties={"a": "b" * 65536}),
    "tags too long": Message("t", b"", tags="x" * 40_000),
    "keys too long": Message("t", b"", keys=["x" * 40_000]),
    "name with 0x01": Message("t", b"", properties={"a\x01": "b"}),
    "name with 0x02": Message("t", b"", properties={"a\x02": "b"}),
    "value with 0x02": Message("t", b"", properties={"a": "b\x02"}),
    "tags with 0x02": Message("t", b"", tags="\x02"),
    "keys with 0x02": Message("t", b"", keys="\x02"),
    "value with a surrogate": Message("t", b"", properties={"a": "\ud800"}),
    "name with a surrogate": Message("t", b"", properties={"\udfff": "a"}),
    "tags with a surrogate": Message("t", b"", tags="\ud800"),
    "queue_id too large": Message("t", b"", 2**31),
    "queue_id too small": Message("t", b"", -(2**31) - 1),
    "flag too large": Message("t", b"", flag=2**31),
    "sys_flag too large": Message("t", b"", sys_flag=2**31),
    "reconsume_times too small": Message("t", b"", reconsume_times=-(2**31) - 1),
    "no body": changed(body=None),
    "a text as body": changed(body="text"),
    "a number as body": changed(body=3),
    "a number as topic": changed(topic=None),
    "no properties": changed(properties=None),
    "a number as value": changed(properties={"a": 1}),
    "a number as name": changed(properties={1: "a"}),
    "bytes as value": changed(properties={"a": b"b"}),
    "half made": Message.__new__(Message),
}  # fmt: skip


@pytest.mark.parametrize("crc", [False, True])
@pytest.mark.parametrize("name", REFUSED)
def test_what_encode_refuses_the_others_refuse_with_the_same_words(name: str, crc: bool) -> None:
    message = REFUSED[name]
    where: dict[str, Any] = {**WHERE, "queue_offset": 0, "append_prop_crc": crc}
    with pytest.raises((ValueError, OverflowError, TypeError)) as one:
        codec.encode(message, **where)
    buffer = bytearray(b"\x55" * 200_000)
    with pytest.raises((ValueError, OverflowError, TypeError)) as into:
        codec.encode_into(buffer, 0, message, **where)
    assert (into.type, str(into.value)) == (one.type, str(one.value))
    assert buffer.count(0x55) == len(buffer)
    kind: type[Exception] = next(k for k in (ValueError, OverflowError, TypeError) if issubclass(one.type, k))  # fmt: skip
    for place in (0, 3, 700):
        with pytest.raises(kind) as many:
            codec.encode_many([GOOD] * place + [message, GOOD, changed(body=None)], **where)
        assert str(many.value) == f"message {place}: {one.value}"


@pytest.mark.parametrize("wrong", ["text", b"bytes", None, 3, object(), Message])
def test_what_is_not_a_message_is_named_with_its_place(wrong: Any) -> None:
    kind = type(wrong).__name__
    for function in (
        codec.encode_many,
        lambda given_messages, **_: codec.encode_batch(given_messages),
    ):
        with pytest.raises(TypeError, match=rf"message 3.*expected a Message, got {kind}$"):
            function([GOOD, GOOD, GOOD, wrong, GOOD], **WHERE)


@pytest.mark.parametrize("wrong", [None, 3, object(), Message("t", b"")])
def test_what_is_not_an_iterable_is_named(wrong: Any) -> None:
    with pytest.raises(TypeError, match="messages: expected "):
        codec.encode_many(wrong, **WHERE)
    with pytest.raises(TypeError, match="messages: expected "):
        codec.encode_batch(wrong)


# ---- decode_all -------------------------------------------------------------------------------------

logs = st.lists(samples(), max_size=6).map(lambda sampled: log_of(sampled, 0))


def same(found: list[codec.MessageView], data: bytes, starts: list[int]) -> None:
    assert found == [codec.decode(data, at) for at in starts]
    assert [view.as_dict() for view in found] == [codec.decode(data, at).as_dict() for at in starts]


def starts_of(data: bytes, pos: int = 0) -> list[int]:
    starts = []
    scanned = oracle.scan(data[pos:])
    for record in scanned.records:
        starts.append(pos)
        assert record.msg_size is not None
        pos += record.msg_size
    return starts


@given(logs, st.binary(max_size=30), st.booleans())
def test_decode_all_is_decode_at_each_place(log: bytes, before: bytes, copy: bool) -> None:
    data = before + log
    same(codec.decode_all(data, len(before), copy=copy), data, starts_of(data, len(before)))


ENDS: dict[str, bytes] = {
    "blank": oracle.blank(8),
    "blank of more than there is": oracle.blank(1 << 20),
    "blank and more": oracle.blank(500) + b"\xff" * 30,
    "zeros": bytes(8),
    "many zeros": bytes(5000),
    "zeros and more": bytes(8) + b"\xff" * 30,
}


@given(log=logs, copy=st.booleans())
def test_a_blank_and_zeros_end_it(log: bytes, copy: bool) -> None:
    starts = starts_of(log)
    for name, end in ENDS.items():
        note(name)
        data = log + end
        same(codec.decode_all(data, copy=copy), data, starts)


@given(st.data(), st.lists(samples(), max_size=3), samples(), st.booleans())
def test_damage_is_named_with_its_place(
    data: st.DataObject, sampled: list[Sample], hurt: Sample, check_crc: bool
) -> None:
    sound = log_of(sampled, 0)
    whole = sound + data.draw(damaged(hurt.expected))
    scanned = oracle.scan(whole, check_crc=check_crc)
    starts = starts_of(whole[: scanned.end_pos])
    if scanned.stop is None or isinstance(scanned.stop, oracle.Blank) or scanned.stop == oracle.Reason.ZERO:  # fmt: skip
        same(codec.decode_all(whole, check_crc=check_crc), whole, starts)
        return
    if not any(whole[scanned.end_pos :]):
        return  # a few zeros at the end: see test_a_few_zeros_at_the_end
    with pytest.raises(CorruptMessageError) as caught:
        codec.decode_all(whole, check_crc=check_crc)
    error = caught.value
    with pytest.raises(CorruptMessageError) as of_check:
        codec.check(whole, scanned.end_pos, check_crc=check_crc)
    names = ("path", "phy_offset", "field", "expected", "found")
    assert [getattr(error, name) for name in names] == [
        getattr(of_check.value, name) for name in names
    ]
    assert error.phy_offset == scanned.end_pos
    same(codec.decode_all(whole[: error.phy_offset], check_crc=check_crc), whole, starts)


@pytest.mark.parametrize("copy", [False, True])
def test_a_log_that_is_cut_at_each_byte(copy: bool) -> None:
    log = codec.encode_many([Message("Topic", b"body", 0, "A"), Message("é" * 70, b"", 1)], **WHERE)
    starts = [*starts_of(log), len(log)]
    for size in range(len(log) + 1):
        begin = max(at for at in starts if at <= size)
        if begin == size:
            assert len(codec.decode_all(log[:size], copy=copy)) == starts.index(begin)
            continue
        with pytest.raises(CorruptMessageError) as caught:
            codec.decode_all(log[:size], copy=copy)
        assert (caught.value.phy_offset, caught.value.field) == (begin, "TOTALSIZE")
        assert len(codec.decode_all(log[:begin], copy=copy)) == starts.index(begin)


@pytest.mark.parametrize("count", range(1, 8))
def test_a_few_zeros_at_the_end(count: int) -> None:
    """Fewer than the eight bytes of a header may be the first bytes of TOTALSIZE: the buffer may cut a record there."""
    log = codec.encode_many([GOOD], **WHERE)
    for before in (log, b""):
        with pytest.raises(CorruptMessageError, match=f"cut off after {count} bytes") as caught:
            codec.decode_all(before + bytes(count))
        assert caught.value.phy_offset == len(before)


def test_a_wrong_body_is_an_error_where_it_is_asked_for() -> None:
    log = bytearray(codec.encode_many([Message("t", b"body")] * 3, **WHERE))
    log[len(log) // 3 + 88] ^= 1
    assert [view.crc_ok() for view in codec.decode_all(log)] == [True, False, True]
    with pytest.raises(CorruptMessageError, match="BODYCRC") as caught:
        codec.decode_all(log, check_crc=True)
    assert caught.value.phy_offset == len(log) // 3


def test_a_copy_holds_nothing_and_a_view_holds_all() -> None:
    log = codec.encode_many([GOOD] * 3, **WHERE)
    buffer = bytearray(log)
    copies = codec.decode_all(buffer, copy=True)
    buffer[:] = b"\xff" * len(buffer)
    buffer.append(0)
    assert copies == codec.decode_all(log)
    buffer = bytearray(log)
    views = codec.decode_all(buffer)
    with pytest.raises(BufferError):
        buffer.append(0)
    last = views.pop()
    views.clear()
    with pytest.raises(BufferError):
        buffer.append(0)
    buffer[-3:-2] = b"X"  # in the value of KEYS
    assert last.raw == bytes(buffer[-len(log) // 3 :])
    del last
    buffer.append(0)


# ---- batches ----------------------------------------------------------------------------------------

inner_messages = st.builds(
    lambda flag, body, properties: Message("t", body, flag=flag, properties=properties),
    int32,
    bodies,
    property_maps,
)


def as_inner(message: Message) -> batches.Inner:
    return batches.Inner(
        message.flag, bytes(message.body), oracle.encode_properties(message.properties)
    )


@given(st.lists(inner_messages, max_size=6))
def test_a_batch_is_the_oracles_and_comes_back(given_messages: list[Message]) -> None:
    expected = batches.encode_batch(map(as_inner, given_messages))
    assert codec.encode_batch(given_messages) == expected
    assert codec.encode_batch(iter(given_messages)) == expected
    for check_size in (True, False):
        found = codec.decode_batch(expected, check_size=check_size)
        assert found == [
            (m.flag, bytes(m.body), {k: v for k, v in m.properties.items() if v})
            for m in given_messages
        ]
        assert all(type(one) is codec.BatchMessage for one in found)


inner = st.builds(batches.Inner, int32, st.binary(max_size=40), st.binary(max_size=40))


@st.composite
def odd_batches(draw: st.DrawFn) -> bytes:
    """A batch with a length changed here and there, cut, or with other bytes in it."""
    data = bytearray()
    for message in draw(st.lists(inner, max_size=4)):
        raw = bytearray(batches.encode_message(message))
        at = draw(st.sampled_from([None, None, 0, 16, 20 + len(message.body)]))
        if at is not None:
            width = 2 if at >= 20 else 4
            old = int.from_bytes(raw[at : at + width], "big", signed=True)
            new = draw(st.sampled_from([old + 1, old - 1, 0, -1, 22, 2**15 - 1, -(2**15), 2**31 - 1]) | int32)  # fmt: skip
            raw[at : at + width] = (new % (1 << 8 * width)).to_bytes(width, "big")
        data += raw
    data += draw(st.sampled_from([b"", b"", bytes(22), bytes(21)]) | st.binary(max_size=30))
    return bytes(data[: draw(st.integers(0, len(data))) if draw(st.booleans()) else len(data)])


@given(odd_batches(), st.booleans())
def test_odd_batches_are_read_or_refused_as_by_the_oracle(data: bytes, check_size: bool) -> None:
    expected = batches.read_batch(data, check_size=check_size)
    if isinstance(expected, batches.Refused):
        with pytest.raises(CorruptMessageError) as caught:
            codec.decode_batch(data, check_size=check_size)
        error = caught.value
        found = batches.Refused(error.field, error.phy_offset, error.found)
        assert (error.path, found) == ("<batch>", expected)
        return
    assert codec.decode_batch(data, check_size=check_size) == [
        (one.flag, one.body, oracle.decode_properties(one.properties)) for one in expected
    ]


def test_what_a_batch_refuses() -> None:
    with pytest.raises(ValueError, match=r"properties of 32,?768 bytes"):
        codec.encode_batch([GOOD, Message("t", b"", properties={"a": "b" * 32765})])
    assert codec.encode_batch([Message("t", b"", properties={"a": "b" * 32764})])
    with pytest.raises(ValueError, match="separator"):
        codec.encode_batch([Message("t", b"", properties={"a": "\x02"})])
    with pytest.raises(OverflowError):
        codec.encode_batch([Message("t", b"", flag=2**31)])
    with pytest.raises(TypeError):
        codec.encode_batch([changed(body=None)])
    assert codec.encode_batch([]) == b""
    assert codec.decode_batch(b"") == []


# ---- properties -------------------------------------------------------------------------------------

soup = st.lists(
    st.sampled_from([b"\x01", b"\x02", b"\x01", b"\x02", b"a", b"b", b"TAGS", "é".encode()])
    | st.sampled_from([b"\xff", b"\xed\xa0\x80", b"\xe2\x82", b"\xf0\x9f\x98", b"\xc3"])
).map(b"".join)
pairs = st.lists(st.tuples(property_names, property_values | st.sampled_from(["\ufffd"]))).map(
    lambda found: b"".join(f"{name}\x01{value}\x02".encode() for name, value in found)
)
strings = st.binary(max_size=100) | soup | pairs
asked = st.sampled_from(["", "a", "b", "TAGS", "KEYS", "é", "\ufffd", "\ud800", "\x01", "none"])


@given(strings, st.lists(asked | st.text(max_size=5), max_size=5), st.booleans())
def test_the_lazy_mapping_is_the_dict(data: bytes, names: list[str], of_view: bool) -> None:
    expected = codec.decode_properties(data)
    assert expected == oracle.decode_properties(data)
    found = (
        codec.properties(codec.decode(oracle.encode_record(oracle.Record(b"t", b"", data))))
        if of_view
        else codec.properties(data)
    )
    assert isinstance(found, Mapping)
    for name in [*names, *expected]:
        assert (name in found) is (name in expected)
        assert found.get(name) == expected.get(name)
        assert found.get(name, 3) == expected.get(name, 3)
        if name in expected:
            assert found[name] == expected[name]
        else:
            with pytest.raises(KeyError) as caught:
                found[name]
            assert caught.value.args == (name,)
    assert len(found) == len(expected)
    assert bool(found) is bool(expected)
    assert list(found) == list(expected)
    assert list(found.keys()) == list(expected)
    assert list(found.values()) == list(expected.values())
    assert list(found.items()) == list(expected.items())
    assert found.keys() == expected.keys()
    assert found.items() == expected.items()
    assert dict(found) == {**found} == expected
    assert found == expected and expected == found
    assert found == MappingProxyType(expected) and found == codec.properties(data)
    as_list: object = [*expected.items()]
    assert found not in ({**expected, "one more": "x"}, as_list)
    if expected:
        name, value = next(iter(expected.items()))
        assert found != {**expected, name: value + "x"}
        assert found != {n: v for n, v in expected.items() if n != name}


def test_what_a_lazy_mapping_is_asked_for_by_mistake() -> None:
    found = codec.properties(b"a\x01b\x02")
    odd: list[Any] = [3, None, b"a", ("a",), 1.5]
    for wrong in odd:
        assert wrong not in found
        assert found.get(wrong) is None
        with pytest.raises(KeyError):
            found[wrong]
    with pytest.raises(TypeError):
        found["a"] = "c"  # type: ignore[index]
    with pytest.raises(TypeError):
        hash(found)
    with pytest.raises(AttributeError):
        found.more = 1  # type: ignore[attr-defined]
    assert "'a': 'b'" in repr(found)
    assert pickle.loads(pickle.dumps(found)) == copy.deepcopy(found) == {"a": "b"}


class Text(str):
    """Equal to every text, and says so."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = str.__hash__


def test_a_name_of_a_subclass_is_its_text() -> None:
    assert codec.properties(b"a\x01b\x02").get(Text("a")) == "b"
    assert codec.properties(b"a\x01b\x02").get(Text("x")) is None


@given(st.dictionaries(property_names, property_values | st.none()))
def test_encode_properties_takes_any_mapping(given_properties: dict[str, str | None]) -> None:
    expected = oracle.encode_properties(given_properties)
    assert codec.encode_properties(given_properties) == expected
    assert codec.encode_properties(MappingProxyType(given_properties)) == expected
    lazy = codec.properties(expected)
    assert codec.encode_properties(lazy) == oracle.encode_properties(dict(lazy))


# ---- hosts, ids, hashes -----------------------------------------------------------------------------


@given(hosts, int64)
def test_hosts_and_ids_there_and_back(host: oracle.Host, phy_offset: int) -> None:
    text = host_text(host)
    packed = codec.pack_host(text)
    assert packed == host.packed
    assert codec.pack_host(codec.unpack_host(packed)) == packed
    assert codec.unpack_host(bytearray(packed)) == codec.unpack_host(packed)
    record = oracle.Record(b"t", b"", b"", store_host=host, phy_offset=phy_offset)
    view = codec.decode(oracle.encode_record(record))
    assert codec.unpack_host(packed) == view.store_host
    made = codec.msg_id(text, phy_offset)
    assert made == record.msg_id == view.msg_id
    found = codec.parse_msg_id(made)
    assert found == (view.store_host, phy_offset)
    assert (found.store_host, found.phy_offset) == (view.store_host, phy_offset)
    assert codec.msg_id(*found) == made
    assert codec.parse_msg_id(made.lower()) == found


def test_an_id_by_example() -> None:
    assert codec.msg_id("127.0.0.1:10911", 123) == "7F00000100002A9F000000000000007B"
    assert codec.parse_msg_id("7F00000100002A9F000000000000007B") == ("127.0.0.1:10911", 123)
    assert codec.unpack_host(bytes(15) + b"\x01" + bytes([0, 0, 0, 80])) == "[::1]:80"


@pytest.mark.parametrize(
    "text",
    ["", "7F", "7F00000100002A9F000000000000007", "7F00000100002A9F000000000000007G", "0" * 31, "0" * 33, "0" * 40, "0" * 55,
     "0" * 57, "0" * 64, "0x" + "0" * 30, "\u0661" * 32, "0" * 31 + "\0", "\ud800" * 32, "é" * 16, "-" + "0" * 31, "0 " * 16],
)  # fmt: skip
def test_what_is_not_an_id_is_named(text: str) -> None:
    with pytest.raises(ValueError) as caught:
        codec.parse_msg_id(text)
    assert repr(text)[1:-1] in str(caught.value)
    assert isinstance(caught.value, ValueError)


@given(
    st.text(st.sampled_from("0123456789abcdefABCDEF"), min_size=30, max_size=58)
    | st.sampled_from([32, 56]).flatmap(
        lambda size: st.text(
            st.sampled_from("0123456789abcdefABCDEF"), min_size=size, max_size=size
        )
    )
    | st.text(st.sampled_from("0123456789abcdefABCDEFgG \u0660é"), max_size=60)
)
def test_an_id_is_hex_digits_of_one_of_two_lengths(text: str) -> None:
    plain = text.strip()
    if len(plain) in (32, 56) and set(plain) <= set("0123456789abcdefABCDEF"):
        assert codec.msg_id(*codec.parse_msg_id(text)) == plain.upper()
    else:
        with pytest.raises(ValueError):
            codec.parse_msg_id(text)


@pytest.mark.parametrize("wrong", [None, 3, b"0" * 32, ["0"]])
def test_an_id_that_is_not_a_text_is_a_type_error(wrong: Any) -> None:
    with pytest.raises(TypeError, match=f"expected str, got {type(wrong).__name__}"):
        codec.parse_msg_id(wrong)
    with pytest.raises(TypeError, match=f"expected str, got {type(wrong).__name__}"):
        codec.msg_id(wrong, 0)
    with pytest.raises(TypeError, match=f"expected str, got {type(wrong).__name__}"):
        codec.pack_host(wrong)


@pytest.mark.parametrize(
    "text",
    ["", "x", "1.2.3.4", "1.2.3.4:", "::1:80", "[::1]", "1.2.3.4:4294967296", "1.2.3.4:8 ", "\ud800"],
)  # fmt: skip
def test_what_is_not_a_host_is_refused(text: str) -> None:
    for function in (codec.pack_host, lambda t: codec.msg_id(t, 0)):
        with pytest.raises(ValueError):
            function(text)


@pytest.mark.parametrize("phy_offset", [2**63, -(2**63) - 1, 2**80])
def test_an_offset_that_is_not_a_java_long_overflows(phy_offset: int) -> None:
    with pytest.raises(OverflowError):
        codec.msg_id("1.2.3.4:5", phy_offset)


@pytest.mark.parametrize("size", [0, 1, 4, 7, 9, 16, 19, 21, 1000])
def test_a_packed_host_has_8_or_20_bytes(size: int) -> None:
    with pytest.raises(ValueError, match=f"8 bytes .* got {size}$"):
        codec.unpack_host(bytes(size))


any_text = st.text(st.characters(exclude_categories=[]), max_size=40)


@given(any_text, any_text)
def test_the_hashes_are_the_oracles(topic: str, key: str) -> None:
    assert codec.java_hash(topic) == oracle.java_hash(topic)
    assert codec.index_key_hash(topic, key) == oracle.index_key_hash(topic, key)


def test_the_hash_without_a_positive_twin_is_0() -> None:
    assert codec.java_hash("t#90GE9L7") == -(2**31)
    assert codec.index_key_hash("t", "90GE9L7") == 0
    assert codec.index_key_hash("", "") == 35
    assert codec.index_key_hash("t", "\ud800") == oracle.index_key_hash("t", "?")
    assert codec.index_key_hash("t", "T#TagA") == oracle.index_key_hash("t", "T#TagA")


@pytest.mark.parametrize(("topic", "key"), [(None, "k"), ("t", 3), (b"t", "k")])
def test_a_hash_is_of_texts(topic: Any, key: Any) -> None:
    with pytest.raises(TypeError, match="expected str, got "):
        codec.index_key_hash(topic, key)


# ---- queue entries ----------------------------------------------------------------------------------


@given(st.lists(st.tuples(int64, int32, int64), max_size=10), st.binary(max_size=19), st.integers(0, 40))  # fmt: skip
def test_an_entry_at_each_place(
    entries: list[tuple[int, int, int]], rest: bytes, before: int
) -> None:
    data = bytes(before) + oracle.pack_cq(entries) + rest
    for number, entry in enumerate(entries):
        found = codec.unpack_cq(data, before + 20 * number)
        assert found == entry and type(found) is codec.CqEntry
        assert (found.phy_offset, found.msg_size, found.tags_code) == entry
        assert codec.pack_cq(*entry) == oracle.pack_cq([entry])
    with pytest.raises(ValueError, match=r"no whole entry|outside"):
        codec.unpack_cq(data, len(data) - 19)


# ---- what callers do with the answers ---------------------------------------------------------------


def test_an_entry_hashes_as_the_tuple_that_it_is() -> None:
    entry = codec.unpack_cq(codec.pack_cq(1, 2, 3))
    assert hash(entry) == hash((1, 2, 3))
    assert {codec.CqEntry(1, 2, 3): "found"}[entry] == {entry: "found"}[1, 2, 3] == "found"  # type: ignore[index]
    (message,) = codec.decode_batch(codec.encode_batch([Message("t", b"x")]))
    with pytest.raises(TypeError, match="unhashable"):
        hash(message)  # its properties are a dict


def test_a_lazy_mapping_matches_as_one() -> None:
    match codec.properties(b"a\x01b\x02"):
        case {"a": found}:
            assert found == "b"
        case _:
            pytest.fail("a mapping")


@pytest.mark.parametrize("crc", [False, True])
def test_what_is_too_long_is_told_with_what_has_room(crc: bool) -> None:
    most = 32_767 - (20 if crc else 0)
    name = "n" * 100
    fits = Message("t", b"", properties={name: "v" * (most - 102)})
    assert codec.encode(fits, queue_offset=0, append_prop_crc=crc, **WHERE)
    longer = Message("t", b"", properties={name: "v" * (most - 101)})
    with pytest.raises(ValueError, match=f"properties of {most + 1} bytes .* at most {most} bytes"):
        codec.encode(longer, queue_offset=0, append_prop_crc=crc, **WHERE)


def test_a_crc_property_that_gives_way_may_hold_anything() -> None:
    properties = {"__CRC32#": "v\x02", "a": "b\x01c"}
    message = Message("t", b"x", properties=properties)
    raw = codec.encode(message, queue_offset=0, append_prop_crc=True, **WHERE)
    assert codec.check(raw, check_prop_crc=True) == len(raw)
    with pytest.raises(ValueError, match="separator"):
        codec.encode(message, queue_offset=0, **WHERE)
