"""The fields of requests: typed, complete, and the same after they were written."""

from __future__ import annotations

import re

import pytest

from rmqcore.errors import RequestError
from rmqcore.remoting.codes import RequestCode
from rmqcore.remoting.request_fields import (
    REQUEST_FIELDS,
    SEND_V2,
    SEND_V2_NAMES,
    FieldType,
    RequestFields,
    Value,
    encode_fields,
    parse_fields,
)

SEND: dict[str, Value] = {
    "producerGroup": "pg",
    "topic": "T1",
    "defaultTopic": "TBW102",
    "defaultTopicQueueNums": 4,
    "queueId": -1,
    "sysFlag": 0,
    "bornTimestamp": 1700000000000,
    "flag": 0,
    "properties": "KEYS\x01k\x02",
    "unitMode": False,
}


CAPTURED = """
11 bname commitOffset consumerGroup expressionType maxMsgBytes maxMsgNums queueId queueOffset subVersion
suspendTimeoutMillis sysFlag topic; 12 _UNIQUE_KEY_QUERY beginTimestamp endTimestamp indexType key maxNum topic; 14
bname consumerGroup queueId topic; 15 bname commitOffset consumerGroup queueId topic; 17 attributes defaultTopic force
order perm readQueueNums topic topicFilterType topicSysFlag writeQueueNums; 21 dataVersion maxTopicNum topicSeq; 29
bname boundaryType queueId timestamp topic; 30 bname committed queueId topic; 31 bname queueId topic; 32 bname queueId
topic; 35 clientID producerGroup; 35 clientID consumerGroup; 36 bname delayLevel group maxReconsumeTimes offset
originMsgId originTopic unitMode; 37 bname commitLogOffset commitOrRollback fromTransactionCheck msgId producerGroup
topic tranStateTableOffset transactionId; 38 consumerGroup; 39 bname commitLogOffset msgId offsetMsgId topic
tranStateTableOffset transactionId; 40 consumerGroup; 100 key namespace value; 105 topic; 201 dataVersion groupSeq
maxGroupNum; 202 topic; 203 consumerGroup; 204 producerGroup; 205 brokerName; 207 cleanOffset groupName; 208
consumerGroup; 208 consumerGroup topic; 215 topic; 216 clusterName topic; 222 group isForce offset queueId timestamp
topic; 300 topic; 310 a b c d e f g h i j k m n; 315 statsKey statsName; 317 isOrder; 320 a b c d e f g h i j k m n;
321 count index queueId topic; 325 a b c d e f g h i j k m n; 326 bornHost bornTimestamp defaultTopic
defaultTopicQueueNums flag producerGroup properties queueId reconsumeTimes storeHost storeTimestamp sysFlag topic
unitMode; 327 brokerName; 351 lo topic; 370 bname producerGroup recallHandle topic
"""
"""What clients and mqadmin of RocketMQ 5.5.0, and its broker, were seen to send: the names of the fields of each request."""
NOT_OF_THE_REQUEST = {"ReqT", "_UNIQUE_KEY_QUERY", "lo", "bname", "n"}
NOT_SERVED = {370, 1007}


def test_a_send_with_letters_and_one_with_names() -> None:
    short = encode_fields(RequestCode.SEND_MESSAGE_V2, SEND)
    assert short == {
        "a": "pg",
        "b": "T1",
        "c": "TBW102",
        "d": "4",
        "e": "-1",
        "f": "0",
        "g": "1700000000000",
        "h": "0",
        "i": "KEYS\x01k\x02",
        "k": "false",
    }
    assert parse_fields(RequestCode.SEND_MESSAGE_V2, short) == SEND
    long = encode_fields(RequestCode.SEND_MESSAGE, SEND)
    assert long.keys() == SEND.keys()
    assert parse_fields(RequestCode.SEND_MESSAGE, long) == SEND


def sample(kind: FieldType) -> Value:
    samples: dict[FieldType, Value] = {
        FieldType.TEXT: "text",
        FieldType.INT: -(1 << 31),
        FieldType.LONG: (1 << 63) - 1,
        FieldType.BOOL: True,
    }
    return samples[kind]


@pytest.mark.parametrize("code", REQUEST_FIELDS, ids=lambda code: code.name)
def test_every_request_comes_back(code: RequestCode) -> None:
    every = {spec.name: sample(spec.type) for spec in REQUEST_FIELDS[code]}
    least = {spec.name: sample(spec.type) for spec in REQUEST_FIELDS[code] if spec.required}
    for fields in (every, least):
        assert parse_fields(code, {**encode_fields(code, fields), "ReqT": "0"}) == fields


@pytest.mark.parametrize("code", REQUEST_FIELDS, ids=lambda code: code.name)
def test_each_required_field_is_missed(code: RequestCode) -> None:
    every = {spec.name: sample(spec.type) for spec in REQUEST_FIELDS[code]}
    for spec in REQUEST_FIELDS[code]:
        others = {name: value for name, value in every.items() if name != spec.name}
        if not spec.required:
            assert spec.name not in parse_fields(code, encode_fields(code, others))
            continue
        with pytest.raises(ValueError, match=f"{code.name} needs a field '{spec.name}'"):
            encode_fields(code, others)
        written = encode_fields(code, every)
        short = next(name for name, text in zip(written, every, strict=True) if text == spec.name)
        del written[short]
        with pytest.raises(RequestError) as caught:
            parse_fields(code, written)
        assert (caught.value.request, caught.value.field) == (code.name, spec.name)
        assert caught.value.found == "missing"


@pytest.mark.parametrize("text", ["0", "+5", "-5", "007", "2147483647", "-2147483648"])
def test_numbers_that_java_reads(text: str) -> None:
    fields = parse_fields(RequestCode.GET_MIN_OFFSET, {"topic": "T", "queueId": text})
    assert fields.number("queueId") == int(text)


@pytest.mark.parametrize(
    "text",
    ["", " 5", "5 ", "0x5", "1_0", "5.0", "\u0665", "2147483648", "-2147483649", "9" * 5000],
)
def test_texts_that_are_no_int(text: str) -> None:
    with pytest.raises(RequestError, match=r"GET_MIN_OFFSET: queueId is .*, expected an int") as it:
        parse_fields(RequestCode.GET_MIN_OFFSET, {"topic": "T", "queueId": text})
    assert len(str(it.value)) < 400


@pytest.mark.parametrize(
    ("text", "value"), [("true", True), ("TRUE", True), ("false", False), ("1", False), ("", False)]
)
def test_true_is_true_and_everything_else_is_false(text: str, value: bool) -> None:
    fields = parse_fields(RequestCode.GET_BROKER_CONSUME_STATS, {"isOrder": text})
    assert fields.flag("isOrder") is value


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"topic": "T", "queueId": "3"}, "GET_MIN_OFFSET: queueId is '3', expected INT"),
        ({"topic": "T", "queueId": True}, "GET_MIN_OFFSET: queueId is True, expected INT"),
        ({"topic": "T", "queueId": 1 << 31}, "queueId is 2147483648, expected INT"),
        ({"topic": 1, "queueId": 3}, "GET_MIN_OFFSET: topic is 1, expected TEXT"),
        ({"topic": "T", "queueId": 3, "x": 1}, "GET_MIN_OFFSET has no field 'x'"),
    ],
)
def test_what_a_caller_cannot_write(fields: dict[str, Value], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        encode_fields(RequestCode.GET_MIN_OFFSET, fields)


def test_fields_that_did_not_come_have_defaults() -> None:
    fields = RequestFields()
    assert (fields.text("a"), fields.number("b"), fields.flag("c")) == ("", 0, False)
    assert (fields.text("a", "x"), fields.number("b", 7), fields.flag("c", default=True)) == (
        "x",
        7,
        True,
    )


def test_letters_are_for_version_two_alone() -> None:
    assert {code.value for code in SEND_V2} == {310, 320, 325}
    with pytest.raises(RequestError, match="producerGroup is missing"):
        parse_fields(RequestCode.SEND_MESSAGE, encode_fields(RequestCode.SEND_MESSAGE_V2, SEND))


@pytest.mark.parametrize("request_seen", CAPTURED.split(";"))
def test_what_clients_were_seen_to_send_is_known_and_enough(request_seen: str) -> None:
    number, *names = request_seen.split()
    code = RequestCode(int(number))
    if code in NOT_SERVED:
        assert code not in REQUEST_FIELDS
        return
    short = {name: letter for letter, name in SEND_V2_NAMES.items()} if code in SEND_V2 else {}
    types = {short.get(spec.name, spec.name): spec for spec in REQUEST_FIELDS[code]}
    sent = {name: str(sample(types[name].type)).lower() for name in names if name in types}
    assert set(names) - set(sent) <= NOT_OF_THE_REQUEST
    assert len(parse_fields(code, sent)) == len(sent)
