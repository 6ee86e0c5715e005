"""Pulls past the handlers and by them: whatever a connection brings, both give the same bytes and note the same."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from typing import Any

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st
from support.doses import examples
from support.fake_peer import Peer
from support.served_broker import ServedBroker

from rmqcore._native.broker.pull_reader import Pull, read_pull
from rmqcore.broker import requests
from rmqcore.broker.broker import Broker
from rmqcore.broker.handlers.pull import pull_of
from rmqcore.broker.network.connection import Connections
from rmqcore.broker.quick_pulls import QuickPulls
from rmqcore.errors import ProtocolError, RequestError
from rmqcore.remoting.bodies.heartbeat import SubscriptionData
from rmqcore.remoting.bodies.subscription_groups import SubscriptionGroupConfig
from rmqcore.remoting.codes import RequestCode, SerializeType
from rmqcore.remoting.command import RemotingCommand
from rmqcore.remoting.frame import Frame, FrameDecoder, encode_frame
from rmqcore.remoting.header import decode_command, encode_command
from rmqcore.remoting.json_header import encode_json_header
from rmqcore.remoting.request_fields import parse_fields

PULL = {
    "consumerGroup": "g",
    "topic": "t",
    "queueId": "0",
    "queueOffset": "0",
    "maxMsgNums": "32",
    "sysFlag": "6",
    "commitOffset": "0",
    "suspendTimeoutMillis": "15000",
    "subVersion": "0",
}
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
NUMBERS = st.sampled_from(
    ["-1", "1", "2", "7", "11", "12", "13", "99", "+3", "007", "", "1.0", "x", "2147483648", "9" * 18, "9" * 19, "٣"]
)  # fmt: skip
ODD = {
    "consumerGroup": st.sampled_from(["g", "known", "slow", "none", "no such!", "组"]),
    "topic": st.sampled_from(["t", "u", "closed", "NoSuch", "日本"]),
    **dict.fromkeys(
        ("queueId", "queueOffset", "maxMsgNums", "commitOffset", "suspendTimeoutMillis", "subVersion"),
        NUMBERS,
    ),
    "sysFlag": st.integers(0, 15).map(str) | NUMBERS,
    "subscription": st.sampled_from(["*", "", "A", "A || B", "||", "a > 1", "a >", '"\\']) | TEXTS,
    "expressionType": st.sampled_from(["TAG", "SQL92", "", "X"]),
    "maxMsgBytes": NUMBERS,
    "requestSource": NUMBERS,
    "proxyFrowardClientId": TEXTS,
    "liteTopic": TEXTS,
    "bname": st.just("broker-a"),
}  # fmt: skip


@st.composite
def frames(draw: st.DrawFn) -> bytes:
    fields: dict[str, Any] = {**PULL, "queueOffset": str(draw(st.integers(0, 13)))}
    fields["sysFlag"] = draw(st.sampled_from(["6", "4", "2", "7", "5", "3"]))
    fields["commitOffset"] = str(draw(st.integers(-1, 12)))
    for name in draw(st.lists(st.sampled_from(sorted(ODD)), max_size=4)):
        fields[name] = draw(ODD[name])
    if draw(st.integers(0, 9)) == 0:
        del fields[draw(st.sampled_from(sorted(fields)))]
    command = RemotingCommand(
        draw(st.sampled_from([11, 11, 11, 361, 30])),
        opaque=draw(st.integers(-(1 << 31), (1 << 31) - 1)),
        flag=draw(st.sampled_from([0, 0, 0, 0, 2, 4])),
        ext_fields=fields,
        body=draw(st.binary(max_size=3)),
    )
    if draw(st.booleans()):
        command.serialize_type = SerializeType.ROCKETMQ
        return encode_command(command)
    header = encode_json_header(command)
    if draw(st.integers(0, 3)) == 0:
        members = json.loads(header)
        if draw(st.booleans()):
            members["extFields"]["queueId"] = draw(st.sampled_from([0, None, True]))
        names = draw(st.permutations(list(members)))
        header = json.dumps(
            {name: members[name] for name in names}, ensure_ascii=draw(st.booleans())
        ).encode()
    return encode_frame(Frame(SerializeType.JSON, header, command.body))


@st.composite
def streams(draw: st.DrawFn) -> bytes:
    data = b"".join(draw(st.lists(frames(), min_size=1, max_size=6)))
    if draw(st.integers(0, 4)) == 0:
        place = draw(st.integers(0, len(data) - 1))
        data = data[:place] + bytes([draw(st.integers(0, 255))]) + data[place + 1 :]
    return data[: draw(st.integers(1, len(data)))] if draw(st.integers(0, 9)) == 0 else data


class Both:
    """Two brokers that know the same, over stores with the same messages: the first one answers by handlers alone."""

    def __init__(self, brokers: list[ServedBroker]) -> None:
        self.served = brokers
        for served in brokers:
            served.topic("t", topic_sys_flag=1)
            served.topic("u")
            served.topic("closed", perm=2)
            groups = served.broker.groups
            groups.update(SubscriptionGroupConfig("g", group_sys_flag=3))
            groups.update(SubscriptionGroupConfig("none", consume_enable=False))
            groups.update(SubscriptionGroupConfig("slow", which_broker_when_consume_slowly=1))
            served.beat(SubscriptionData("t", "A"), SubscriptionData("u"), group="known")
            served.put("t", *"ABCABCABCABC")
            served.put("u", None, "A", queue_id=1)
            served.loop.run()

    def answers(self, data: bytes, *, quick: bool) -> tuple[bytes, str | None, int, Any]:
        """What a connection is answered, how it ended, how many answers it is owed, and what the broker knows then."""
        broker = self.served[quick].broker
        connections = Connections(
            partial(requests.handle, broker), broker.channel_closed, lambda host: True, 9,
            quick_pulls=QuickPulls(broker) if quick else None,
        )  # fmt: skip
        peer = Peer(partial(requests.handle, broker), connections=connections)
        peer.comes(data)
        owed = peer.connection.unanswered
        peer.connection.connection_lost(None)
        return bytes(peer.transport.written), peer.transport.ended, owed, known(broker)


def known(broker: Broker) -> Any:
    """What pulls change."""
    offsets, stats = broker.offsets, broker.stats
    counts = {
        (name, key): (item.value, item.times)
        for name in ("GROUP_GET_NUMS", "GROUP_GET_SIZE", "BROKER_GET_NUMS")
        for key in stats.keys(name)
        if (item := stats.item(name, key)) is not None
    }
    return offsets.whole()["offsetTable"], offsets._pulled, counts, stats.found, stats.missed


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    with ExitStack() as stack:
        yield Both(
            [
                stack.enter_context(
                    ServedBroker(
                        tmp_path_factory.mktemp(name),
                        settings={"enable_property_filter": True, "slave_read_enable": True},
                        clock=lambda: 1_700_000_000_000,
                    )
                )
                for name in ("handlers", "quick")
            ]
        )


@settings(examples(4), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(streams())
def test_both_ways_answer_the_same(both: Both, data: bytes) -> None:
    expected = both.answers(data, quick=False)
    before = both.served[1].broker.stats.found
    assert both.answers(data, quick=True) == expected
    event(f"{both.served[1].broker.stats.found - before} pulls found something")


@examples(4)
@given(streams())
def test_what_is_read_here_is_what_python_reads(data: bytes) -> None:
    """The first frame: where it is taken, every field is the same; one that is not right is never taken."""
    taken = read_pull(data, 0, len(data))
    decoder = FrameDecoder()
    decoder.feed(data)
    command = None
    try:
        frame = decoder.next_frame()
        command = None if frame is None else decode_command(frame)
        pull = command and pull_of(parse_fields(RequestCode(command.code), command.ext_fields))
    except (ProtocolError, RequestError, ValueError, AssertionError):
        pull = None
    event("taken" if taken else "not taken")
    if taken is None:
        return
    assert pull and command
    assert fields_of(taken) == fields_of(pull)
    assert (taken.opaque, taken.end) == (command.opaque, len(data) - decoder.pending)
    assert command.code in (RequestCode.PULL_MESSAGE, RequestCode.LITE_PULL_MESSAGE)
    assert command.flag == 0


def fields_of(pull: Pull) -> tuple[object, ...]:
    return (
        pull.group, pull.topic, pull.queue_id, pull.queue_offset, pull.max_msg_nums, pull.sys_flag, pull.commit_offset,
        pull.suspend_timeout_ms, pull.sub_version, pull.subscription, pull.expression_type,
    )  # fmt: skip


def test_plain_pulls_are_taken(both: Both) -> None:
    """As Java's client writes it, in both forms; else no figure says anything."""
    for kind in SerializeType:
        command = RemotingCommand(
            11, opaque=7, ext_fields={**PULL, "subscription": "*", "expressionType": "TAG"}
        )
        command.serialize_type = kind
        data = encode_command(command) * 3
        taken, answers = QuickPulls(both.served[1].broker).feed(data, 0, len(data), "peer", 1 << 20)
        assert taken == len(data)
        assert len(answers) == 6


def test_places_outside_of_the_buffer() -> None:
    for begin, end in ((-1, 3), (2, 1), (0, 5)):
        with pytest.raises(ValueError, match="of 4"):
            read_pull(b"abcd", begin, end)
