"""The codec by example: the numbers that RocketMQ 5.5.0 itself gave, every field there and back, and words for bad input."""

from __future__ import annotations

import struct
import subprocess
import sys
import zlib
from typing import Any

import pytest

from rmqcore import Message, codec, sysflag
from rmqcore.errors import CorruptMessageError, StoreError

WHERE: dict[str, Any] = {
    "phy_offset": 123,
    "queue_offset": 7,
    "store_timestamp_ms": 1_700_000_000_123,
}


def record(message: Message | None = None, **where: int) -> bytes:
    if message is None:
        message = Message("TopicA", b"", properties={"a": "b", "c": "de"})
    return codec.encode(message, **{**WHERE, **where})


WRAPPED = sysflag.INNER_BATCH | sysflag.NEED_UNWRAP


def stored_batch(body: bytes, sys_flag: int = WRAPPED, **where: int) -> codec.MessageView:
    message = Message("TopicA", body, 3, born_host="1.2.3.4:5", sys_flag=sys_flag)
    return codec.decode(record(message, **where))


def test_a_stored_batch_is_taken_apart() -> None:
    inner = [Message("x", b"one", tags="A", flag=7), Message("x", b"two", keys=["k"])]
    body = codec.encode_batch(inner)
    committed = sysflag.TRANSACTION_COMMIT
    packed = sysflag.COMPRESSED | sysflag.COMPRESSION_ZLIB
    for batch in (
        stored_batch(body, WRAPPED | committed),
        stored_batch(zlib.compress(body), WRAPPED | committed | packed),
    ):
        found = codec.unwrap(batch)
        assert [(one.queue_offset, one.body, one.flag) for one in found] == [
            (7, b"one", 7),
            (8, b"two", 0),
        ]
        assert [(one.tags, one.keys) for one in found] == [("A", ()), (None, ("k",))]
        for one in found:
            assert (one.topic, one.queue_id, one.born_host) == ("TopicA", 3, "1.2.3.4:5")
            assert one.store_timestamp_ms == batch.store_timestamp_ms
            assert (one.phy_offset, one.msg_id) == (batch.phy_offset, batch.msg_id)
            assert (one.sys_flag, one.crc_ok()) == (committed, True)
    assert codec.unwrap(stored_batch(b"")) == []


@pytest.mark.parametrize("sys_flag", [0, sysflag.INNER_BATCH, sysflag.NEED_UNWRAP])
def test_any_other_message_comes_back_as_it_is(sys_flag: int) -> None:
    view = stored_batch(b"body", sys_flag)
    assert codec.unwrap(view)[0] is view


def test_messages_that_do_not_fit_into_a_record_are_damage() -> None:
    """A consumer got an OverflowError for the offset that a broker sent."""
    one = codec.encode_batch([Message("x", b"one"), Message("x", b"two")])
    with pytest.raises(CorruptMessageError, match="<batch>@0: message 1 is "):
        codec.unwrap(stored_batch(one, queue_offset=(1 << 63) - 1))
    broken = codec.encode_batch([Message("x", b"", properties={"k": "v" * 30_000})])
    with pytest.raises(CorruptMessageError, match="expected one that fits into a record"):
        codec.unwrap(stored_batch(broken.replace(b"v" * 30_000, b"\xff" * 30_000)))
    with pytest.raises(CorruptMessageError, match="TOTALSIZE"):
        codec.unwrap(stored_batch(b"no batch"))


# ---- numbers that Java gave -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", 0),
        ("TagA", 2598919),
        ("\U0001f600tag", 1276941143),
        ("a", 97),
        ("polygenelubricants", -(2**31)),
        ("\udc00", 0xDC00),
    ],
)
def test_java_hash(text: str, value: int) -> None:
    assert codec.java_hash(text) == value


def test_an_empty_v1_record_has_91_bytes_and_its_texts() -> None:
    message = Message("TopicA", b"", properties={"k": "v", "kk": "vv"})
    raw = record(message)
    assert len(codec.encode_properties(message.properties)) == 10
    assert len(raw) == 107
    assert codec.check(raw) == 107
    assert raw[:8].hex() == "0000006bdaa320a7"


def test_the_offset_message_id() -> None:
    message = Message("t", b"", store_host="127.0.0.1:10911")
    assert codec.decode(record(message)).msg_id == "7F00000100002A9F000000000000007B"
    message = Message("t", b"", store_host="[::1]:10911")
    assert codec.decode(record(message)).msg_id == f"{1:032X}00002A9F000000000000007B"


def flag_for_crc(value: int) -> int:
    """The user flag that makes the CRC before the appended property `value`; CRC-32 is linear in those 32 bits."""

    def crc(flag: int) -> int:
        message = Message("t", b"body", flag=flag - (flag >> 31 << 32))
        return zlib.crc32(codec.encode(message, append_prop_crc=True, **WHERE)[:-20])

    base = crc(0)
    pivots: dict[int, tuple[int, int]] = {}
    for bit in range(32):
        effect, flag = crc(1 << bit) ^ base, 1 << bit
        while effect and effect.bit_length() in pivots:
            other_effect, other_flag = pivots[effect.bit_length()]
            effect, flag = effect ^ other_effect, flag ^ other_flag
        pivots[effect.bit_length()] = (effect, flag)
    wanted, solution = base ^ value, 0
    while wanted:
        effect, flag = pivots[wanted.bit_length()]
        wanted, solution = wanted ^ effect, solution ^ flag
    return solution - (solution >> 31 << 32)


@pytest.mark.parametrize(
    ("value", "digits"), [(1999979476, "6749799991"), (0, "0000000000"), (7, "7000000000")]
)
def test_the_digits_of_the_appended_crc_come_least_significant_first(
    value: int, digits: str
) -> None:
    for top_bit in (0, 1 << 31):  # masked away
        message = Message("t", b"body", flag=flag_for_crc(value | top_bit))
        raw = codec.encode(message, append_prop_crc=True, **WHERE)
        assert raw[-20:] == b"__CRC32#\x01" + digits.encode() + b"\x02"
        assert codec.check(raw, check_prop_crc=True) == len(raw)
        assert codec.decode(raw).prop_crc_ok() is True


def test_body_crc_is_masked_to_31_bits() -> None:
    assert codec.body_crc(b"") == 0
    assert codec.body_crc(b"123456789") == 0xCBF43926 & 0x7FFFFFFF
    assert codec.decode(record(Message("t", b"123456789"))).body_crc == 0x4BF43926


# ---- fields there and back --------------------------------------------------------------------------


@pytest.mark.parametrize("topic_len", [1, 127, 128, 255])
@pytest.mark.parametrize("born_host", ["10.1.2.3:65535", "[2001:db8::1]:1"])
@pytest.mark.parametrize("store_host", ["0.0.0.0:0", "[::ffff:1.2.3.4]:10911"])
def test_every_field(topic_len: int, born_host: str, store_host: str) -> None:
    topic = "t" * topic_len
    message = Message(
        topic,
        b"\0\1body\xff",
        -3,
        "TagA",
        ["k1", "k2"],
        {"UNIQ_KEY": "u", "a": "x\x01y", "é": "\U0001f600"},
        flag=-1,
        sys_flag=0x8C2,
        born_timestamp_ms=-5,
        born_host=born_host,
        store_host=store_host,
        reconsume_times=2**31 - 1,
        prepared_transaction_offset=2**63 - 1,
    )
    raw = codec.encode(message, phy_offset=2**62, queue_offset=-(2**63), store_timestamp_ms=0)
    view = codec.decode(raw)
    assert view.topic == topic
    assert view.body == b"\0\1body\xff"
    assert view.queue_id == -3
    assert view.flag == -1
    assert view.sys_flag == 0x8C2 | 0x10 * born_host.startswith("[") | 0x20 * store_host.startswith(
        "["
    )
    assert view.born_timestamp_ms == -5
    assert (view.born_host, view.store_host) == (born_host, store_host)
    assert view.reconsume_times == 2**31 - 1
    assert view.prepared_transaction_offset == 2**63 - 1
    assert (view.phy_offset, view.queue_offset, view.store_timestamp_ms) == (2**62, -(2**63), 0)
    assert view.tags == "TagA"
    assert view.keys == ("k1", "k2")
    assert view.uniq_key == "u"
    assert list(view.properties.items()) == [
        ("TAGS", "TagA"),
        ("KEYS", "k1 k2"),
        ("UNIQ_KEY", "u"),
        ("a", "x\x01y"),
        ("é", "\U0001f600"),
    ]
    assert view.tags_code == 2598919
    assert view.magic == (-626843481 if topic_len <= 127 else -626843477)
    assert view.msg_size == len(raw) == len(view.raw)
    assert view.crc_ok()
    assert view.prop_crc_ok() is None


def test_the_versions_differ_in_the_width_of_the_topic_length() -> None:
    sizes = [len(record(Message("x" * n, b""))) - n for n in (127, 128)]
    assert sizes == [91, 92]
    # Bytes count, not characters: this has 64 characters and 128 bytes.
    assert codec.decode(record(Message("é" * 64, b""))).magic == -626843477


def test_the_ipv6_bits_follow_from_the_hosts() -> None:
    message = Message("t", b"", sys_flag=0x30, born_host="1.2.3.4:5", store_host="1.2.3.4:5")
    assert codec.decode(record(message)).sys_flag == 0


def test_the_born_timestamp_is_the_store_timestamp_unless_given() -> None:
    view = codec.decode(record(Message("t", b"")))
    assert view.born_timestamp_ms == view.store_timestamp_ms == 1_700_000_000_123


@pytest.mark.parametrize(
    ("delay", "expected"),
    [
        ("1", 1000),
        ("3", 10_000),
        ("18", 7_200_000),
        ("19", 7_200_000),
        ("2147483647", 7_200_000),
        ("+2", 5000),
        ("002", 5000),
        ("0000000000002", 5000),
        ("0", None),
        ("-1", None),
        ("", None),
        ("x", None),
        ("2 ", None),
        ("2147483648", None),
    ],
)
def test_the_tags_code_on_the_schedule_topic_is_the_deliver_time(
    delay: str, expected: int | None
) -> None:
    properties = {"TAGS": "TagA", "DELAY": delay}
    there = codec.decode(record(Message("SCHEDULE_TOPIC_XXXX", b"", properties=properties)))
    elsewhere = codec.decode(record(Message("SCHEDULE_TOPIC_XXX", b"", properties=properties)))
    assert there.tags_code == (
        2598919 if expected is None else WHERE["store_timestamp_ms"] + expected
    )
    assert elsewhere.tags_code == 2598919


def test_an_incoming_crc_property_gives_way_to_the_appended_one() -> None:
    message = Message("t", b"", properties={"a": "b", "__CRC32#": "0123456789", "c": "d"})
    raw = codec.encode(message, append_prop_crc=True, **WHERE)
    assert raw.count(b"__CRC32#") == 1
    assert list(codec.decode(raw).properties)[:2] == ["a", "c"]
    assert codec.check(raw, check_prop_crc=True) == len(raw)
    assert codec.decode(record(message)).properties["__CRC32#"] == "0123456789"


# ---- properties -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", {}),
        (b"a\x01b\x02", {"a": "b"}),
        (b"a\x01b", {"a": "b"}),  # old producers leave the last separator off
        (b"a\x01b\x02c\x01d", {"a": "b", "c": "d"}),
        (b"a\x01\x02", {}),
        (b"\x01b\x02", {}),
        (b"a\x02b\x02", {}),
        (b"\x02\x02a\x01b\x02\x02", {"a": "b"}),
        (b"a\x01b\x01c\x02", {"a": "b\x01c"}),
        (b"a\x01\x01\x02", {"a": "\x01"}),
        (b"a\x01b\x02a\x01c\x02", {"a": "c"}),
        (b"a\x01b\x02a\x01\x02", {"a": "b"}),
        (b"ab\x02\x01c\x02", {}),
        (b"\xff\x01\xc3\x02", {"\ufffd": "\ufffd"}),
        (b"a\x01\xed\xa0\x80\x02", {"a": "\ufffd"}),
    ],
)
def test_corners_of_the_properties_string(data: bytes, expected: dict[str, str]) -> None:
    assert codec.decode_properties(data) == expected


def test_properties_keep_their_order_and_lose_none() -> None:
    assert codec.encode_properties({"b": "1", "a": None, "c": ""}) == b"b\x011\x02c\x01\x02"
    assert codec.encode_properties({}) == b""


# ---- bad input --------------------------------------------------------------------------------------


def test_a_record_that_is_cut_says_how_much_is_missing() -> None:
    raw = record()
    with pytest.raises(CorruptMessageError) as caught:
        codec.decode(b"x" * 10 + raw[:-1], 10)
    error = caught.value
    assert (error.path, error.phy_offset, error.field) == ("<buffer>", 10, "TOTALSIZE")
    assert (
        str(error)
        == f"<buffer>@10: TOTALSIZE is {len(raw)}, expected at most the {len(raw) - 1} bytes left"
    )
    assert isinstance(error, StoreError)
    assert error.code == "CORRUPT_MESSAGE"
    assert error.exit_code == 2


@pytest.mark.parametrize(
    ("pos", "form", "value", "field", "expected", "found"),
    [
        (0, ">i", -1, "TOTALSIZE", "at least 91", -1),
        (0, ">i", 0, "TOTALSIZE", "at least 91", 0),
        (0, ">i", 2**31 - 1, "TOTALSIZE", "at most the 106 bytes left", 2**31 - 1),
        (4, ">i", 0x12345678, "MAGIC", "0xDAA320A7 or 0xDAA320AB", "0x12345678"),
        (84, ">i", -1, "BODYLENGTH", "0 to 15", -1),
        (84, ">i", 16, "BODYLENGTH", "0 to 15", 16),
        (88, ">b", -1, "TOPICLENGTH", "0 to 15", -1),
        (88, ">b", 16, "TOPICLENGTH", "0 to 15", 16),
        (95, ">h", -1, "PROPERTIESLENGTH", "0 to 9", -1),
        (95, ">h", 10, "PROPERTIESLENGTH", "0 to 9", 10),
        (95, ">h", 8, "TOTALSIZE", 105, 106),
        (8, ">i", 5, "BODYCRC", 0, 5),
    ],
)
def test_a_wrong_field_is_named_with_what_it_should_hold(
    pos: int, form: str, value: int, field: str, expected: object, found: object
) -> None:
    raw = bytearray(record())
    assert len(raw) == 106
    struct.pack_into(form, raw, pos, value)
    with pytest.raises(CorruptMessageError) as caught:
        codec.check(raw)
    assert (caught.value.field, caught.value.expected, caught.value.found) == (
        field,
        expected,
        found,
    )


def test_zeros_and_blanks_are_told_apart_from_damage() -> None:
    with pytest.raises(CorruptMessageError, match="nothing was written here"):
        codec.decode(bytes(200))
    blank = struct.pack(">iI", 4096, 0xCBD43194)
    assert codec.check(blank) == 0
    with pytest.raises(CorruptMessageError, match="MAGIC is BLANK"):
        codec.decode(blank)
    with pytest.raises(CorruptMessageError, match="TOTALSIZE is 7, expected at least 8"):
        codec.check(struct.pack(">iI", 7, 0xCBD43194))


def test_decode_takes_a_wrong_body_and_check_does_not() -> None:
    raw = bytearray(record(Message("t", b"body")))
    raw[88] ^= 1
    assert codec.decode(raw).crc_ok() is False
    assert codec.check(raw, check_crc=False) == len(raw)
    with pytest.raises(CorruptMessageError, match="BODYCRC"):
        codec.check(raw)


def test_the_appended_crc_is_required_when_asked_for() -> None:
    raw = codec.encode(Message("t", b"body"), append_prop_crc=True, **WHERE)
    wrong = bytearray(raw)
    wrong[16] ^= 1  # the flag, which only this CRC covers
    assert codec.check(wrong) == len(raw)
    assert codec.decode(wrong).prop_crc_ok() is False
    with pytest.raises(CorruptMessageError, match="__CRC32#"):
        codec.check(wrong, check_prop_crc=True)
    with pytest.raises(CorruptMessageError, match="__CRC32# is none"):
        codec.check(record(), check_prop_crc=True)


@pytest.mark.parametrize(
    ("message", "name"),
    [
        (Message("t" * 32768, b""), "topic"),
        (Message("t", b"", properties={"a": "b" * 32765}), "properties"),
    ],
)
def test_what_has_no_room_is_refused_before_anything_is_written(
    message: Message, name: str
) -> None:
    with pytest.raises(ValueError, match=f"{name} of 32768 bytes has no room"):
        record(message)


def test_the_appended_crc_needs_room_too() -> None:
    fits = Message("t", b"", properties={"a": "b" * (32767 - 20 - 3)})
    assert codec.check(codec.encode(fits, append_prop_crc=True, **WHERE), check_prop_crc=True)
    longer = Message("t", b"", properties={"a": "b" * (32767 - 20 - 2)})
    assert codec.check(record(longer))
    with pytest.raises(ValueError, match="properties of 32748 bytes"):
        codec.encode(longer, append_prop_crc=True, **WHERE)


@pytest.mark.parametrize(
    "message",
    [
        Message("t", b"", 2**31),
        Message("t", b"", flag=-(2**31) - 1),
        Message("t", b"", sys_flag=2**31),
        Message("t", b"", reconsume_times=2**31),
    ],
)
def test_a_number_with_no_room_in_its_field_overflows(message: Message) -> None:
    with pytest.raises(OverflowError):
        record(message)


@pytest.mark.parametrize("name", ["queue_id", "born_timestamp_ms", "prepared_transaction_offset"])
@pytest.mark.parametrize("value", [2**63, -(2**63) - 1])
def test_a_number_that_is_no_java_long_is_refused_at_once(name: str, value: int) -> None:
    message = Message("t", b"")
    with pytest.raises(OverflowError):
        setattr(message, name, value)
    with pytest.raises(OverflowError):
        Message("t", b"", **{name: value})  # type: ignore[arg-type]


def test_text_that_has_no_bytes_is_refused() -> None:
    for message in (Message("\ud800", b""), Message("t", b"", properties={"a": "\ud800"})):
        with pytest.raises(ValueError, match="surrogates not allowed"):
            record(message)


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "127.0.0.1:", "::1:80", "[127.0.0.1]:80", "name:80", "1.2.3.4:4294967296", ""],
)
def test_a_host_that_is_none_is_refused(host: str) -> None:
    if host == "":
        assert Message("t", b"", born_host=host).born_host == "127.0.0.1:0"
        return
    with pytest.raises(ValueError, match="expected 'ip:port'"):
        Message("t", b"", born_host=host)


def test_keys_are_words() -> None:
    with pytest.raises(ValueError, match="without spaces"):
        Message("t", b"", keys=["a b"])
    with pytest.raises(ValueError, match="given twice"):
        Message("t", b"", tags="a", properties={"TAGS": "b"})
    assert Message("t", b"", tags="a", properties={"TAGS": "a"}).properties == {"TAGS": "a"}
    assert Message("t", b"", keys="one").keys == ("one",)


def test_importing_the_codec_loads_nothing_big() -> None:
    program = (
        "import sys, rmqcore, rmqcore.codec; "
        "print(sorted({'pyarrow', 'pyspark', 'typer', 'rich', 'asyncio', 'lz4', 'zstandard'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"
