"""Commands that the real RemotingCommand writes and reads, and the codes and fields that RocketMQ's classes name."""

from __future__ import annotations

import base64
import random
from typing import Any

import pytest
from interop.java_process import JavaError, JavaProcess

from rmqcore.remoting.codes import LanguageCode, RequestCode, ResponseCode, SerializeType
from rmqcore.remoting.command import RemotingCommand
from rmqcore.remoting.frame import Frame, FrameDecoder, encode_frame
from rmqcore.remoting.header import decode_command, encode_command
from rmqcore.remoting.request_fields import REQUEST_FIELDS, SEND_V2_NAMES, FieldType

LETTERS = (
    [chr(number) for number in range(1, 128)]
    + ["\u00e9", "\u2028", "\u4e2d", "\ufffd", "\U0001f600"]
    + list('"\\/<>&')
)


BMP = [letter for letter in LETTERS if letter < "\U00010000"]
"""Letters of names: of one with an escape and a letter beyond these fastjson2 says "malformed input"."""


def command(choose: random.Random) -> RemotingCommand:
    def text(least: int, most: int, letters: list[str] = LETTERS) -> str:
        return "".join(choose.choices(letters, k=choose.randint(least, most)))

    return RemotingCommand(
        choose.choice([0, 10, 105, 310, 32767, -1]),
        choose.choice(list(LanguageCode)),
        version=choose.choice([0, 513, 32767]),
        opaque=choose.choice([0, 7, (1 << 31) - 1, -(1 << 31)]),
        flag=choose.choice([0, 1, 2, 3]),
        remark=choose.choice([None, text(1, 40)]),
        ext_fields={text(1, 12, BMP): text(1, 60) for _ in range(choose.randint(0, 6))},
        body=choose.randbytes(choose.randint(0, 50)),
        serialize_type=choose.choice(list(SerializeType)),
    )


def commands(seed: int) -> list[RemotingCommand]:
    choose = random.Random(seed)
    return [command(choose) for _ in range(300)]


def as_json(one: RemotingCommand) -> dict[str, Any]:
    return {
        "code": one.code,
        "language": one.language.name,
        "version": one.version,
        "opaque": one.opaque,
        "flag": one.flag,
        "remark": one.remark,
        "extFields": one.ext_fields,
        "body": base64.b64encode(one.body).decode(),
        "type": one.serialize_type.name,
    }


def decoded(data: bytes) -> RemotingCommand:
    decoder = FrameDecoder()
    decoder.feed(data)
    frame = decoder.next_frame()
    assert frame is not None and decoder.pending == 0
    return decode_command(frame)


def java_decodes(java: JavaProcess, *frames: bytes) -> Any:
    requests = [{"frame": base64.b64encode(frame).decode()} for frame in frames]
    return java.call("decodeFrames", requests=requests)


def test_what_java_writes_is_read(java: JavaProcess) -> None:
    sent = commands(1)
    frames = java.call("encodeCommands", requests=[as_json(one) for one in sent])
    assert [decoded(base64.b64decode(frame)) for frame in frames] == sent


def test_what_we_write_java_reads(java: JavaProcess) -> None:
    sent = commands(2)
    assert java_decodes(java, *map(encode_command, sent)) == [as_json(one) for one in sent]


def test_our_bytes_are_javas(java: JavaProcess) -> None:
    """Where the order of a hash map plays no part."""
    sent = [one for one in commands(3) if len(one.ext_fields) < 2]
    frames = java.call("encodeCommands", requests=[as_json(one) for one in sent])
    assert len(sent) > 50
    for frame, one in zip(frames, sent, strict=True):
        assert base64.b64decode(frame) == encode_command(one)


@pytest.mark.parametrize(
    "text",
    [
        '{"code":34,"opaque":7}',
        '{"code":34,"opaque":7,"extFields":null,"remark":null,"version":1,"flag":2}',
        '{"code":34,"opaque":7,"language":3}',
        '{"code":34,"opaque":7,"extFields":{"a":1,"b":true,"c":false,"d":1.50,"e":-3}}',
        '{"code":34,"opaque":7,"later":{"a":[{}]}}',
        '{ "opaque" : 7 ,\n"code" : 34 }',
        '{"code":34,"code":35,"opaque":7}',
        '{"code":34,"opaque":7,"remark":"\\u4e2d\\/\\ud83d\\ude00\\u0001"}',
    ],
)
def test_headers_that_other_clients_write_mean_the_same(java: JavaProcess, text: str) -> None:
    frame = encode_frame(Frame(SerializeType.JSON, text.encode(), b""))
    (found,) = java_decodes(java, frame)
    ours = as_json(decoded(frame))
    if "language" not in text:
        assert ours.pop("language") == "OTHER"  # Java takes who says nothing for Java
        del found["language"]
    assert found == ours


@pytest.mark.parametrize("size", range(1, 21))
def test_a_cut_binary_header_is_refused_by_both(java: JavaProcess, size: int) -> None:
    whole = encode_command(RemotingCommand(34, serialize_type=SerializeType.ROCKETMQ))
    frame = encode_frame(Frame(SerializeType.ROCKETMQ, whole[8 : 8 + size], b""))
    with pytest.raises(JavaError):
        java_decodes(java, frame)
    with pytest.raises(Exception, match="binary header@"):
        decoded(frame)


# ---- tables -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def tables(java: JavaProcess) -> Any:
    return java.call("remotingTables")


def test_codes_have_javas_names_and_numbers(tables: Any) -> None:
    for theirs, ours in (
        ("requests", RequestCode),
        ("responses", ResponseCode),
        ("languages", LanguageCode),
    ):
        assert {one.name: one.value for one in ours} == tables[theirs], theirs


WITHOUT_HEADER = {
    RequestCode.SEND_BATCH_MESSAGE: RequestCode.SEND_MESSAGE,
    RequestCode.SEND_REPLY_MESSAGE: RequestCode.SEND_MESSAGE,
    RequestCode.SEND_REPLY_MESSAGE_V2: RequestCode.SEND_MESSAGE,
    RequestCode.SEND_MESSAGE_V2: RequestCode.SEND_MESSAGE,
    RequestCode.LITE_PULL_MESSAGE: RequestCode.PULL_MESSAGE,
    RequestCode.RESET_CONSUMER_CLIENT_OFFSET: RequestCode.INVOKE_BROKER_TO_RESET_OFFSET,
    RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT: RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS,
}
"""Requests that bear the fields of another."""
INHERITED = {"ns", "nsd", "oway", "lo", "bname"}
TYPES = {
    "String": FieldType.TEXT,
    "BoundaryType": FieldType.TEXT,
    "Integer": FieldType.INT,
    "int": FieldType.INT,
    "Long": FieldType.LONG,
    "long": FieldType.LONG,
    "Boolean": FieldType.BOOL,
    "boolean": FieldType.BOOL,
}


PAGED = {RequestCode.GET_ALL_TOPIC_CONFIG, RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG}
"""Requests of which older clients send no field, whatever the newest header says."""


@pytest.mark.parametrize("code", REQUEST_FIELDS, ids=lambda code: code.name)
def test_fields_are_those_of_javas_header(tables: Any, code: RequestCode) -> None:
    theirs = tables["headers"].get(WITHOUT_HEADER.get(code, code).name, {})
    expected = {
        name: (TYPES[kind.rstrip("*")], kind.endswith("*") and code not in PAGED)
        for name, kind in theirs.items()
        if name not in INHERITED
    }
    ours = {spec.name: (spec.type, spec.required) for spec in REQUEST_FIELDS[code]}
    assert {name: spec for name, spec in ours.items() if name not in INHERITED} == expected


def test_the_letters_of_version_two_are_in_javas_order(tables: Any) -> None:
    letters = {n: kind for n, kind in tables["headers"]["SEND_MESSAGE_V2"].items() if len(n) == 1}
    specs = {spec.name: spec for spec in REQUEST_FIELDS[RequestCode.SEND_MESSAGE_V2]}
    assert set(letters) == set(SEND_V2_NAMES)
    for letter, kind in letters.items():
        spec = specs[SEND_V2_NAMES[letter]]
        assert (TYPES[kind.rstrip("*")], kind.endswith("*")) == (spec.type, spec.required), letter
