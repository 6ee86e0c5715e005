"""Messages on the wire: ids, batches, sends and pulls, held against what Java writes."""

from __future__ import annotations

import re
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqcore.client.messages.message_queue import MessageQueue
from rmqcore.client.messages.pull_message import PullStatus, pull_request, pull_result
from rmqcore.client.messages.send_message import one_batch, one_message
from rmqcore.client.messages.send_result import SendStatus
from rmqcore.client.messages.subscriptions import is_wanted, subscription
from rmqcore.client.messages.unique_ids import UniqueIds
from rmqcore.client.messages.validators import check_group, check_topic, check_topic_for_send
from rmqcore.codec import decode_batch, decode_properties, encode, encode_batch, java_hash
from rmqcore.codec.message import Message
from rmqcore.errors import CompressionError, RequestError
from rmqcore.remoting.allocation import allocate_averagely
from rmqcore.remoting.codes import RequestCode
from rmqcore.remoting.command import RemotingCommand
from rmqcore.remoting.request_fields import parse_fields
from rmqcore.vocabulary import sysflag

NOW_MS = 1_700_000_000_000
QUEUE = MessageQueue("T", "b-a", 2)
ALL = subscription("T", "*", NOW_MS)


def ids(now_ms: int = NOW_MS) -> UniqueIds:
    return UniqueIds("192.0.2.1", 0x1234, 0xA1B2C3D4, lambda: now_ms)


def ready(message: Message, **settings: int) -> object:
    return one_message(
        message, ids(), **{"max_message_size": 1000, "compress_over": 100, **settings}
    )


# ---- ids --------------------------------------------------------------------------------------------


def test_an_id_is_made_as_java_makes_it() -> None:
    """Address, process, class loader, milliseconds of the month, counter."""
    maker = ids()
    first, second = maker.next(), maker.next()
    assert re.fullmatch("[0-9A-F]{32}", first)
    assert first.startswith("C0000201" + "1234" + "A1B2C3D4")
    assert (int(first[28:], 16), int(second[28:], 16)) == (1, 2)
    assert 0 < int(first[20:28], 16) < 31 * 86_400_000
    assert len(UniqueIds("2001:db8::1", 1, 1).next()) == 56


def test_ids_of_a_new_month_begin_anew_and_those_of_a_clock_set_back_do_not() -> None:
    now = NOW_MS
    maker = UniqueIds("192.0.2.1", 1, 1, lambda: now)
    start = NOW_MS - int(maker.next()[20:28], 16)
    now = start - 1_000
    assert int(maker.next()[20:28], 16) == 0  # the month before has just ended: set back a little
    now = start + 40 * 86_400_000
    assert int(maker.next()[20:28], 16) < 13 * 86_400_000


def test_no_two_of_many_ids_are_the_same() -> None:
    maker = ids()
    assert len({maker.next() for _ in range(65_536)}) == 65_536


# ---- names ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["", " ", "a b", "a/b", "..", "\u00e9", "a\n", "x" * 128])
def test_what_is_no_name_of_a_topic_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="topic"):
        check_topic(name)


def test_names_that_are_good() -> None:
    for name in ("T", "%RETRY%g", "a|b", "x" * 127):
        check_topic(name)
    check_group("x" * 120)
    with pytest.raises(ValueError, match="121 characters"):
        check_group("x" * 121)
    with pytest.raises(ValueError, match="only be written by brokers"):
        check_topic_for_send("SCHEDULE_TOPIC_XXXX")


# ---- sends ------------------------------------------------------------------------------------------


def test_a_message_becomes_a_request_with_the_fields_of_java() -> None:
    message = Message("T", b"body", tags="A", keys=("k1", "k2"), properties={"x": "1"})
    outgoing = one_message(message, ids(), max_message_size=100, compress_over=100)
    request = outgoing.request(QUEUE, group="g", queue_nums=4, now_ms=NOW_MS)
    assert (request.code, request.body) == (310, b"body")
    fields = parse_fields(RequestCode.SEND_MESSAGE_V2, request.ext_fields)
    properties = decode_properties(fields.text("properties").encode())
    assert properties == {
        "TAGS": "A",
        "KEYS": "k1 k2",
        "x": "1",
        "WAIT": "true",
        "UNIQ_KEY": outgoing.msg_id,
    }
    del fields["properties"]
    assert fields == {
        "producerGroup": "g",
        "topic": "T",
        "defaultTopic": "TBW102",
        "defaultTopicQueueNums": 4,
        "queueId": 2,
        "sysFlag": 0,
        "bornTimestamp": NOW_MS,
        "flag": 0,
        "reconsumeTimes": 0,
        "unitMode": False,
        "batch": False,
        "bname": "b-a",
    }


def test_a_long_body_goes_compressed() -> None:
    outgoing = one_message(Message("T", b"x" * 100), ids(), max_message_size=100, compress_over=100)
    assert zlib.decompress(outgoing.body) == b"x" * 100
    assert outgoing.sys_flag == 1 | 0x300


def test_an_id_that_the_message_has_stays() -> None:
    message = Message("T", b"b", properties={"UNIQ_KEY": "mine"})
    outgoing = one_message(message, ids(), max_message_size=100, compress_over=100)
    assert outgoing.msg_id == "mine"
    assert outgoing.properties.count("UNIQ_KEY") == 1


@pytest.mark.parametrize(
    ("message", "why"),
    [
        (Message("T", b""), "0 bytes"),
        (Message("T", b"x" * 1001), "1001 bytes"),
        (Message("SELF_TEST_TOPIC", b"x"), "only be written by brokers"),
        (Message("T", b"x", properties={"TRAN_MSG": "true"}), "transactions"),
        (Message("T", b"x", properties={"a": "\x02"}), "separator"),
        (Message("a/b", b"x"), "not a valid name"),
    ],
)
def test_what_no_broker_takes_is_refused_before_it_is_sent(message: Message, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        ready(message)


def test_a_batch_is_one_request() -> None:
    messages = [Message("T", body, tags="A") for body in (b"one", b"two")]
    outgoing = one_batch(messages, ids(), max_message_size=1000)
    request = outgoing.request(QUEUE, group="g", queue_nums=4, now_ms=NOW_MS)
    assert (request.code, request.ext_fields["m"]) == (320, "true")
    found = decode_batch(request.body)
    assert [part.body for part in found] == [b"one", b"two"]
    keys = [part.properties["UNIQ_KEY"] for part in found]
    assert outgoing.msg_id == ",".join(keys)
    own = decode_properties(request.ext_fields["i"].encode())
    assert own["UNIQ_KEY"] not in keys
    assert own["WAIT"] == "true"


@pytest.mark.parametrize(
    ("messages", "why"),
    [
        ([], "without messages"),
        ([Message("T", b"x", properties={"DELAY": "1"})], "cannot be delayed"),
        ([Message("%RETRY%g", b"x")], "retry"),
        ([Message("T", b"x" * 300)] * 3, "fewer at once"),
        ([Message("T", b"")], "0 bytes"),
        ([Message("T", b"x", properties={"a": "x" * 33_000})], "32767"),
    ],
)
def test_what_no_batch_may_hold_is_refused(messages: list[Message], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        one_batch(messages, ids(), max_message_size=1000 if "fewer" in why else 100_000)


@pytest.mark.parametrize(
    ("code", "status"),
    [
        (0, SendStatus.SEND_OK),
        (10, SendStatus.FLUSH_DISK_TIMEOUT),
        (11, SendStatus.SLAVE_NOT_AVAILABLE),
        (12, SendStatus.FLUSH_SLAVE_TIMEOUT),
    ],
)
def test_the_answers_that_mean_stored(code: int, status: SendStatus) -> None:
    outgoing = one_message(Message("T", b"b"), ids(), max_message_size=9, compress_over=9)
    fields = {"msgId": "ID", "queueId": "3", "queueOffset": "7"}
    result = outgoing.result(QUEUE, RemotingCommand(code, ext_fields=fields))
    assert (result.status, result.status.name, result.queue_id) == (status, status, 3)
    assert (result.msg_id, result.queue_offset, result.offset_msg_id) == (outgoing.msg_id, 7, "ID")
    assert result.queue == MessageQueue("T", "b-a", 3)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("msgId", None),
        *((name, text) for name in ("queueId", "queueOffset") for text in (None, "x", "9" * 30)),
        ("queueOffset", str(1 << 63)),
    ],
)
def test_an_answer_that_lacks_what_it_must_say(name: str, text: str | None) -> None:
    outgoing = one_message(Message("T", b"b"), ids(), max_message_size=9, compress_over=9)
    fields = {"msgId": "ID", "queueId": "3", "queueOffset": "7"}
    if text is None:
        del fields[name]
    else:
        fields[name] = text
    with pytest.raises(RequestError, match=name):
        outgoing.result(QUEUE, RemotingCommand(0, ext_fields=fields))


# ---- subscriptions ----------------------------------------------------------------------------------


def test_tags_are_read_as_java_reads_them() -> None:
    wanted = subscription("T", " TagA || TagB||", NOW_MS)
    assert wanted.tags == {"TagA", "TagB"}
    assert wanted.codes == {java_hash("TagA"), java_hash("TagB")}
    assert wanted.sub_string == " TagA || TagB||"
    for text in ("", "*"):
        assert subscription("T", text, NOW_MS).sub_string == "*"
        assert not subscription("T", text, NOW_MS).tags
    with pytest.raises(ValueError, match="do not contain a tag"):
        subscription("T", "|| ||", NOW_MS)


def test_tags_of_one_hash_are_told_apart() -> None:
    assert java_hash("Aa") == java_hash("BB")
    wanted = subscription("T", "Aa", NOW_MS)
    assert is_wanted(wanted, "Aa")
    assert not is_wanted(wanted, "BB")
    assert not is_wanted(wanted, None)
    assert is_wanted(ALL, None)


# ---- pulls ------------------------------------------------------------------------------------------


def record(body: bytes, queue_offset: int, *, tags: str | None = None, sys_flag: int = 0) -> bytes:
    message = Message("T", body, 2, tags=tags, sys_flag=sys_flag, store_host="192.0.2.9:10911")
    return encode(message, phy_offset=500, queue_offset=queue_offset, store_timestamp_ms=NOW_MS)


def pulled(body: bytes, code: int = 0, **fields: str) -> RemotingCommand:
    found = {
        "nextBeginOffset": "9",
        "minOffset": "0",
        "maxOffset": "20",
        "suggestWhichBrokerId": "1",
        **fields,
    }
    return RemotingCommand(code, ext_fields=found, body=body)


def test_a_pull_has_the_fields_of_javas_lite_pull() -> None:
    request = pull_request(QUEUE, ALL, group="g", queue_offset=5, max_messages=32)
    assert request.code == 361
    assert parse_fields(RequestCode.LITE_PULL_MESSAGE, request.ext_fields) == {
        "consumerGroup": "g",
        "topic": "T",
        "queueId": 2,
        "queueOffset": 5,
        "maxMsgNums": 32,
        "sysFlag": 22,
        "commitOffset": 0,
        "suspendTimeoutMillis": 20_000,
        "subscription": "*",
        "subVersion": 0,
        "expressionType": "TAG",
        "maxMsgBytes": (1 << 31) - 1,
    }


@pytest.mark.parametrize(
    ("code", "status"),
    [
        (19, PullStatus.NO_NEW_MSG),
        (20, PullStatus.NO_MATCHED_MSG),
        (21, PullStatus.OFFSET_ILLEGAL),
    ],
)
def test_pulls_that_bring_nothing(code: int, status: PullStatus) -> None:
    result = pull_result(QUEUE, ALL, pulled(record(b"x", 5), code))
    assert (result.status, result.messages, result.next_begin_offset) == (status, (), 9)
    assert (result.min_offset, result.max_offset, result.suggested_broker_id) == (0, 20, 1)


def test_messages_of_a_pull_with_their_tags_looked_at_again() -> None:
    body = record(b"one", 5, tags="Aa") + record(b"two", 6, tags="BB") + record(b"three", 7)
    wanted = subscription("T", "Aa", NOW_MS)
    assert [m.body for m in pull_result(QUEUE, ALL, pulled(body)).messages] == [
        b"one",
        b"two",
        b"three",
    ]
    (message,) = pull_result(QUEUE, wanted, pulled(body, offsetDelta="100")).messages
    assert (message.body, message.queue_offset, message.tags) == (b"one", 105, "Aa")
    assert (message.topic, message.queue_id, message.broker_name) == ("T", 2, "b-a")
    assert message.msg_id == message.offset_msg_id == "C0000209" + "00002A9F" + f"{500:016X}"
    assert "queue_offset=105" in repr(message)


def test_a_compressed_body_is_plain_when_asked_for() -> None:
    flags = sysflag.COMPRESSED | sysflag.COMPRESSION_ZLIB
    body = record(zlib.compress(b"plain"), 5, sys_flag=flags)
    (message,) = pull_result(QUEUE, ALL, pulled(body)).messages
    assert (message.body, message.sys_flag) == (b"plain", 0)
    (broken,) = pull_result(QUEUE, ALL, pulled(record(b"no zlib", 5, sys_flag=flags))).messages
    with pytest.raises(CompressionError):
        _ = broken.body


@pytest.mark.parametrize("compressed", [False, True])
def test_a_batch_that_was_stored_as_one_record_is_taken_apart(compressed: bool) -> None:
    parts = [
        Message("any", b"one", flag=7, properties={"TAGS": "A", "UNIQ_KEY": "U1"}),
        Message("any", b"two", flag=8, properties={"TAGS": "B", "UNIQ_KEY": "U2"}),
    ]
    inside = encode_batch(parts)
    flags = sysflag.INNER_BATCH | sysflag.NEED_UNWRAP
    if compressed:
        inside = zlib.compress(inside)
        flags |= sysflag.COMPRESSED | sysflag.COMPRESSION_ZLIB
    body = record(inside, 5, sys_flag=flags) + record(b"three", 7, tags="B")
    found = pull_result(QUEUE, ALL, pulled(body)).messages
    assert [(m.body, m.queue_offset, m.flag) for m in found] == [
        (b"one", 5, 7),
        (b"two", 6, 8),
        (b"three", 7, 0),
    ]
    assert [m.msg_id for m in found][:2] == ["U1", "U2"]
    assert found[1].store_host == "192.0.2.9:10911"
    assert found[1].sys_flag == 0
    only_b = pull_result(QUEUE, subscription("T", "B", NOW_MS), pulled(body)).messages
    assert [m.body for m in only_b] == [b"two", b"three"]


def test_what_is_behind_a_broken_record_is_left_out_and_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    second = bytearray(record(b"two", 6))
    second[second.index(b"two")] ^= 0xFF
    body = record(b"one", 5) + bytes(second) + record(b"three", 7)
    found = pull_result(QUEUE, ALL, pulled(body)).messages
    assert [m.body for m in found] == [b"one"]
    assert "bytes of an answer are left out" in caplog.text
    caplog.clear()
    wrapped = record(b"no batch", 5, sys_flag=sysflag.INNER_BATCH | sysflag.NEED_UNWRAP)
    assert pull_result(QUEUE, ALL, pulled(wrapped)).messages == ()
    assert "left out: <batch>@0: TOTALSIZE" in caplog.text


@given(st.binary(max_size=300))
def test_a_pull_of_anything_never_raises_for_its_body(body: bytes) -> None:
    result = pull_result(QUEUE, ALL, pulled(record(b"one", 5) + body))
    assert result.messages[0].body == b"one"


def test_a_pull_without_its_offsets_is_no_answer() -> None:
    for name in ("nextBeginOffset", "minOffset", "maxOffset", "suggestWhichBrokerId"):
        response = pulled(b"")
        del response.ext_fields[name]
        with pytest.raises(RequestError, match=name):
            pull_result(QUEUE, ALL, response)


# ---- which queues -----------------------------------------------------------------------------------


def as_java(
    client_id: str, queues: list[MessageQueue], client_ids: list[str]
) -> list[MessageQueue]:
    """AllocateMessageQueueAveragely, line by line."""
    if client_id not in client_ids:
        return []
    index, size, members = client_ids.index(client_id), len(queues), len(client_ids)
    mod = size % members
    average = 1 if size <= members else size // members + (1 if mod > 0 and index < mod else 0)
    start = index * average if mod > 0 and index < mod else index * average + mod
    return [queues[start + step] for step in range(min(average, size - start))]


@given(st.integers(0, 40), st.integers(1, 12))
def test_queues_are_shared_as_java_shares_them(queue_count: int, member_count: int) -> None:
    queues = [replace_id(number) for number in range(queue_count)]
    members = [f"c{number:02}" for number in range(member_count)]
    shares = [allocate_averagely(one, queues, members) for one in members]
    assert shares == [as_java(one, queues, members) for one in members]
    assert sorted(queue for share in shares for queue in share) == queues
    assert allocate_averagely("stranger", queues, members) == []


def replace_id(number: int) -> MessageQueue:
    return QUEUE._replace(queue_id=number)
