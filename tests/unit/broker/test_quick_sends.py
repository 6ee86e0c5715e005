"""Quick sends: what the kernel leaves to Python, what it is told, and when its answers are given."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.sends import Sender, image, send

from rmqcore._native.broker.send_kernel import BROKEN, MORE, PYTHON, Fed, SendKernel
from rmqcore.broker.quick_sends import QuickSends, answer_parts
from rmqcore.broker.settings import BrokerSettings
from rmqcore.broker.thens import nothing
from rmqcore.codec.message import pack_host
from rmqcore.remoting.bodies.topic_configs import TopicConfig
from rmqcore.remoting.codes import RequestCode, ResponseCode
from rmqcore.remoting.command import RemotingCommand
from rmqcore.remoting.frame import FrameDecoder
from rmqcore.remoting.header import decode_command, encode_command
from rmqcore.vocabulary.status import PutMessageStatus

HOST = pack_host("10.0.0.9:40000")
TOPIC = TopicConfig("orders", 4, 4)
PAIR: dict[str, Any] = {
    "broker_role": "SYNC_MASTER",
    "in_sync_replicas": 2,
    "slave_timeout": 3_600_000,  # a wait that does not end by itself
}


class Quick:
    """A broker with the kernel in front of it, and one topic."""

    def __init__(self, sender: Sender, *topics: TopicConfig) -> None:
        self.sender = sender
        self.broker = sender.broker
        self.sends = QuickSends(sender.broker)
        self.broker.topics.update_all(list(topics or (TOPIC,)))

    def feed(self, *requests: RemotingCommand) -> Fed:
        data = b"".join(map(encode_command, requests))
        fed = self.sends.feed(data, 0, len(data), HOST)
        assert fed is not None
        return fed

    def takes(self, request: RemotingCommand) -> bool:
        """Whether a request is taken; it is left whole where it is not."""
        fed = self.feed(request)
        assert (fed.next == MORE) == (fed.taken > 0)
        return fed.next == MORE


Make = Callable[..., Quick]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    made: list[Sender] = []

    def quick(*topics: TopicConfig, **settings: Any) -> Quick:
        sender = Sender(tmp_path / str(len(made)), **settings)
        made.append(sender)
        return Quick(sender, *topics)

    yield quick
    for sender in made:
        sender.close()


def responses(answers: bytes) -> list[RemotingCommand]:
    decoder = FrameDecoder(max_header_size=1 << 24)
    decoder.feed(answers)
    found = []
    while (frame := decoder.next_frame()) is not None:
        found.append(decode_command(frame))
    assert decoder.pending == 0
    return found


def batch(*messages: bytes, **changed: Any) -> RemotingCommand:
    body = image((message, {"TAGS": "a"}) for message in messages)
    return send(body=body, code=RequestCode.SEND_BATCH_MESSAGE, batch=True, **changed)


def told(properties: str, request: RemotingCommand | None = None) -> RemotingCommand:
    """A send with these properties and no others."""
    request = request or send()
    request.ext_fields["i"] = properties
    return request


# ---- what is taken ---------------------------------------------------------------------------------------


def test_sends_are_stored_and_answered(make: Make) -> None:
    quick = make()
    fed = quick.feed(send(body=b"one"), send(body=b"two", queueId=3), send(body=b"three"))
    told = [(answer.code, answer.opaque, answer.ext_fields) for answer in responses(fed.answers)]
    assert [fields["queueId"] for _, _, fields in told] == ["0", "3", "0"]
    assert [fields["queueOffset"] for _, _, fields in told] == ["0", "0", "1"]
    assert all(code == ResponseCode.SUCCESS and opaque == 5 for code, opaque, _ in told)
    assert fed.answer_count == 3
    first, third = quick.sender.messages("orders", 0)
    assert (first.body, third.body) == (b"one", b"three")
    assert first.msg_id == told[0][2]["msgId"]
    assert first.born_host == "10.0.0.9:40000"
    assert fed.end_phy_offset == quick.sender.store.max_phy_offset


def test_a_one_way_send_is_stored_and_not_answered(make: Make) -> None:
    quick = make()
    fed = quick.feed(send(oneway=True), send())
    assert fed.answer_count == len(responses(fed.answers)) == 1
    assert len(quick.sender.messages("orders")) == 2


def test_a_batch_is_answered_once_with_all_ids(make: Make) -> None:
    quick = make()
    fed = quick.feed(send(), batch(b"a", b"b", b"c"), send())
    _, of_batch, _ = responses(fed.answers)
    messages = quick.sender.messages("orders")
    assert [message.body for message in messages] == [b"body", b"a", b"b", b"c", b"body"]
    assert of_batch.ext_fields["msgId"] == ",".join(message.msg_id for message in messages[1:4])
    assert of_batch.ext_fields["queueOffset"] == "1"
    assert of_batch.ext_fields["transactionId"] == "KEY"


def test_a_batch_without_a_unique_key_is_told_of_none(make: Make) -> None:
    quick = make()
    fed = quick.feed(told("", batch(b"a")))
    assert "transactionId" not in responses(fed.answers)[0].ext_fields


def test_a_host_of_ipv6(make: Make) -> None:
    quick = make()
    data = encode_command(send())
    fed = quick.sends.feed(data, 0, len(data), pack_host("[::1]:9"))
    assert fed is not None and fed.taken == len(data)
    assert quick.sender.messages("orders")[0].born_host == "[::1]:9"


def test_more_sends_than_a_group_has_and_more_than_a_file_has(make: Make) -> None:
    quick = make(store={"mapped_file_size_commit_log": 1 << 18})
    count = 5000
    fed = quick.feed(*[send()] * count)
    assert fed.answer_count == count and fed.next == MORE
    assert fed.end_phy_offset > 3 << 18
    places = [int(answer.ext_fields["queueOffset"]) for answer in responses(fed.answers)]
    assert places == list(range(count))
    assert len(quick.sender.messages("orders")) == count


def test_the_crc_of_properties(make: Make) -> None:
    quick = make(store={"enabled_append_prop_crc": True})
    assert quick.takes(send())
    assert quick.sender.messages("orders")[0].properties["CLUSTER"] == "DefaultCluster"


# ---- what is left ----------------------------------------------------------------------------------------


SPECIAL = "DELAY TRAN_MSG TIMER_DELIVER_MS INNER_NUM CLUSTER MSG_REGION TRACE_ON POP_CK __CRC32# UNIQ_KEY".split()
LEFT = {
    "an unknown topic": send("unknown"),
    "any queue": send(queueId=-1),
    "a queue too many": send(queueId=4),
    "no body": send(body=b""),
    "a transaction": send(sysFlag=4),
    "a flag of hosts": send(sysFlag=1 << 4),
    "a batch by its field": send(batch=True),
    "a batch by its code": send(code=RequestCode.SEND_BATCH_MESSAGE),
    "long names": send(code=RequestCode.SEND_MESSAGE),
    "an empty batch": batch(),
    "no properties": told(""),
    "an empty key": told("UNIQ_KEY\x01\x02"),
    "a key that JSON escapes": told('UNIQ_KEY\x01"\x02'),
    "a large body": send(body=bytes((4 << 20) + 1)),
    "long properties": told(f"UNIQ_KEY\x01K\x02long\x01{'x' * 32_700}\x02"),
    "another request": RemotingCommand(
        RequestCode.GET_MAX_OFFSET, ext_fields={"topic": "orders", "queueId": "0"}
    ),
    "a response": RemotingCommand(ResponseCode.SUCCESS, flag=1),
    **{name: told(f"UNIQ_KEY\x01K\x02{name}\x01x\x02") for name in SPECIAL},
}


@pytest.mark.parametrize("request_", LEFT.values(), ids=LEFT.keys())
def test_what_is_not_plain_is_left_where_it_lies(make: Make, request_: RemotingCommand) -> None:
    quick = make()
    before = encode_command(send())
    data = before + encode_command(request_) + before
    fed = quick.sends.feed(data, 0, len(data), HOST)
    assert fed is not None
    assert (fed.taken, fed.next, fed.answer_count) == (len(before), PYTHON, 1)
    assert len(quick.sender.messages("orders")) == 1


@pytest.mark.parametrize("cut", [1, 3, 4, 7, 8, 100, -1])
def test_less_than_a_frame_is_waited_for(make: Make, cut: int) -> None:
    quick = make()
    frame = encode_command(send())
    data = b"front" + frame + frame[:cut]
    fed = quick.sends.feed(data, 5, len(data), HOST)
    assert fed is not None
    assert (fed.taken, fed.next) == (5 + len(frame), MORE)


@pytest.mark.parametrize(
    "words",
    [
        b"\0\0\0\3",
        b"\xff\xff\xff\xff",
        b"\1\0\0\0",
        b"\0\0\0\x10\2\0\0\4",
        b"\0\0\0\x10\0\0\0\x20",
        b"\0\2\0\0\0\1\0\1",
    ],
)
def test_what_is_no_frame(make: Make, words: bytes) -> None:
    quick = make()
    frame = encode_command(send())
    data = frame + words
    fed = quick.sends.feed(data, 0, len(data), HOST)
    assert fed is not None
    assert (fed.taken, fed.next, fed.answer_count) == (len(frame), BROKEN, 1)


@pytest.mark.parametrize(
    "topic",
    [
        TopicConfig("orders", 4, 4, topic_filter_type="MULTI_TAG"),
        TopicConfig("orders", 4, 4, attributes={"+cleanup.policy": "COMPACTION"}),
        TopicConfig("orders", 4, 4, attributes={"+queue.type": "BatchCQ"}),
    ],
    ids=["tags", "compaction", "batch queue"],
)
def test_topics_whose_messages_are_not_plain(make: Make, topic: TopicConfig) -> None:
    assert not make(topic).takes(send())


@pytest.mark.parametrize("topic", ["%RETRY%group", "%DLQ%group", "SELF_TEST_TOPIC"])
def test_names_whose_messages_are_not_plain(make: Make, topic: str) -> None:
    assert not make(TopicConfig(topic, 4, 4)).takes(send(topic))


def test_a_topic_of_more_readable_queues_takes_sends_to_them(make: Make) -> None:
    quick = make(TopicConfig("orders", 8, 4))
    assert quick.takes(send(queueId=7))
    assert not quick.takes(send(queueId=8))


def test_a_store_where_a_put_is_more_than_an_append(make: Make) -> None:
    for store in (
        {"broker_role": "SLAVE"},
        {"enable_lmq": True, "enable_multi_dispatch": True},
    ):
        quick = make(store=store)
        data = encode_command(send())
        assert quick.sends.feed(data, 0, len(data), HOST) is None


def test_a_full_disk(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    quick = make()
    monkeypatch.setattr(quick.broker.disk_guard, "is_full", lambda: True)
    data = encode_command(send())
    assert quick.sends.feed(data, 0, len(data), HOST) is None


def test_a_store_that_is_paused_or_has_failed(make: Make) -> None:
    quick = make()
    appender = quick.sender.store.plain_appender
    assert appender is not None
    appender.pause(True)
    assert not quick.takes(send())
    appender.pause(False)
    assert quick.takes(send())
    quick.sender.store.fail(OSError(5, "a sync"))
    assert not quick.takes(send())


def test_no_room_for_the_next_file(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sends that had room are answered; the one that had none is left, and with it all behind it."""
    quick = make(store={"mapped_file_size_commit_log": 1 << 16})
    log = quick.sender.store._log
    monkeypatch.setattr(log, "_make_room", lambda _: False)
    monkeypatch.setattr(log, "prepare_space", lambda: False)
    requests = [send(body=bytes(5000))] * 40
    frame = len(encode_command(requests[0]))
    fed = quick.feed(*requests)
    assert 0 <= fed.answer_count < 40
    assert (fed.taken, fed.next) == (fed.answer_count * frame, PYTHON)
    assert len(quick.sender.messages("orders")) == fed.answer_count


def test_a_batch_that_fits_no_file(make: Make) -> None:
    quick = make(store={"mapped_file_size_commit_log": 1 << 16})
    assert not quick.takes(batch(*[bytes(1000)] * 70))
    assert quick.sender.messages("orders") == []


# ---- what it is told -------------------------------------------------------------------------------------


def test_topics_come_change_and_go(make: Make) -> None:
    quick = make()
    assert quick.takes(send(queueId=3))
    topics = quick.broker.topics
    topics.update(TopicConfig("orders", 2, 2))
    assert not quick.takes(send(queueId=3))
    topics.update(TopicConfig("more", 1, 1))
    assert quick.takes(send("more"))
    topics.begin_delete("orders")
    topics.end_delete("orders", nothing)
    assert not quick.takes(send(queueId=0))
    topics.create_for_send("made", "TBW102", 4, 0, lambda _: None)
    quick.sender.loop.run_until(lambda: topics.get("made") is not None)
    assert quick.takes(send("made"))


def test_settings_change(make: Make) -> None:
    quick = make(TopicConfig("orders", 4, 4, order=True))
    assert quick.takes(send())
    quick.broker.change_settings(BrokerSettings(region_id='R"1', broker_permission=4))
    assert not quick.takes(send())
    quick.broker.change_settings(BrokerSettings(region_id='R"1', trace_on=False))
    fed = quick.feed(send())
    fields = responses(fed.answers)[0].ext_fields
    assert (fields["MSG_REGION"], fields["TRACE_ON"]) == ('R"1', "false")
    assert quick.sender.messages("orders")[-1].properties["MSG_REGION"] == 'R"1'


def test_messages_are_counted(make: Make) -> None:
    quick = make(TOPIC, TopicConfig("more", 1, 1))
    quick.feed(send(), send(), batch(b"a", b"b"), send("more"))
    size = quick.sender.store.max_phy_offset
    quick.sends.count()
    quick.sends.count()
    stats = quick.broker.stats
    assert stats.put == 5
    found = {name: stats.item("TOPIC_PUT_NUMS", name) for name in ("orders", "more")}
    assert {name: item and item.value for name, item in found.items()} == {"orders": 4, "more": 1}
    sizes = [stats.item("TOPIC_PUT_SIZE", name) for name in ("orders", "more")]
    assert sum(item.value for item in sizes if item is not None) == size


def test_totals_have_what_was_sent_a_moment_ago(make: Make) -> None:
    """They were up to a second old: `mqadmin clusterList -m` told fewer messages than were acknowledged."""
    quick = make()
    quick.feed(send(), send())
    answer = quick.sender.ask(RemotingCommand(RequestCode.GET_BROKER_RUNTIME_INFO))
    assert json.loads(answer.body)["table"]["msgPutTotalTodayNow"] == "2"


def test_what_a_deleted_topic_got_is_counted(make: Make) -> None:
    quick = make()
    quick.feed(send())
    quick.broker.topics.begin_delete("orders")
    quick.broker.topics.end_delete("orders", nothing)
    assert quick.broker.stats.put == 1


# ---- when it is answered ---------------------------------------------------------------------------------


def answers_of(quick: Quick, fed: Fed) -> list[RemotingCommand]:
    got: list[bytes] = []
    quick.sends.when_safe(fed, got.append)
    quick.sender.loop.run_until(lambda: bool(got))
    return responses(got[0])


def test_without_sync_flush_the_answers_are_given_at_once(make: Make) -> None:
    quick = make()
    got: list[bytes] = []
    fed = quick.feed(send())
    quick.sends.when_safe(fed, got.append)
    assert got == [fed.answers]


def test_with_sync_flush_the_answers_wait_for_the_disk(make: Make) -> None:
    quick = make(store={"flush_disk_type": "SYNC_FLUSH"})
    fed = quick.feed(send(), batch(b"a", b"b"))
    assert [answer.code for answer in answers_of(quick, fed)] == [0, 0]
    assert quick.sender.store.flushed_phy_offset >= fed.end_phy_offset


def test_with_sync_flush_a_send_that_does_not_wait_is_left(make: Make) -> None:
    quick = make(store={"flush_disk_type": "SYNC_FLUSH"})
    hurried = told("UNIQ_KEY\x01K\x02WAIT\x01false\x02")
    assert not quick.takes(hurried)
    assert make().takes(hurried)


@pytest.mark.parametrize(
    ("status", "code", "stored"),
    [
        (PutMessageStatus.FLUSH_DISK_TIMEOUT, ResponseCode.FLUSH_DISK_TIMEOUT, True),
        (PutMessageStatus.UNKNOWN_ERROR, ResponseCode.SYSTEM_ERROR, False),
    ],
)
def test_a_disk_that_does_not_answer_well(
    make: Make,
    monkeypatch: pytest.MonkeyPatch,
    status: PutMessageStatus,
    code: int,
    stored: bool,
) -> None:
    quick = make(store={"flush_disk_type": "SYNC_FLUSH"})
    fed = quick.feed(send(), batch(*[b"x"] * 2000))
    monkeypatch.setattr(quick.sender.store, "on_flushed", lambda *words: words[1](status))
    told = answers_of(quick, fed)
    assert [answer.code for answer in told] == [code, code]
    assert all(answer.opaque == 5 for answer in told)
    assert [("msgId" in answer.ext_fields) for answer in told] == [stored, stored]


@pytest.mark.parametrize("store", [{"flush_disk_type": "SYNC_FLUSH"}, PAIR])
def test_a_store_that_has_failed_meanwhile(make: Make, store: dict[str, Any]) -> None:
    quick = make(store=store)
    fed = quick.feed(send())
    quick.sender.store.fail(OSError(5, "a sync"))
    (told,) = answers_of(quick, fed)
    assert told.code == ResponseCode.SERVICE_NOT_AVAILABLE
    assert quick.broker.puts_in_flight == 0


# ---- followers: `store.replicated` stands in for them


def waiting(quick: Quick, fed: Fed) -> list[bytes]:
    """Ask for the answers, and return where they will be."""
    got: list[bytes] = []
    quick.sends.when_safe(fed, got.append)
    quick.sender.loop.run()
    assert (got, quick.broker.puts_in_flight) == ([], fed.answer_count)
    return got


@pytest.mark.parametrize("flush", ["ASYNC_FLUSH", "SYNC_FLUSH"])
def test_the_answers_come_when_followers_hold_the_messages(make: Make, flush: str) -> None:
    quick = make(store={**PAIR, "flush_disk_type": flush})
    fed = quick.feed(send(), batch(b"a", b"b"))
    got = waiting(quick, fed)
    quick.sender.store.replicated(fed.end_phy_offset - 1)
    quick.sender.loop.run()
    assert got == []
    quick.sender.store.replicated(fed.end_phy_offset)
    quick.sender.loop.run_until(lambda: bool(got))
    assert got == [fed.answers]
    assert quick.broker.puts_in_flight == 0
    if flush == "SYNC_FLUSH":
        assert quick.sender.store.flushed_phy_offset >= fed.end_phy_offset


def test_of_sends_that_wait_together_the_held_ones_are_not_late(make: Make) -> None:
    quick = make(store={**PAIR, "slave_timeout": 50})
    fed = quick.feed(send(), send(oneway=True), batch(b"a", b"b"), send())
    ends = [message.phy_offset for message in quick.sender.messages("orders")]
    got = waiting(quick, fed)
    quick.sender.store.replicated(ends[4])  # where the last message begins
    quick.sender.loop.run_until(lambda: bool(got))
    told = responses(got[0])
    assert [answer.code for answer in told] == [0, 0, ResponseCode.FLUSH_SLAVE_TIMEOUT]
    assert all("msgId" in answer.ext_fields for answer in told)


def test_with_followers_a_send_that_does_not_wait_is_left(make: Make) -> None:
    assert not make(store=PAIR).takes(told("UNIQ_KEY\x01K\x02WAIT\x01false\x02"))


def test_a_sync_master_that_waits_for_nobody_answers_at_once(make: Make) -> None:
    quick = make(store={"broker_role": "SYNC_MASTER"})
    assert quick.sends.is_safe(quick.feed(send()))


# ---- the kernel alone ------------------------------------------------------------------------------------


def kernel_of(quick: Quick, **changed: Any) -> SendKernel:
    appender = quick.sender.store.plain_appender
    assert appender is not None
    given: dict[str, Any] = {
        "store_host": HOST,
        "added": b"",
        "answers": answer_parts(BrokerSettings()),
        "waits": False,
    }
    return SendKernel(appender, **{**given, **changed})


@pytest.mark.parametrize("name", ["", "%RETRY%g", "a/b", "..", "T" * 128])
def test_a_topic_that_has_no_plain_message_is_refused(make: Make, name: str) -> None:
    with pytest.raises(ValueError, match="no message to it is plain"):
        kernel_of(make()).set_topic(name, 1)


@pytest.mark.parametrize(
    "changed",
    [
        {"store_host": b"1234"},
        {"added": bytes(40_000)},
        {"answers": ([], [])},
        {"answers": ([(b"", 1), (b"", 1)], [], [])},
        {"answers": ([(b"", 99)], [], [])},
        {"answers": ([(b"", 0)] * 17, [], [])},
    ],
    ids=["host", "properties", "two answers", "twice the id", "an unknown part", "too many parts"],
)
def test_a_kernel_of_wrong_parts_is_refused(make: Make, changed: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"expected|bytes|answer"):
        kernel_of(make(), **changed)


@pytest.mark.parametrize(("begin", "end"), [(-1, 0), (2, 1), (0, 5)])
def test_places_outside_of_the_buffer(make: Make, begin: int, end: int) -> None:
    kernel = kernel_of(make())
    with pytest.raises(ValueError, match="of 4"):
        kernel.feed(bytes(4), begin, end, HOST)
    with pytest.raises(ValueError, match="a host of 3 bytes"):
        kernel.feed(bytes(4), 0, 4, b"abc")
    assert kernel.feed(bytes(4), 0, 3, HOST).next == MORE  # as good as new


def test_a_call_on_top_of_another_one_is_refused(make: Make) -> None:
    """What makes room for the log is Python, and whoever is in there may call the kernel again, whose memory is in use."""
    quick = make()
    errors: list[str] = []
    data = encode_command(send())

    def hook() -> None:
        for call in (
            lambda: kernel.feed(data, 0, len(data), HOST),
            lambda: kernel.set_topic("other", 1),
            lambda: kernel.forget_topic("orders"),
            kernel.take_counts,
        ):
            with pytest.raises(RuntimeError) as raised:
                call()
            errors.append(str(raised.value))

    kernel = kernel_of(quick)
    kernel.set_topic("orders", 1)
    quick.sender.store._log.on_append(hook)
    assert kernel.feed(data, 0, len(data), HOST).taken == len(data)
    assert errors == ["a SendKernel serves one call at a time"] * 4
    assert kernel.take_counts()[0][:3] == ("orders", 1, 1)
