"""Headers in both forms: the bytes that RocketMQ's own code wrote, and what is refused."""

from __future__ import annotations

import json
import struct

import pytest

from rmqcore.errors import ProtocolError
from rmqcore.remoting.binary_header import decode_binary_header, encode_binary_header
from rmqcore.remoting.codes import LanguageCode, RequestCode, ResponseCode, SerializeType
from rmqcore.remoting.command import RemotingCommand
from rmqcore.remoting.frame import FrameDecoder
from rmqcore.remoting.header import decode_command, encode_command
from rmqcore.remoting.json_header import decode_json_header, encode_json_header

JSON_FRAME = (
    bytes.fromhex("000000b0000000a8")
    + b'{"code":30,"extFields":{"queueId":"3","committed":"true","topic":"T1"},"flag":0,"language":"JAVA",'
    b'"opaque":5,"remark":"rk","serializeTypeCurrentRPC":"JSON","version":0}BODY'
)
BINARY_FRAME = bytes.fromhex(
    "0000004d 01000045 001e 00 0000 00000005 00000000 00000002 726b 0000002e"
    "0007 71756575654964 00000001 33 0009 636f6d6d6974746564 00000004 74727565 0005 746f706963 00000002 5431"
    "424f4459"
)
"""What RocketMQ 5.5.0 wrote for one command, in both forms."""


def command_of(data: bytes) -> RemotingCommand:
    decoder = FrameDecoder()
    decoder.feed(data)
    frame = decoder.next_frame()
    assert frame is not None and decoder.pending == 0
    return decode_command(frame)


def command(serialize_type: SerializeType) -> RemotingCommand:
    return RemotingCommand(
        RequestCode.GET_MAX_OFFSET,
        LanguageCode.JAVA,
        version=0,
        opaque=5,
        remark="rk",
        ext_fields={"queueId": "3", "committed": "true", "topic": "T1"},
        body=b"BODY",
        serialize_type=serialize_type,
    )


@pytest.mark.parametrize(
    ("data", "serialize_type"),
    [(JSON_FRAME, SerializeType.JSON), (BINARY_FRAME, SerializeType.ROCKETMQ)],
    ids=["json", "binary"],
)
def test_what_java_wrote_both_ways(data: bytes, serialize_type: SerializeType) -> None:
    assert command_of(data) == command(serialize_type)
    assert encode_command(command(serialize_type)) == data


# ---- JSON -------------------------------------------------------------------------------------------


def header(**members: object) -> bytes:
    return json.dumps({"code": 34, "opaque": 7, **members}).encode()


def test_little_is_enough() -> None:
    assert decode_json_header(b'{"code":34,"opaque":7}') == RemotingCommand(
        34, LanguageCode.OTHER, version=0, opaque=7
    )


def test_members_that_nobody_knows_are_left_out() -> None:
    assert decode_json_header(header(serializeTypeCurrentRPC="JSON", later={"a": [1]})).code == 34


@pytest.mark.parametrize(
    ("language", "expected"),
    [
        ("GO", LanguageCode.GO),
        (3, LanguageCode.PYTHON),
        ("COBOL", LanguageCode.OTHER),
        (77, LanguageCode.OTHER),
        (None, LanguageCode.OTHER),
    ],
)
def test_languages(language: object, expected: LanguageCode) -> None:
    assert decode_json_header(header(language=language)).language is expected


def test_values_that_are_no_text_become_what_java_makes_of_them() -> None:
    text = (
        b'{"code":34,"opaque":7,"extFields":{"a":1,"b":true,"c":false,"d":null,"e":1.50,"f":"x"}}'
    )
    assert decode_json_header(text).ext_fields == {
        "a": "1",
        "b": "true",
        "c": "false",
        "e": "1.50",
        "f": "x",
    }


@pytest.mark.parametrize(
    ("data", "field"),
    [
        (b"", "text"),
        (b"[]", "text"),
        (b"null", "text"),
        (b"{", "text"),
        (b'{"code":34,"opaque":7} x', "text"),
        (b'{"code":34,"opaque":7,"remark":"\xff"}', "text"),
        (b'{"code":34,"opaque":7,"remark":"\\ud800"}', "text"),
        (b'{"code":34,"opaque":7,"later":NaN}', "text"),
        (b'{"code":34,"opaque":7,"later":' + b"[" * 8 + b"]" * 8 + b"}", "text"),
        (b'{"code":' + b"[" * 60000, "text"),
        (b'{"opaque":7}', "code"),
        (b'{"code":34}', "opaque"),
        (header(code="34"), "code"),
        (header(code=True), "code"),
        (b'{"code":34.0,"opaque":7}', "code"),
        (header(code=1 << 31), "code"),
        (b'{"code":' + b"9" * 5000 + b',"opaque":7}', "code"),
        (header(flag=None), "flag"),
        (header(version=-(1 << 31) - 1), "version"),
        (header(language=["JAVA"]), "language"),
        (header(remark=5), "remark"),
        (header(extFields=[]), "extFields"),
        (header(extFields={"a": {}}), "extFields.'a'"),
    ],
)
def test_what_no_json_header_is(data: bytes, field: str) -> None:
    with pytest.raises(ProtocolError) as caught:
        decode_json_header(data)
    assert (caught.value.part, caught.value.field) == ("JSON header", field)
    assert len(str(caught.value)) < 1000


def test_brackets_in_texts_are_not_depth() -> None:
    properties = "[{" * 5000
    assert decode_json_header(header(extFields={"i": properties})).ext_fields == {"i": properties}
    assert decode_json_header(header(later=[[[[[[[0]]]]]]])).code == 34


def test_json_is_as_compact_as_java_writes_it() -> None:
    """The Go client reads JSON by hand: a blank after a colon becomes part of an address."""
    text = encode_json_header(RemotingCommand(0, opaque=1, ext_fields={"i": "a\x01b\x02\u00e9"}))
    assert text == (
        b'{"code":0,"extFields":{"i":"a\\u0001b\\u0002\xc3\xa9"},"flag":0,"language":"PYTHON","opaque":1,'
        b'"serializeTypeCurrentRPC":"JSON","version":513}'
    )


@pytest.mark.parametrize("name", ["code", "flag", "opaque", "version"])
@pytest.mark.parametrize("serialize_type", SerializeType)
def test_numbers_that_do_not_fit_are_not_written(name: str, serialize_type: SerializeType) -> None:
    wrong = RemotingCommand(0, serialize_type=serialize_type)
    setattr(wrong, name, 1 << 31)
    with pytest.raises(ValueError, match=f"{name}"):
        encode_command(wrong)


# ---- binary -----------------------------------------------------------------------------------------

START = struct.pack(">hbhii", 34, 0, 513, 7, 0)


def sized(layout: str, data: bytes) -> bytes:
    return struct.pack(layout, len(data)) + data


def binary(ext: bytes = b"", remark: bytes = b"") -> bytes:
    return START + sized(">i", remark) + sized(">i", ext)


def test_a_binary_header_without_anything() -> None:
    found = decode_binary_header(binary())
    assert (found.code, found.remark, found.ext_fields) == (34, None, {})


def test_texts_of_no_bytes_are_none() -> None:
    ext = sized(">h", b"a") + sized(">i", b"") + sized(">h", b"") + sized(">i", b"x")
    assert decode_binary_header(binary(ext)).ext_fields == {}
    assert encode_binary_header(RemotingCommand(34, ext_fields={"a": "", "": "x"}))[17:] == bytes(4)


def test_a_language_that_nobody_knows() -> None:
    for number in (14, -1):
        data = struct.pack(">hbhii", 34, number, 513, 7, 0) + bytes(8)
        assert decode_binary_header(data).language is LanguageCode.OTHER


EXT = sized(">h", b"topic") + sized(">i", b"T1")


@pytest.mark.parametrize(
    ("data", "field"),
    [
        (b"", "code"),
        (START[:12], "code"),
        (START, "remark"),
        (START + b"\0\0\0", "remark"),
        (START + struct.pack(">i", 5) + bytes(4), "remark length"),
        (START + struct.pack(">i", -1) + bytes(4), "remark length"),
        (START + bytes(4), "extFields"),
        (START + bytes(4) + struct.pack(">i", 1), "extFields length"),
        (binary() + b"x", "extFields end"),
        (binary(remark=b"\xff"), "remark"),
        (binary(EXT[:-1]), "extFields value length"),
        (binary(EXT[:6]), "extFields name length"),
        (binary(EXT[:1]), "extFields name"),
        (binary(EXT[:9]), "extFields value"),
        (binary(struct.pack(">h", -1) + EXT), "extFields name length"),
        (binary(sized(">h", b"a") + sized(">i", b"\xed\xa0\x80")), "extFields value"),
        (START + bytes(4) + struct.pack(">i", len(EXT) - 3) + EXT, "extFields end"),
    ],
)
def test_what_no_binary_header_is(data: bytes, field: str) -> None:
    with pytest.raises(ProtocolError) as caught:
        decode_binary_header(data)
    assert (caught.value.part, caught.value.field) == ("binary header", field)


@pytest.mark.parametrize("serialize_type", SerializeType)
def test_half_of_a_surrogate_pair_is_not_written(serialize_type: SerializeType) -> None:
    wrong = RemotingCommand(0, ext_fields={"a": "\ud800"}, serialize_type=serialize_type)
    with pytest.raises(ValueError, match="surrogates"):
        encode_command(wrong)


def test_a_name_that_no_short_says_is_not_written() -> None:
    wrong = RemotingCommand(0, ext_fields={"n" * 40000: "v"})
    with pytest.raises(
        ValueError, match="a text of 40000 bytes, whose length does not fit 2 bytes"
    ):
        encode_binary_header(wrong)


# ---- responses --------------------------------------------------------------------------------------


def test_a_response_has_the_number_of_its_request() -> None:
    request = command(SerializeType.ROCKETMQ)
    response = request.response(ResponseCode.TOPIC_NOT_EXIST, "no topic", ext_fields={"a": "b"})
    assert (response.opaque, response.is_response, response.is_oneway) == (5, True, False)
    assert command_of(encode_command(response)) == response
    assert not request.is_response and not request.is_oneway
    request.flag = 2
    assert request.is_oneway


@pytest.mark.parametrize(
    ("code", "remark"),
    [
        (323, "request type 323 RESUME_CHECK_HALF_MESSAGE not supported"),
        (9999, "request type 9999 not supported"),
        (
            200050,
            (
                "request type 200050 POP_MESSAGE not supported: POP is not supported; use a "
                "remoting client"
            ),
        ),
    ],
)
def test_what_is_not_served_is_named(code: int, remark: str) -> None:
    response = RemotingCommand(code, opaque=3).not_supported()
    assert (response.code, response.remark, response.opaque) == (3, remark, 3)
