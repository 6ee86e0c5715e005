"""Sends by the kernel and by Python: whatever a connection brings, both leave the same log and give the same answers."""

from __future__ import annotations

import json
import random
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import event, given
from hypothesis import strategies as st
from support.broker import FakeChannel, FakeLoop

import rmqcore
from rmqcore import MessageStore
from rmqcore._native.broker.send_kernel import BROKEN, MORE, PYTHON
from rmqcore.broker.broker import Broker
from rmqcore.broker.quick_sends import QuickSends
from rmqcore.broker.requests import handle
from rmqcore.broker.settings import BrokerSettings
from rmqcore.codec.message import pack_host
from rmqcore.errors import ProtocolError
from rmqcore.remoting.bodies.topic_configs import TopicConfig
from rmqcore.remoting.codes import ResponseCode, SerializeType
from rmqcore.remoting.command import RemotingCommand
from rmqcore.remoting.frame import Frame, FrameDecoder, encode_frame
from rmqcore.remoting.header import decode_command, encode_command
from rmqcore.remoting.json_header import encode_json_header

PEER = "127.0.0.1:40000"
TOPICS = [
    TopicConfig("T", 4, 4),
    TopicConfig("Other-Topic_of_a_longer|name", 2, 8),
    TopicConfig("Multi", 4, 4, topic_filter_type="MULTI_TAG"),
    TopicConfig("Compacted", 4, 4, attributes={"cleanup.policy": "COMPACTION"}),
    TopicConfig("%RETRY%g", 1, 1),
    TopicConfig("SELF_TEST_TOPIC", 1, 1),
]
SMALL: dict[str, Any] = {"mapped_file_size_commit_log": 1 << 16, "max_message_size": 4096}
PAIR: dict[str, Any] = {
    **SMALL,
    "broker_role": "SYNC_MASTER",
    "in_sync_replicas": 2,
    "slave_timeout": 0,
}
Held = Callable[[MessageStore], int] | None
"""Up to where followers hold a log; None: nothing waits for them."""
UNIQ_KEY = "7F0000010ABC18B4AAC22A5D1F4C0000"


class Keys:
    """Unique keys that both paths make alike."""

    def __init__(self) -> None:
        self._made = 0

    def make(self) -> str:
        self._made += 1
        return f"MADE{self._made}"


@contextmanager
def broker_of(folder: str, **config: Any) -> Iterator[Broker]:
    loop = FakeLoop()
    with rmqcore.open(
        Path(folder, "store"),
        services=False,
        clock=loop.clock,
        disk_max_used_space_ratio=100,
        **config,
    ) as store:
        random.seed(0)
        made = BrokerSettings(auto_create_topic_enable=False)
        broker = Broker(store, made, loop, address="127.0.0.1:10911", now_ms=loop.clock)
        broker.uniq_keys = Keys()  # type: ignore[assignment]
        for topic in TOPICS:
            broker.topics._topics[topic.name] = topic
        try:
            yield broker
        finally:
            broker.stop()


def log_of(store: MessageStore) -> bytes:
    parts = []
    pos = 0
    while pos < store.max_phy_offset:
        with store.read_range(pos, 1 << 20) as part:
            parts.append(bytes(part))
        pos += len(parts[-1])
    return b"".join(parts)


def answer(broker: Broker, channel: FakeChannel, frame: Frame) -> bytes:
    """What Python answers to one frame."""
    response = handle(broker, decode_command(frame), channel)
    sent = [*channel.sent, *([] if response is None else [response])]
    channel.sent.clear()
    return b"".join(map(encode_command, sent))


def replicate(broker: Broker, held: Held) -> None:
    """Let followers hold a part of the log; the time of what waits for more is over."""
    if held is not None:
        broker.store.replicated(held(broker.store))
        assert isinstance(broker.loop, FakeLoop)
        broker.loop.run()
        assert broker.puts_in_flight == 0


def by_python(data: bytes, held: Held = None, **config: Any) -> tuple[bytes, bytes, bool]:
    """Log, answers, and whether the connection goes on."""
    answers = []
    with TemporaryDirectory() as folder, broker_of(folder, **config) as broker:
        channel, decoder = FakeChannel(PEER), FrameDecoder()
        decoder.feed(data)
        try:
            while (frame := decoder.next_frame()) is not None:
                answers.append(answer(broker, channel, frame))
            good = True
        except ProtocolError:
            good = False
        replicate(broker, held)
        answers += map(encode_command, channel.sent)
        return log_of(broker.store), b"".join(answers), good


def by_kernel(data: bytes, held: Held = None, **config: Any) -> tuple[bytes, bytes, bool, int]:
    """The same with the kernel before Python, and how many sends it took."""
    answers: list[bytes] = []
    with TemporaryDirectory() as folder, broker_of(folder, **config) as broker:
        quick, channel = QuickSends(broker), FakeChannel(PEER)
        at, good = 0, True
        while good:
            fed = quick.feed(data, at, len(data), pack_host(PEER))
            assert fed is not None and at <= fed.taken <= len(data)
            quick.when_safe(fed, answers.append)
            at = fed.taken
            decoder = FrameDecoder()
            decoder.feed(data[at:])
            try:
                frame = decoder.next_frame()
                assert fed.next != BROKEN and (frame is None) == (fed.next == MORE)
                if frame is None:
                    break
                assert fed.next == PYTHON
                answers.append(answer(broker, channel, frame))
                at = len(data) - decoder.pending
            except ProtocolError:
                good = False
        replicate(broker, held)
        answers += map(encode_command, channel.sent)
        put = broker.stats.put
        quick.count()
        return log_of(broker.store), b"".join(answers), good, broker.stats.put - put


# ---- what comes ------------------------------------------------------------------------------------------

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
NAMES = st.sampled_from(
    "TAGS KEYS WAIT UNIQ_KEY DELAY TRAN_MSG PGROUP CLUSTER MSG_REGION TRACE_ON POP_CK __CRC32# INNER_NUM INNER_MULTI_DISPATCH "
    "TIMER_DELAY_SEC TIMER_OUT_MS REAL_TOPIC RETRY_TOPIC a ab".split()
)
VALUES = st.sampled_from(
    ["true", "false", "1", "-1", "99", "x\x01y", "", '"', "\\", "日本", "\U0001f600"]
)
PAIRS = st.lists(st.tuples(NAMES | TEXTS, VALUES | TEXTS), max_size=5)


@st.composite
def properties(draw: st.DrawFn) -> str:
    pairs = draw(PAIRS)
    if draw(st.booleans()):
        pairs.insert(draw(st.integers(0, len(pairs))), ("UNIQ_KEY", UNIQ_KEY))
    text = "".join(f"{name}\x01{value}\x02" for name, value in pairs)
    return text[:-1] if text and draw(st.booleans()) else text


def image(draw: st.DrawFn) -> bytes:
    """The body of a batch."""
    parts = []
    for _ in range(draw(st.integers(0, 4))):
        body, text = draw(st.binary(max_size=20)), draw(properties()).encode()
        head = struct.pack(
            ">iiiii", 22 + len(body) + len(text), 0, 0, draw(st.integers(-1, 3)), len(body)
        )
        parts.append(head + body + struct.pack(">h", len(text)) + text)
    data = b"".join(parts)
    return data[: draw(st.integers(0, len(data)))] if draw(st.integers(0, 5)) == 0 else data


PLAIN_FIELDS = {"a": "pg", "b": "T", "c": "TBW102", "d": "4", "e": "1", "f": "0", "g": "1700000000000", "h": "0"}  # fmt: skip
ODD = {
    "a": st.sampled_from(["", "组", 'q"']),
    "b": st.sampled_from([*(topic.name for topic in TOPICS), "NoSuch", "", "a/b", "T" * 128]),
    "c": st.sampled_from(["", "NoSuch"]),
    "d": st.sampled_from(["-1", "x", ""]),
    "e": st.sampled_from(["-1", "3", "4", "7", "8", "+2", "007", "2147483648", "", "1.0", "٣"]),
    "f": st.integers(0, 2048).map(str) | st.sampled_from(["-1", "x"]),
    "g": st.sampled_from(["0", "-5", "9" * 18, "9" * 19, "9223372036854775808", "x"]),
    "h": st.sampled_from(["7", "-7", "2147483647", "1e3"]),
    "j": st.sampled_from(["0", "3", "-1", "x"]),
    "k": st.sampled_from(["true", "false", "x"]),
    "l": st.sampled_from(["16", "x", "99999999999"]),
    "m": st.sampled_from(["true", "false", "TRUE", "", "x"]),
    "n": st.just("broker-a"),
    "lo": st.just("true"),
    "ns": TEXTS,
    "topic": st.just("Other"),
}


PLAIN_NAMES = st.sampled_from(["TAGS", "KEYS", "WAIT", "a", "SHARDING_KEY", "日本"])
PLAIN_PAIRS = st.lists(
    st.tuples(PLAIN_NAMES, VALUES.filter(bool)), max_size=4, unique_by=lambda pair: pair[0]
)


def plain_image(draw: st.DrawFn) -> bytes:
    parts = []
    for _ in range(draw(st.integers(1, 5))):
        text = "\x02".join(f"{name}\x01{value}" for name, value in draw(PLAIN_PAIRS)).encode()
        body = draw(st.binary(max_size=20))
        head = struct.pack(">iiiii", 22 + len(body) + len(text), 0, 0, 3, len(body))
        parts.append(head + body + struct.pack(">h", len(text)) + text)
    return b"".join(parts)


@st.composite
def plain_requests(draw: st.DrawFn) -> RemotingCommand:
    code = draw(st.sampled_from([310, 320]))
    pairs = [*draw(PLAIN_PAIRS), ("UNIQ_KEY", UNIQ_KEY)]
    fields = {
        **PLAIN_FIELDS,
        "b": draw(st.sampled_from([TOPICS[0].name, TOPICS[1].name])),
        "e": str(draw(st.integers(0, 3))),
        "i": "".join(f"{name}\x01{value}\x02" for name, value in draw(st.permutations(pairs))),
        "f": draw(st.sampled_from(["0", "1", "257", "769"])),
        "j": str(draw(st.integers(0, 2))),
        "k": "false",
        "l": "16",
        "m": "true" if code == 320 else "false",
        "bname": "broker-a",
    }
    return RemotingCommand(
        code,
        opaque=draw(st.integers(-(1 << 31), (1 << 31) - 1)),
        flag=draw(st.sampled_from([0, 0, 0, 2])),
        ext_fields=fields,
        body=plain_image(draw) if code == 320 else draw(st.binary(min_size=1, max_size=40)),
    )


@st.composite
def odd_requests(draw: st.DrawFn) -> RemotingCommand:
    code = draw(st.sampled_from([310, 310, 310, 320, 320, 10, 30]))
    fields = dict(PLAIN_FIELDS)
    if code == 320:
        fields["m"] = "true"
    for name in draw(st.lists(st.sampled_from(sorted(ODD)), max_size=3)):
        fields[name] = draw(ODD[name])
    fields["i"] = draw(properties())
    for name in (
        draw(st.lists(st.sampled_from(sorted(fields)), max_size=1)) if draw(st.booleans()) else ()
    ):
        del fields[name]
    body = (
        image(draw) if code == 320 or draw(st.integers(0, 9)) == 0 else draw(st.binary(max_size=40))
    )
    if draw(st.integers(0, 19)) == 0:
        body = bytes(draw(st.sampled_from([4095, 4096, 4097, 5000])))
    return RemotingCommand(
        code,
        opaque=draw(st.integers(-(1 << 31), (1 << 31) - 1)),
        flag=draw(st.sampled_from([0, 0, 0, 0, 2, 4])),
        ext_fields=fields,
        body=body,
        remark=draw(st.sampled_from([None, None, "r", "\n"])),
    )


def as_json(draw: st.DrawFn, command: RemotingCommand) -> bytes:
    """A header as some client may write it."""
    extra: dict[str, object] = draw(
        st.sampled_from(
            [{}, {}, {"remark": None}, {"unknown": 1}, {"language": 9}, {"version": 479}]
        )
    )
    fields: dict[str, object] = dict(command.ext_fields)
    if draw(st.integers(0, 9)) == 0:
        fields["e"] = 1
    members = {
        "code": command.code, "extFields": fields, "flag": command.flag, "language": "JAVA", "opaque": command.opaque,
        "serializeTypeCurrentRPC": "JSON", **({} if command.remark is None else {"remark": command.remark}), **extra,
    }  # fmt: skip
    names = draw(st.permutations(list(members))) if draw(st.booleans()) else list(members)
    separators = draw(st.sampled_from([(",", ":"), (",", ":"), (", ", ": "), (" ,\n", "\t:\r ")]))
    ascii_only = draw(st.booleans())
    text = json.dumps(
        {name: members[name] for name in names}, separators=separators, ensure_ascii=ascii_only
    )
    odd = draw(st.integers(0, 19))
    if odd == 0:
        text = text.replace(
            "\\u0001",
            draw(st.sampled_from(["\\ud800", "\\uDE00\\ud83d", "\\u00g1", "\\x", "\\u00"])),
            1,
        )
    elif odd == 1:
        text = text.replace(
            '"flag"', draw(st.sampled_from(['"code"', '"\\u0066lag"', '"flag":0,"flag"'])), 1
        )
    elif odd == 2:
        text = text.replace('"extFields":{', '"extFields":{"e":"2",', 1)
    elif odd == 3:
        text += draw(st.sampled_from(["\n", " ", "}", ",", "\0"]))
    return text.encode()


@st.composite
def odd_frames(draw: st.DrawFn) -> bytes:
    command = draw(odd_requests())
    if draw(st.booleans()):
        return encode_frame(Frame(SerializeType.JSON, as_json(draw, command), command.body))
    command.serialize_type = SerializeType.ROCKETMQ
    return encode_command(command)


@st.composite
def plain_frames(draw: st.DrawFn) -> bytes:
    command = draw(plain_requests())
    if draw(st.booleans()):
        command.serialize_type = SerializeType.ROCKETMQ
        return encode_command(command)
    header = encode_json_header(command)
    if draw(st.booleans()):
        header = json.dumps(json.loads(header), separators=(",", ":")).encode()
    return encode_frame(Frame(SerializeType.JSON, header, command.body))


@st.composite
def streams(draw: st.DrawFn) -> bytes:
    data = b"".join(draw(st.lists(plain_frames() | odd_frames(), min_size=1, max_size=6)))
    if draw(st.integers(0, 4)) == 0:
        place = draw(st.integers(0, len(data) - 1))
        data = data[:place] + bytes([draw(st.integers(0, 255))]) + data[place + 1 :]
    if draw(st.integers(0, 4)) == 0:
        data = data[: draw(st.integers(0, len(data)))]
    return data


@given(streams())
def test_the_kernel_stores_and_answers_as_python_does(data: bytes) -> None:
    log, answers, good, taken = by_kernel(data, **SMALL)
    event(f"the kernel took {min(taken, 3)}")
    assert (log, answers, good) == by_python(data, **SMALL)


def whole(answers: bytes) -> list[Frame]:
    decoder = FrameDecoder()
    decoder.feed(answers)
    found = []
    while (frame := decoder.next_frame()) is not None:
        found.append(frame)
    return found


def frames(answers: bytes) -> list[bytes]:
    """The answers in an order of their own: what waits for followers is answered behind what does not."""
    return sorted(map(encode_frame, whole(answers)))


@given(st.lists(plain_frames(), min_size=1, max_size=6).map(b"".join) | streams(), st.floats(0, 1))
def test_a_sync_master_answers_as_python_does(data: bytes, share: float) -> None:
    """Followers hold a part of the log, and of a message that they hold in part nothing."""

    def held(store: MessageStore) -> int:
        return round(store.max_phy_offset * share)

    log, answers, good, taken = by_kernel(data, held, **PAIR)
    other_log, other_answers, other_good = by_python(data, held, **PAIR)
    late = sum(
        decode_command(frame).code == ResponseCode.FLUSH_SLAVE_TIMEOUT for frame in whole(answers)
    )
    event(f"the kernel took {min(taken, 3)}, {min(late, 3)} late")
    assert (log, good) == (other_log, other_good)
    assert frames(answers) == frames(other_answers)


@given(st.lists(plain_frames(), min_size=1, max_size=5))
def test_plain_sends_are_taken_without_python(sends: list[bytes]) -> None:
    data = b"".join(sends)
    with TemporaryDirectory() as folder, broker_of(folder) as broker:
        fed = QuickSends(broker).feed(data, 0, len(data), pack_host(PEER))
        assert fed is not None
        assert (fed.taken, fed.next) == (len(data), MORE)
        assert fed.end_phy_offset == broker.store.max_phy_offset
        log = log_of(broker.store)
    assert (log, fed.answers, True) == by_python(data)
