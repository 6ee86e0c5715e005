"""Bad input of the codec: an error that says what is wrong, no byte read or written outside of a buffer, no crash."""

from __future__ import annotations

import gc
import struct
import subprocess
import sys
import textwrap
import threading
from collections import UserDict
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from support.buffers import KINDS, STRIDED, WRITABLE, HookedBuffer
from support.oracle import batch as batches
from support.oracle import records as oracle
from support.places import python_path

from rmqcore import Message, codec
from rmqcore.errors import CorruptMessageError, StoreError

AT: dict[str, Any] = {"phy_offset": 0, "queue_offset": 0, "store_timestamp_ms": 1}
MANY: dict[str, Any] = {"phy_offset": 0, "store_timestamp_ms": 1}
GOOD = Message("Topic", b"body", 1, "A", ["k1", "k2"])
RAW = codec.encode(GOOD, **AT)
PROPERTIES = b"TAGS\x01A\x02KEYS\x01k1 k2\x02"
ENTRY = oracle.pack_cq([(1, 2, 3)])
BATCH = batches.encode_batch([batches.Inner(7, b"body", PROPERTIES)] * 2)
WRONG: list[Any] = ["text", 17, None, [1, 2], object(), GOOD]

READERS: dict[str, tuple[Callable[[Any], Any], bytes, object]] = {
    "decode": (lambda buf: codec.decode(buf).raw, RAW, RAW),
    "check": (codec.check, RAW, len(RAW)),
    "decode_all": (lambda buf: [v.raw for v in codec.decode_all(buf)], RAW * 2, [RAW] * 2),
    "decode_all, copied": (lambda buf: [v.raw for v in codec.decode_all(buf, copy=True)], RAW * 2, [RAW] * 2),
    "decode_batch": (codec.decode_batch, BATCH, [(7, b"body", codec.decode_properties(PROPERTIES))] * 2),
    "decode_properties": (codec.decode_properties, PROPERTIES, {"TAGS": "A", "KEYS": "k1 k2"}),
    "properties": (lambda buf: dict(codec.properties(buf)), PROPERTIES, {"TAGS": "A", "KEYS": "k1 k2"}),
    "unpack_cq": (codec.unpack_cq, ENTRY, (1, 2, 3)),
    "unpack_cq_entries": (lambda buf: codec.unpack_cq_entries(buf).tolist(), ENTRY * 2, [(1, 2, 3)] * 2),
    "unpack_host": (codec.unpack_host, bytes([1, 2, 3, 4, 0, 0, 0, 80]), "1.2.3.4:80"),
    "body_crc": (codec.body_crc, b"123456789", 0xCBF43926 & 0x7FFFFFFF),
}  # fmt: skip


# ---- buffers ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", READERS)
def test_every_contiguous_buffer_is_read(name: str, kind: str) -> None:
    function, data, expected = READERS[name]
    assert function(KINDS[kind](data)) == expected


@pytest.mark.parametrize("kind", STRIDED)
@pytest.mark.parametrize("name", READERS)
def test_a_buffer_with_gaps_is_refused_in_words(name: str, kind: str) -> None:
    with pytest.raises((BufferError, ValueError), match="contiguous"):
        READERS[name][0](STRIDED[kind])


@pytest.mark.parametrize("wrong", WRONG, ids=lambda wrong: type(wrong).__name__)
@pytest.mark.parametrize("name", READERS)
def test_what_is_not_a_buffer_is_a_type_error(name: str, wrong: Any) -> None:
    with pytest.raises(TypeError):
        READERS[name][0](wrong)


@pytest.mark.parametrize("name", READERS)
def test_a_memoryview_that_was_released_is_refused(name: str) -> None:
    function, data, _ = READERS[name]
    view = memoryview(data)
    view.release()
    with pytest.raises(ValueError, match="released"):
        function(view)


@pytest.mark.parametrize("name", READERS)
def test_nothing_is_held_when_a_call_is_over(name: str) -> None:
    """Not even after an error."""
    function, data, _ = READERS[name]
    for content in (data, data[:-3], b"\xff" * 50, b""):
        buffer = bytearray(content)
        try:
            function(buffer)
        except (StoreError, ValueError):
            gc.collect()  # the error's traceback held the frame
        buffer.append(0)


@pytest.mark.parametrize("kind", WRITABLE)
def test_a_record_is_written_into_every_writable_buffer(kind: str) -> None:
    buffer = WRITABLE[kind](b"\x55" * (len(RAW) + 7))
    assert codec.encode_into(buffer, 3, GOOD, **AT) == len(RAW)
    assert bytes(memoryview(buffer).cast("B")) == b"\x55" * 3 + RAW + b"\x55" * 4


@pytest.mark.parametrize("kind", STRIDED)
def test_a_record_is_not_written_over_gaps(kind: str) -> None:
    with pytest.raises((BufferError, ValueError), match="contiguous"):
        codec.encode_into(STRIDED[kind], 0, GOOD, **AT)


@pytest.mark.parametrize("kind", ["bytes", "memoryview", "memoryview of signed bytes", "numpy"])
def test_a_buffer_that_cannot_be_written_is_a_buffer_error(kind: str) -> None:
    buffer = KINDS[kind](bytes(500))
    with pytest.raises(BufferError):
        codec.encode_into(buffer, 0, GOOD, **AT)
    assert bytes(buffer) == bytes(500)


@pytest.mark.parametrize("wrong", WRONG, ids=lambda wrong: type(wrong).__name__)
def test_what_cannot_be_written_to_is_named(wrong: Any) -> None:
    with pytest.raises(TypeError, match=f"buffer: expected .*, got {type(wrong).__name__}"):
        codec.encode_into(wrong, 0, GOOD, **AT)


# ---- positions --------------------------------------------------------------------------------------


class Index:
    def __init__(self, value: object) -> None:
        self.value = value

    def __index__(self) -> int:
        if isinstance(self.value, BaseException):
            raise self.value
        if callable(self.value):
            return int(self.value())
        return self.value  # type: ignore[return-value]


POSITIONED: dict[str, Callable[[Any, Any], Any]] = {
    "decode": codec.decode,
    "check": codec.check,
    "decode_all": codec.decode_all,
    "decode_all, copied": lambda buf, pos: codec.decode_all(buf, pos, copy=True),
    "unpack_cq": codec.unpack_cq,
    "encode_into": lambda buf, pos: codec.encode_into(buf, pos, GOOD, **AT),
}


@pytest.mark.parametrize("name", POSITIONED)
@pytest.mark.parametrize("wrong", ["1", None, 1.0, 1j, b"1", [1], object()], ids=lambda wrong: type(wrong).__name__)  # fmt: skip
def test_a_position_of_another_type_is_named(name: str, wrong: Any) -> None:
    with pytest.raises(TypeError, match=f"^pos: expected int, got {type(wrong).__name__}"):
        POSITIONED[name](bytearray(RAW * 3), wrong)


@pytest.mark.parametrize("name", POSITIONED)
@pytest.mark.parametrize(
    "pos", [-1, -3 * len(RAW), -(2**31), -(2**63), -(2**63) - 1, -(2**80), 3 * len(RAW) + 1, 2**31, 2**32, 2**63 - 1, 2**63,
            2**64, 2**80],
)  # fmt: skip
def test_a_position_outside_the_buffer_is_a_value_error(name: str, pos: int) -> None:
    buffer = bytearray(RAW * 3)
    with pytest.raises(ValueError, match=str(pos)) as caught:
        POSITIONED[name](buffer, pos)
    assert str(len(buffer)) in str(caught.value)
    with pytest.raises(ValueError, match=str(len(buffer))):
        POSITIONED[name](buffer, Index(pos))
    assert buffer == RAW * 3


@pytest.mark.parametrize("pos", [-1, 1, 2**63, -(2**80)])
def test_every_position_is_outside_of_nothing(pos: int) -> None:
    for name, function in POSITIONED.items():
        with pytest.raises(ValueError):
            function(bytearray(), pos)
        assert name


def test_the_end_is_a_position() -> None:
    assert (
        codec.decode_all(RAW, len(RAW)) == codec.decode_all(b"") == codec.decode_all(b"", 0) == []
    )
    for function in (codec.decode, codec.check):
        with pytest.raises(CorruptMessageError, match="cut off after 0 bytes"):
            function(RAW, len(RAW))
    with pytest.raises(ValueError, match="no whole entry at pos 20"):
        codec.unpack_cq(ENTRY, 20)
    with pytest.raises(ValueError, match=f"record of {len(RAW)} bytes has no room at pos 10"):
        codec.encode_into(bytearray(10), 10, GOOD, **AT)


def test_what_is_an_int_is_a_position() -> None:
    data = b"\0" + RAW
    ones: list[Any] = [True, Index(1), type("Int", (int,), {})(1)]
    for one in ones:
        assert codec.decode(data, one).raw == RAW
        assert [view.raw for view in codec.decode_all(data, one)] == [RAW]
        assert codec.unpack_cq(b"\0" + ENTRY, one) == (1, 2, 3)
        buffer = bytearray(len(data))
        assert codec.encode_into(buffer, one, GOOD, **AT) == len(RAW)
        assert buffer == data


@pytest.mark.parametrize("name", POSITIONED)
def test_an_index_that_fails_fails_the_call(name: str) -> None:
    class Odd(Exception):
        pass

    for value, error in (
        (Odd("here"), Odd),
        ("text", TypeError),
        (KeyboardInterrupt(), KeyboardInterrupt),
    ):
        with pytest.raises(error):
            POSITIONED[name](bytearray(RAW), Index(value))


@pytest.mark.parametrize("name", POSITIONED)
def test_an_index_that_takes_the_buffer_away(name: str) -> None:
    """Whichever is asked first: the buffer is held while the index runs, or has the size that it left."""
    for left in (0, 1, 19, len(RAW) - 1):
        for pos in (0, len(RAW), 2 * len(RAW)):
            buffer = bytearray(RAW * 3)

            def take(buffer: bytearray = buffer, left: int = left, pos: int = pos) -> int:
                del buffer[left:]
                return pos

            with pytest.raises((BufferError, ValueError, StoreError)):
                POSITIONED[name](buffer, Index(take))
            assert len(buffer) in (left, 3 * len(RAW))


# ---- the other arguments ----------------------------------------------------------------------------

NUMBERS = ["phy_offset", "queue_offset", "store_timestamp_ms"]
ENCODERS: dict[str, Callable[..., Any]] = {
    "encode": codec.encode,
    "encode_into": lambda message, **where: codec.encode_into(
        bytearray(40_000), 0, message, **where
    ),
    "encode_many": lambda message, **where: codec.encode_many([message], **where),
}


@pytest.mark.parametrize("encoder", ENCODERS)
@pytest.mark.parametrize("name", NUMBERS)
@pytest.mark.parametrize("wrong", ["1", None, 1.0, [1]], ids=lambda wrong: type(wrong).__name__)
def test_a_number_of_another_type_is_named(encoder: str, name: str, wrong: Any) -> None:
    with pytest.raises(TypeError, match=f"^{name}: expected int, got {type(wrong).__name__}"):
        ENCODERS[encoder](GOOD, **{**AT, name: wrong})


@pytest.mark.parametrize("encoder", ENCODERS)
@pytest.mark.parametrize("name", NUMBERS)
@pytest.mark.parametrize("value", [2**63, -(2**63) - 1, 2**80])
def test_a_number_that_is_not_a_java_long_overflows(encoder: str, name: str, value: int) -> None:
    with pytest.raises(OverflowError):
        ENCODERS[encoder](GOOD, **{**AT, name: value})


@pytest.mark.parametrize("encoder", ENCODERS)
@pytest.mark.parametrize("name", NUMBERS)
def test_the_edges_of_a_long_have_room(encoder: str, name: str) -> None:
    for value in (2**63 - 1, -(2**63)):
        if encoder == "encode_many" and name != "store_timestamp_ms" and value < 0:
            continue  # where records lie one after the other, offsets count from 0
        ENCODERS[encoder](GOOD, **{**AT, name: value})


@pytest.mark.parametrize("encoder", ENCODERS)
@pytest.mark.parametrize("name", NUMBERS)
def test_a_number_that_changes_the_message_while_it_is_asked_for(encoder: str, name: str) -> None:
    message = Message("".join(["Topic", "x" * 60]), bytearray(b"body"), properties={"a": "b" * 50})

    def change() -> int:
        message.topic = "".join(["y"] * 70)
        message.properties = {}
        message.body = None  # type: ignore[assignment]
        gc.collect()
        return 0

    with pytest.raises(
        (TypeError, ValueError)
    ):  # no body any more; all of it is read after the numbers
        ENCODERS[encoder](message, **{**AT, name: Index(change)})


@pytest.mark.parametrize("encoder", ["encode", "encode_into"])
@pytest.mark.parametrize("wrong", ["text", b"bytes", None, 3, object(), Message, [GOOD]])
def test_what_is_not_a_message_is_named(encoder: str, wrong: Any) -> None:
    with pytest.raises(
        TypeError, match=f"^message: expected a Message, got {type(wrong).__name__}"
    ):
        ENCODERS[encoder](wrong, **AT)


CALLS: list[tuple[Any, tuple[Any, ...], dict[str, Any]]] = [
    (codec.encode, (), {}),
    (codec.encode, (GOOD,), {}),
    (codec.encode, (GOOD, 1, 2, 3), {}),
    (codec.encode, (GOOD,), {**AT, "more": 1}),
    (codec.encode, (GOOD,), {**AT, "message": GOOD}),
    (codec.encode_into, (bytearray(500), 0), AT),
    (codec.encode_into, (bytearray(500), GOOD), AT),
    (codec.encode_into, (bytearray(500), 0, GOOD, 1, 2, 3), {}),
    (codec.encode_many, ([GOOD],), {}),
    (codec.encode_many, ([GOOD], 1, 2), {}),
    (codec.encode_many, ([GOOD],), {**MANY, "more": 1}),
    (codec.decode, (), {}),
    (codec.decode, (RAW, 0, None, 0), {}),
    (codec.decode, (RAW,), {"more": 1}),
    (codec.decode, (RAW, 0), {"pos": 0}),
    (codec.check, (RAW, 0, True), {}),
    (codec.decode_all, (), {}),
    (codec.decode_all, (RAW, 0, True), {}),
    (codec.decode_all, (RAW,), {"more": 1}),
    (codec.decode_all, (RAW, 0), {"pos": 0}),
    (codec.unpack_cq, (), {}),
    (codec.unpack_cq, (ENTRY, 0, 0), {}),
    (codec.unpack_cq, (ENTRY,), {"at": 0}),
    (codec.pack_cq, (1, 2), {}),
    (codec.pack_cq, (1, 2, 3, 4), {}),
    (codec.pack_cq, (1, 2), {"msg_size": 2}),
    (codec.encode_batch, (), {}),
    (codec.decode_batch, (BATCH, False), {}),
    (codec.properties, (), {}),
    (codec.encode_properties, (), {}),
    (codec.decode_properties, (PROPERTIES, 0), {}),
    (codec.msg_id, ("1.2.3.4:5",), {}),
    (codec.parse_msg_id, (), {}),
    (codec.index_key_hash, ("t",), {}),
    (codec.java_hash, (), {}),
]


@pytest.mark.parametrize("number", range(len(CALLS)))
def test_arguments_that_are_missing_twice_or_unknown(number: int) -> None:
    function, positional, named = CALLS[number]
    with pytest.raises(TypeError):
        function(*positional, **named)


def test_arguments_by_name() -> None:
    assert codec.decode(buf=RAW, pos=0).raw == codec.decode(RAW, pos=0).raw == RAW
    assert codec.check(buf=RAW, pos=0) == len(RAW)
    assert codec.decode_all(buf=RAW, pos=0)[0].raw == RAW
    assert codec.unpack_cq(buf=ENTRY, pos=0) == codec.unpack_cq(ENTRY, pos=0) == (1, 2, 3)
    assert codec.pack_cq(phy_offset=1, msg_size=2, tags_code=3) == ENTRY
    assert codec.encode(message=GOOD, **AT) == RAW
    buffer = bytearray(len(RAW))
    assert codec.encode_into(buffer=buffer, pos=0, message=GOOD, **AT) == len(RAW)
    assert buffer == RAW == codec.encode_many(messages=[GOOD], **MANY)
    assert codec.decode_batch(body=codec.encode_batch(messages=[GOOD]))[0].body == b"body"
    assert codec.decode_properties(buf=PROPERTIES)["TAGS"] == "A"
    assert codec.java_hash(text="a") == 97
    assert codec.index_key_hash(topic="t", key="k") == codec.java_hash("t#k")
    text = codec.msg_id(store_host="1.2.3.4:5", phy_offset=6)
    assert codec.parse_msg_id(msg_id=text) == ("1.2.3.4:5", 6)
    assert codec.body_crc(buf=b"") == 0


@pytest.mark.parametrize(
    "wrong",
    [3, None, [("a", "b")], "text", b"a\x01b\x02", object()],
    ids=lambda wrong: type(wrong).__name__,
)
def test_properties_that_are_not_a_mapping_are_named(wrong: Any) -> None:
    with pytest.raises(TypeError, match=f"properties: expected .*, got {type(wrong).__name__}"):
        codec.encode_properties(wrong)


def test_names_and_values_that_are_not_texts() -> None:
    odd: list[Any] = [{1: "a"}, {"a": 1}, {b"a": "b"}, {"a": b"b"}, {None: "a"}, {"a": []}]
    for properties in odd:
        for given in (properties, UserDict(properties)):
            with pytest.raises(TypeError, match="expected str"):
                codec.encode_properties(given)
    assert codec.encode_properties({"a": None, "b": "c"}) == b"b\x01c\x02"


def test_a_mapping_that_fails_or_changes_while_it_is_read() -> None:
    class Failing(UserDict[str, str]):
        def items(self) -> Any:
            raise LookupError("here")

    class Endless(UserDict[str, str]):
        def items(self) -> Any:
            for number in range(5):
                self.data[f"more{number}"] = "x"
                yield "a", "b"

    class Triples(UserDict[str, str]):
        def items(self) -> Any:
            return [("a", "b", "c")]

    with pytest.raises(LookupError):
        codec.encode_properties(Failing())
    assert codec.encode_properties(Endless()) == b"a\x01b\x02"
    with pytest.raises((TypeError, ValueError)):
        codec.encode_properties(Triples())


# ---- lengths ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("length", "v2"),
    [(0, False), (1, False), (127, False), (128, True), (255, True), (256, True), (32767, True)],
)
def test_topics_that_have_room(length: int, v2: bool) -> None:
    for topic in {"t" * length, "é" * (length // 2) + "x" * (length % 2)}:
        message = Message(topic, b"b")
        raw = codec.encode(message, **AT)
        view = codec.decode(raw)
        assert (view.topic, view.magic == oracle.V2) == (topic, v2)
        buffer = bytearray(len(raw))
        assert codec.encode_into(buffer, 0, message, **AT) == len(raw)
        assert codec.encode_many([message], **MANY) == raw == buffer
        assert len(raw) == 91 + 1 + length + v2


@pytest.mark.parametrize("length", [32768, 65535, 65536, 1 << 20])
def test_topics_without_room(length: int) -> None:
    for encoder in ENCODERS.values():
        with pytest.raises(ValueError, match=f"topic of {length:,} bytes|topic of {length} bytes"):
            encoder(Message("t" * length, b""), **AT)


@pytest.mark.parametrize("crc", [False, True])
@pytest.mark.parametrize("encoder", ENCODERS)
def test_properties_have_room_to_the_last_byte(encoder: str, crc: bool) -> None:
    most = 32767 - 20 * crc
    encode = ENCODERS[encoder]
    makers: list[Callable[[int], Message]] = [
        lambda size: Message("t", b"", properties={"a": "b" * (size - 3)}),
        lambda size: Message("t", b"", properties={"a" * (size - 3): "b"}),
        lambda size: Message("t", b"", properties={"é": "é" * 1000, "a": "b" * (size - 3 - 2004)}),
        lambda size: Message("t", b"", tags="x" * (size - 6)),
        lambda size: Message("t", b"", keys="x" * (size - 6)),
        lambda size: Message("t", b"", tags="y" * 100, keys="x" * (size - 112)),
    ]
    for make in makers:
        encode(make(most), **AT, append_prop_crc=crc)
        for size in (most + 1, 32768, 65535, 65536, 70_000):
            with pytest.raises(
                ValueError, match=f"properties of {size:,} bytes|properties of {size} bytes"
            ):
                encode(make(size), **AT, append_prop_crc=crc)


@pytest.mark.parametrize("length", [32767, 32768, 65535, 65536, 1 << 20])
def test_a_properties_string_alone_has_any_length(length: int) -> None:
    data = codec.encode_properties({"a": "v" * length, "b": "é" * length})
    assert data == oracle.encode_properties({"a": "v" * length, "b": "é" * length})
    assert (
        codec.decode_properties(data)
        == codec.properties(data)
        == {"a": "v" * length, "b": "é" * length}
    )


def test_many_properties() -> None:
    given = {f"name{number}": f"{number}" for number in range(50_000)}
    data = codec.encode_properties(given)
    assert codec.decode_properties(data) == given
    lazy = codec.properties(data)
    assert len(lazy) == 50_000 and lazy["name49999"] == "49999" and lazy == given


SURROGATES = [
    "\ud800",
    "a\udfff",
    "\udc00\ud800",
    "x" * 100 + "\ud83d",
    "\ud83d\ude00",
]  # also a pair that is none


@pytest.mark.parametrize("text", SURROGATES, ids=ascii)
def test_a_surrogate_has_no_bytes(text: str) -> None:
    for encoder in ENCODERS.values():
        for message in (
            Message(text, b""),
            Message("t", b"", tags=text),
            Message("t", b"", keys=text),
            Message("t", b"", properties={text: "a"}),
            Message("t", b"", properties={"a": text}),
        ):
            with pytest.raises(ValueError, match="surrogates not allowed"):
                encoder(message, **AT)
    for properties in ({text: "a"}, {"a": text}):
        with pytest.raises(ValueError, match="surrogates not allowed"):
            codec.encode_properties(properties)
    assert text not in codec.properties(PROPERTIES)
    assert codec.properties(b"a\x01\xed\xa0\x80\x02") == {"a": "\ufffd"}


@pytest.mark.parametrize("text", ["\x01", "\x02", "a\x01", "\x02a", "a" * 63 + "\x02", "é" * 40 + "\x01"], ids=ascii)  # fmt: skip
def test_separators(text: str) -> None:
    for encoder in ENCODERS.values():
        with pytest.raises(ValueError, match="separator"):
            encoder(Message("t", b"", properties={text: "a"}), **AT)
    with pytest.raises(ValueError, match="separator"):
        codec.encode_properties({"b": "c", text: "a"})
    if "\x02" in text:
        with pytest.raises(ValueError, match="separator"):
            codec.encode_properties({"b": "c", "a": text})
    else:
        assert codec.decode_properties(codec.encode_properties({"a": text})) == {"a": text}


class Denying(str):
    """A text that denies what is in it."""

    __slots__ = ()

    def __contains__(self, text: object) -> bool:
        return False

    def encode(self, *_: object) -> bytes:
        return b"other"

    def __len__(self) -> int:
        return 0

    def __str__(self) -> str:
        return "other"

    def __iter__(self) -> Iterator[str]:
        return iter("other")


def test_a_subclass_of_str_is_its_text() -> None:
    text = Denying("a\x02b")
    encoders: list[Callable[[Message], bytes]] = [
        lambda message: codec.encode(message, **AT),
        lambda message: codec.encode_batch([message]),
    ]
    odd: list[dict[str, str | None]] = [{text: "x"}, {"x": text}]
    for encode in encoders:
        for properties in odd:
            with pytest.raises(ValueError, match="separator"):
                encode(Message("t", b"", properties=properties))
    with pytest.raises(ValueError, match="separator"):
        codec.encode_properties({"x": text})
    assert codec.encode_properties({Denying("ab"): Denying("cd")}) == b"ab\x01cd\x02"
    assert codec.java_hash(Denying("a")) == 97
    assert codec.index_key_hash(Denying("t"), Denying("k")) == codec.java_hash("t#k")
    assert codec.pack_host(Denying("1.2.3.4:5")) == codec.pack_host("1.2.3.4:5")


# ---- room in a buffer -------------------------------------------------------------------------------


def test_a_record_without_room_writes_nothing() -> None:
    size = len(RAW)
    for length in range(size + 3):
        for pos in {0, 1, 7, max(length - size, 0), max(length - size + 1, 0), length} & set(range(length + 1)):  # fmt: skip
            buffer = bytearray(b"\x55" * length)
            if length - pos >= size:
                assert codec.encode_into(buffer, pos, GOOD, **AT) == size
                assert buffer == b"\x55" * pos + RAW + b"\x55" * (length - pos - size)
                continue
            words = f"record of {size} bytes has no room at pos {pos} of a buffer of {length} bytes"
            with pytest.raises(ValueError, match=words):
                codec.encode_into(buffer, pos, GOOD, **AT)
            assert buffer == b"\x55" * length


@pytest.mark.parametrize("crc", [False, True])
@pytest.mark.parametrize("at", [0, 1, 40, 84, 88, 90, 96, 100, 150, 199])
def test_a_body_that_lies_where_it_is_written_to(at: int, crc: bool) -> None:
    """The record has the body as it was before the call."""
    buffer = bytearray(range(250)) + bytearray(150)
    body = bytes(buffer[at : at + 100])
    message = Message("Topic", memoryview(buffer)[at : at + 100], 0, "A")
    expected = codec.encode(Message("Topic", body, 0, "A"), **AT, append_prop_crc=crc)
    size = codec.encode_into(buffer, 2, message, **AT, append_prop_crc=crc)
    assert bytes(buffer[2 : 2 + size]) == expected
    view = codec.decode(buffer, 2)
    assert (view.body, view.crc_ok()) == (body, True)


# ---- objects that run code --------------------------------------------------------------------------


def fresh(text: str) -> str:
    """A str that nothing else holds."""
    return "".join(list(text))


@pytest.mark.parametrize("encoder", [*ENCODERS, "encode_batch"])
def test_a_body_that_changes_its_message(encoder: str) -> None:
    """The record is of the message as it was; whatever it was, topic and lengths of it are of one moment."""
    topic = "Topic" + "x" * 60
    garbage: list[str] = []

    def change() -> None:
        message.topic = fresh("Other" + "y" * 90)
        message.properties = {}
        message.body = b"another"
        gc.collect()
        garbage.extend("z" * 67 for _ in range(1000))  # where the old text was

    message = Message(fresh(topic), HookedBuffer(b"body", change), 0, fresh("Tag" + "t" * 50))
    if encoder == "encode_batch":
        (found,) = codec.decode_batch(codec.encode_batch([message]))
        assert (found.body, found.properties) == (b"body", {"TAGS": "Tag" + "t" * 50})
        return
    raw = ENCODERS[encoder](message, **AT)
    if encoder != "encode_into":
        view = codec.decode(raw)
        assert (view.topic, view.body, view.tags, view.crc_ok()) == (
            topic,
            b"body",
            "Tag" + "t" * 50,
            True,
        )


def test_a_body_that_takes_the_target_away() -> None:
    target = bytearray(500)

    def clear() -> None:
        try:
            target.clear()
        except BufferError:
            held.append(True)

    held: list[bool] = []
    message = Message("t", HookedBuffer(b"body", clear))
    try:
        size = codec.encode_into(target, 0, message, **AT)
    except ValueError:
        assert len(target) == 0
    else:
        assert held and codec.decode(target).body == b"body" and size == 96


CHANGES: dict[str, Callable[[list[Any]], object]] = {
    "cleared": list.clear,
    "moved": lambda messages: messages.insert(0, Message("t", b"new")),
    "longer": lambda messages: messages.append("text"),
    "replaced": lambda messages: messages.__setitem__(slice(None), [None] * 3000),
    "much longer": lambda messages: messages.extend(
        Message(fresh("new"), bytearray(100)) for _ in range(2000)
    ),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("function", ["encode_many", "encode_batch"])
def test_a_body_that_changes_the_list(function: str, change: str) -> None:
    messages: list[Any] = [
        Message(fresh(f"t{number}"), bytearray(b"body"), number % 3) for number in range(1200)
    ]
    left = [True]

    def once() -> None:
        if left:
            left.clear()
            CHANGES[change](messages)

    messages[700] = Message("t", HookedBuffer(b"hook", once))
    try:
        many = function == "encode_many"
        data = codec.encode_many(messages, **MANY) if many else codec.encode_batch(messages)
    except TypeError as error:
        assert "expected a Message" in str(error)  # noqa: PT017 # either is right
    else:
        assert b"hook" in data
    gc.collect()


def test_an_iterator_that_fails() -> None:
    class Odd(Exception):
        pass

    def some() -> Iterator[Message]:
        yield from [Message("t", bytearray(b"x"))] * 1000
        raise Odd

    with pytest.raises(Odd):
        codec.encode_many(some(), **MANY)
    with pytest.raises(Odd):
        codec.encode_batch(some())


def test_an_iterator_that_encodes_itself() -> None:
    def some(depth: int) -> Iterator[Message]:
        yield GOOD
        if depth:
            yield Message("t", codec.encode_many(some(depth - 1), **MANY))
        yield GOOD

    views = codec.decode_all(codec.encode_many(some(3), **MANY))
    assert [view.topic for view in views] == ["Topic", "t", "Topic"]
    assert [view.topic for view in codec.decode_all(views[1].body)] == ["Topic", "t", "Topic"]


def test_a_failure_releases_the_bodies_before_it() -> None:
    body = bytearray(b"body")
    wrong: Any = "text"
    for call in (
        lambda: codec.encode_many([Message("t", body), Message("t", body), wrong], **MANY),
        lambda: codec.encode_many([Message("t", body), Message("t" * 40_000, b"")], **MANY),
        lambda: codec.encode_batch([Message("t", body), wrong]),
        lambda: codec.encode(Message("t" * 40_000, body), **AT),
        lambda: codec.encode_into(bytearray(3), 0, Message("t", body), **AT),
    ):
        with pytest.raises((TypeError, ValueError)):
            call()
        gc.collect()
        body.append(0)


def test_messages_that_change_in_another_thread() -> None:
    stop = threading.Event()
    properties = {f"n{number}": "v" for number in range(50)}
    message = Message("Topic", b"body", properties=properties)
    messages = [message] * 200

    def change() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            message.topic = fresh(f"Topic{number}")
            message.properties = {f"n{at}": "v" * (number % 40) for at in range(number % 60)}
            message.properties["more"] = "x"
            message.body = bytearray(number % 500)

    thread = threading.Thread(target=change)
    thread.start()
    try:
        for _ in range(150):
            for view in codec.decode_all(codec.encode_many(messages, **MANY), check_crc=True):
                assert view.topic.startswith("Topic")
            codec.decode_batch(codec.encode_batch(messages))
            assert codec.check(codec.encode(message, **AT))
    finally:
        stop.set()
        thread.join()


# ---- bodies of batches ------------------------------------------------------------------------------


def refusal(data: bytes, *, check_size: bool = True) -> CorruptMessageError:
    with pytest.raises(CorruptMessageError) as caught:
        codec.decode_batch(data, check_size=check_size)
    error = caught.value
    assert error.path == "<batch>"
    assert error.field in ("TOTALSIZE", "BODYLENGTH", "PROPERTIESLENGTH")
    assert 0 <= error.phy_offset < len(data)
    text = str(error)
    assert str(error.field) in text and "expected" in text and str(error.phy_offset) in text
    return error


def test_a_batch_that_is_cut_at_each_byte() -> None:
    one = len(BATCH) // 2
    for size in range(len(BATCH) + 1):
        for check_size in (True, False):
            if size % one == 0:
                assert len(codec.decode_batch(BATCH[:size], check_size=check_size)) == size // one
            else:
                error = refusal(BATCH[:size], check_size=check_size)
                assert size // one * one <= error.phy_offset < size


LIES = [-1, -(2**31), 2**31 - 1, 0, 1, 21, 22, 2**16]


@pytest.mark.parametrize("number", [0, 1])
@pytest.mark.parametrize(
    ("field", "at", "form"), [("TOTALSIZE", 0, ">i"), ("BODYLENGTH", 16, ">i"), ("PROPERTIESLENGTH", 24, ">h")]
)  # fmt: skip
def test_a_length_that_lies_is_named(field: str, at: int, form: str, number: int) -> None:
    start = number * len(BATCH) // 2
    (truth,) = struct.unpack_from(form, BATCH, start + at)
    for lie in {*LIES, truth - 1, truth + 1} - {truth}:
        if form == ">h" and not -(2**15) <= lie < 2**15:
            continue
        data = bytearray(BATCH)
        struct.pack_into(form, data, start + at, lie)
        expected = batches.read_batch(bytes(data))
        assert isinstance(expected, batches.Refused)
        error = refusal(bytes(data))
        assert batches.Refused(error.field, error.phy_offset, error.found) == expected
        if expected.field == field:
            assert error.found == lie
        if field == "TOTALSIZE":
            assert codec.decode_batch(data, check_size=False) == codec.decode_batch(BATCH)


def test_a_batch_in_a_batch() -> None:
    """A body that looks like a batch is a body; a message whose body has another one's lengths is read by its own."""
    nested = BATCH
    for _ in range(5):
        nested = batches.encode_batch(
            [batches.Inner(0, nested, b""), batches.Inner(1, b"", PROPERTIES)]
        )
    inner = nested
    for _ in range(5):
        first, second = codec.decode_batch(inner)
        assert second == (1, b"", {"TAGS": "A", "KEYS": "k1 k2"})
        inner = first.body
    assert inner == BATCH
    last = len(batches.encode_message(batches.Inner(1, b"", PROPERTIES)))
    for size in {*range(1, len(nested))} - {len(nested) - last}:
        refusal(nested[:size])


def test_bytes_that_are_not_a_batch() -> None:
    for data in (b"\0", bytes(21), bytes(22), b"\xff" * 100, RAW, oracle.blank(100)):
        refusal(data)
    for data in (b"\0", bytes(21), b"\xff" * 100):
        refusal(data, check_size=False)
    assert codec.decode_batch(bytes(44), check_size=False) == [(0, b"", {})] * 2


# ---- views and mappings over bytes that change ------------------------------------------------------


def test_a_mapping_over_bytes_that_change() -> None:
    buffer = bytearray(PROPERTIES * 20)
    lazy = codec.properties(buffer)
    with pytest.raises(BufferError):
        buffer.append(0)
    for noise in (b"\x01", b"\x02", b"\xff", b"\0", b"a"):
        for at in range(len(buffer)):
            buffer[at : at + 1] = noise
            assert lazy == codec.decode_properties(bytes(buffer))
            assert lazy.get("TAGS") == codec.decode_properties(bytes(buffer)).get("TAGS")
            assert len(lazy) == len(list(lazy)) == len([*lazy.items()])
    del lazy
    buffer.append(0)


def test_a_mapping_outlives_what_it_was_made_from() -> None:
    window = memoryview(bytearray(b"xx" + PROPERTIES))[2:]
    lazy = codec.properties(window)
    window.release()
    assert lazy["KEYS"] == "k1 k2"
    lazy = codec.properties(codec.decode(bytearray(RAW)))
    gc.collect()
    assert lazy == {"TAGS": "A", "KEYS": "k1 k2"}


def test_views_outlive_the_memoryview() -> None:
    window = memoryview(bytearray(RAW * 3))
    views = codec.decode_all(window)
    window.release()
    gc.collect()
    assert [view.raw for view in views] == [RAW] * 3


# ---- all of it in a child ---------------------------------------------------------------------------

NOISE = """
import random, struct
from support.buffers import HookedBuffer
from rmqcore import Message, codec
from rmqcore.errors import StoreError

random.seed(7)
at = dict(phy_offset=0, store_timestamp_ms=1)
messages = [
    Message("t" * n, b"b" * (7 * n), n % 3, "A" * (n % 5), [], {"n%d" % k: "v" * n for k in range(n % 4)}) for n in range(1, 40)
]
log = codec.encode_many(messages, **at)
batch = codec.encode_batch(messages)
properties = codec.encode_properties({"n%d" % k: "v" * k for k in range(40)})
edges = [-1, 0, 1, 7, 8, 21, 22, 90, 91, 127, 128, 2**15 - 1, -(2**15), 2**31 - 1, -(2**31)]
for turn in range(3000):
    for data, read in (
        (log, lambda b: [v.as_dict() for v in codec.decode_all(b)]),
        (log, lambda b: [v.as_dict() for v in codec.decode_all(b, copy=True)]),
        (batch, codec.decode_batch),
        (batch, lambda b: codec.decode_batch(b, check_size=False)),
        (properties, lambda b: (codec.properties(b).get("n7"), dict(codec.properties(b)))),
    ):
        start = random.randrange(len(data))
        changed = bytearray(data[start : start + random.choice([30, 300, 3000])] if random.random() < 0.3 else data[:3000])
        for _ in range(random.randrange(4)):
            if len(changed) > 4:
                place = random.randrange(len(changed) - 3)
                struct.pack_into(">i", changed, place, random.choice(edges))
        try:
            read(bytes(changed))
        except StoreError:
            pass
print("alive")
"""

ENDINGS = """
import gc, sys, threading
from support.buffers import HookedBuffer
from rmqcore import Message, codec
from rmqcore.errors import StoreError

at = dict(phy_offset=0, store_timestamp_ms=1)
def attempt(call):
    try:
        call()
    except (BufferError, MemoryError, OverflowError, RecursionError, StoreError, TypeError, ValueError):
        pass

# A body whose bytes are asked for while the same message is encoded.
message = Message("t", b"")
depth = 0
def again():
    global depth
    depth += 1
    if depth < 50:
        attempt(lambda: codec.encode(message, queue_offset=0, **at))
        attempt(lambda: codec.encode_many([message] * 3, **at))
        attempt(lambda: codec.encode_batch([message]))
message.body = HookedBuffer(b"body", again)
again()

# A list that is dropped, and a dict that is emptied, by a body in the middle.
props = {str(n): "v" * 30 for n in range(100)}
def drop():
    props.clear()
    props.update((str(n), "w" * 3) for n in range(500))
def encode_some(count):
    messages = [Message("t", HookedBuffer(b"x", drop)) for _ in range(count)]
    for one in messages:
        one.properties = props  # the same dict for all
    codec.encode_many(messages, **at)
for _ in range(20):
    attempt(lambda: encode_some(600))
    gc.collect()

# A name whose hash or comparison runs code.
class Name(str):
    def __eq__(self, other): gc.collect(); return True
    def __hash__(self): gc.collect(); return 1
lazy = codec.properties(bytearray(b"a\\x01b\\x02" * 100))
for _ in range(100):
    attempt(lambda: lazy[Name("a")])
    attempt(lambda: Name("x") in lazy)
    attempt(lambda: codec.encode_properties({Name("a"): Name("b")}))

# What is too large for memory: lengths are looked at first.
attempt(lambda: codec.decode_batch(b"\\x7f\\xff\\xff\\xff" * 30))
attempt(lambda: codec.decode_batch(b"\\x7f\\xff\\xff\\xff" * 30, check_size=False))
attempt(lambda: codec.decode_all(b"\\x7f\\xff\\xff\\xff\\xda\\xa3\\x20\\xa7" * 30))

# Iterators that call themselves, and never end.
class Itself:
    def __iter__(self): return self
    def __next__(self): return next(self)
attempt(lambda: codec.encode_many(Itself(), **at))
attempt(lambda: codec.encode_batch(Itself()))

# Half-made objects.
for kind in (codec.MessageView, codec.CqEntry, codec.BatchMessage, codec.MsgId, type(lazy), Message):
    attempt(lambda: codec.properties(kind.__new__(kind)))
    attempt(lambda: codec.encode_properties(kind.__new__(kind)))
    attempt(lambda: repr(kind.__new__(kind)))
    attempt(lambda: codec.encode_many([kind.__new__(kind)], **at))
    attempt(lambda: len(kind.__new__(kind)))

# The buffer of a view at the end of the interpreter.
keep = [codec.decode_all(bytearray(codec.encode_many([Message("t", b"x")] * 10, **at))), lazy]
sys.keep = keep
print("alive")
"""

THREADS = """
import threading
from rmqcore import Message, codec
from rmqcore.errors import StoreError

at = dict(phy_offset=0, store_timestamp_ms=1)
log = codec.encode_many([Message("t", b"x" * n, 0, "A", ["k"]) for n in range(200)], **at)
buffer = bytearray(log)
batch = bytearray(codec.encode_batch([Message("t", b"x" * n, properties={"a": "b"}) for n in range(200)]))
props = bytearray(b"name\\x01value\\x02" * 500)
stop = threading.Event()
def change():
    number = 0
    while not stop.is_set():
        number = (number * 31 + 17) % 100_003
        buffer[number % len(buffer)] = number % 256
        batch[number % len(batch)] = number % 256
        props[number % len(props)] = number % 4
        if number % 50 == 0:
            buffer[:] = log
            view = memoryview(batch)
            view[: len(view) // 2] = bytes(len(view) // 2)
threads = [threading.Thread(target=change) for _ in range(2)]
for thread in threads: thread.start()
lazy = codec.properties(props)
for _ in range(400):
    for read in (
        lambda: [v.as_dict() for v in codec.decode_all(buffer)],
        lambda: [v.as_dict() for v in codec.decode_all(buffer, copy=True, check_crc=True)],
        lambda: codec.decode_batch(batch),
        lambda: codec.decode_batch(batch, check_size=False),
        lambda: (lazy.get("name"), len(lazy), dict(lazy)),
        lambda: codec.encode_into(buffer, 0, Message("t", memoryview(buffer)[50:90]), queue_offset=0, **at),
    ):
        try:
            read()
        except StoreError:
            pass
stop.set()
for thread in threads: thread.join()
print("alive")
"""


@pytest.mark.parametrize("program", [NOISE, ENDINGS, THREADS], ids=["noise", "endings", "threads"])
def test_a_child_lives_through_it(program: str) -> None:
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", textwrap.dedent(program)],
        check=False,
        capture_output=True,
        text=True,
        timeout=300,
        env={"PYTHONPATH": python_path(), "PYTHONMALLOC": "debug"},
    )
    assert (done.returncode, done.stdout) == (0, "alive\n"), done.stderr[-3000:]
