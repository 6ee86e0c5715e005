"""The same requests to the real broker and to ours: the same answers, and the same messages in the store."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from interop.broker import Broker
from support.broker import FakeLoop
from support.eventually import GENEROUS_S, eventually
from support.raw_client import RawClient
from support.sends import SMALL, Sender, image, send

import rmqcore
from rmqcore.codec import decode, decode_properties, parse_msg_id
from rmqcore.codec.message import MessageView
from rmqcore.remoting.bodies.heartbeat import Heartbeat, encode_heartbeat
from rmqcore.remoting.codes import RequestCode
from rmqcore.remoting.command import RemotingCommand
from rmqcore.remoting.request_fields import REQUEST_FIELDS, encode_fields
from rmqcore.vocabulary.topics import TRANS_HALF_TOPIC

SIZES = {
    "mappedFileSizeCommitLog": 4 << 20,
    "mappedFileSizeConsumeQueue": 20 * 100,
    "maxHashSlotNum": 101,
    "maxIndexNum": 1200,
    "maxMessageSize": 4096,
}
# Java asks about halves that have ended while their marks wait to be written: these must not wait.
CHECKS = {
    "transactionCheckInterval": 1000,
    "transactionTimeOut": 3000,
    "transactionOpBatchInterval": 100,
}
OUR_SIZES: dict[str, Any] = {"mapped_file_size_commit_log": 4 << 20, "max_message_size": 4096}
OURS = {
    "broker_cluster_name": "InteropCluster",
    "broker_name": "interop-a",
    "transaction_check_interval": 1000,
    "transaction_time_out": 3000,
}
LONG = "x" * 128
BATCH = RequestCode.SEND_BATCH_MESSAGE
TWO = image(
    [(b"one", {"TAGS": "a", "UNIQ_KEY": "B1", "DELAY_": "x"}), (b"two", {"UNIQ_KEY": "B2"})]
)
REQUESTS: dict[str, RemotingCommand] = {
    "plain": send(properties={"TAGS": "a", "KEYS": "k1 k2"}),
    "old": send(code=RequestCode.SEND_MESSAGE),
    "same key": send(properties={"UNIQ_KEY": "OTHER", "WAIT": "false"}),
    "name with a blank": send("bad name"),
    "no name": send(""),
    "self test": send("SELF_TEST_TOPIC"),
    "schedule": send("SCHEDULE_TOPIC_XXXX"),
    "half": send(TRANS_HALF_TOPIC),
    "long name": send(LONG),
    "127 letters": send(LONG[:127]),
    "long retry name": send("%RETRY%" + "r" * 120, queueId=0),
    "queue 4": send(queueId=4),
    "queue 99": send(queueId=99),
    "no such default": send("unknown", defaultTopic="nothing"),
    "one queue": send("narrow", defaultTopicQueueNums=1),
    "any queue": send("narrow", queueId=-1),
    "many queues": send("wide", defaultTopicQueueNums=100),
    "unit": send("unit", unitMode=True),
    "retry": send("%RETRY%g1", reconsumeTimes=2, maxReconsumeTimes=3),
    "retry unit": send("%RETRY%g5", unitMode=True, defaultTopic="nothing"),
    "dead": send("%RETRY%g2", reconsumeTimes=17),
    "dead by the client": send("%RETRY%g3", reconsumeTimes=4, maxReconsumeTimes=3),
    "dead with a delay": send(
        "%RETRY%g3", b"b", {"DELAY": "2"}, reconsumeTimes=4, maxReconsumeTimes=3
    ),
    "old client": send("%RETRY%g4", reconsumeTimes=4, maxReconsumeTimes=3, version=120),
    "delay 1": send("later", properties={"DELAY": "1", "TAGS": "t"}),
    "delay 1, timer": send(
        "later", properties={"DELAY": "1", "TIMER_DELAY_MS": "5", "TIMER_DELIVER_MS": "7"}
    ),
    "delay 99": send("later", properties={"DELAY": "99"}),
    "delay 0": send(properties={"DELAY": "0"}),
    "delay -1": send(properties={"DELAY": "-1"}),
    "delay x": send(properties={"DELAY": "x"}),
    "timer": send(properties={"TIMER_DELAY_SEC": "5"}),
    "timer of long ago": send(properties={"TIMER_DELIVER_MS": "5"}),
    "timer out": send(properties={"TIMER_DELIVER_MS": "5", "TIMER_OUT_MS": "5"}),
    "pop": send(properties={"POP_CK": "5", "XPOP_CK": "6"}),
    "odd properties": send(properties={"a": "", "b": "1"}),
    "no properties": send("bare", properties={}, defaultTopicQueueNums=1),
    "no body": send(body=b""),
    "large": send(body=b"x" * 4096),
    "too large": send(body=b"x" * 4097),
    "long properties": send(properties={"p": "x" * 32_000}),
    "too long properties": send(properties={"p": "x" * 33_000}),
    "compressed": send(sysFlag=1),
    "prepared alone": send(sysFlag=4),
    "inner batch": send(sysFlag=0x80),
    "inner number": send(properties={"INNER_NUM": "1"}),
    "batch": send("batches", TWO, code=BATCH),
    "batch by its field": send("batches", TWO, batch=True),
    "a batch without its field": send("batches", TWO, code=BATCH, batch=False),
    "batch with a delay": send("batches", TWO, {"DELAY": "1"}, code=BATCH, batch=True),
    "batch with a timer": send("batches", TWO, {"TIMER_DELAY_MS": "1"}, code=BATCH, batch=True),
    "batch of retries": send("%RETRY%g1", TWO, code=BATCH, batch=True),
    "batch of a transaction": send("batches", TWO, code=BATCH, batch=True, sysFlag=4),
    "batch cut off": send("batches", TWO[:-1], code=BATCH, batch=True),
    "batch without a key": send("batches", TWO, {"UNIQ_KEY": ""}, code=BATCH, batch=True),
    "batch that is large": send("batches", image([(b"x" * 4096, {})]), code=BATCH, batch=True),
    "reply to nobody": send("InteropCluster_REPLY_TOPIC", code=RequestCode.SEND_REPLY_MESSAGE_V2),
    "reply to who is gone": send(
        "InteropCluster_REPLY_TOPIC",
        b"r",
        {"REPLY_TO_CLIENT": "gone"},
        code=RequestCode.SEND_REPLY_MESSAGE,
    ),
}
# Of these Java's remark is an exception with a line of its source.
EXCEPTIONS = ["delay x", "no body", "batch cut off", "batch that is large", "end: no half"]
COMMIT, ROLLBACK = 8, 12
REPLY_FIELDS = {
    spec.name for spec in REQUEST_FIELDS[RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT] if spec.required
}


class JavaSide:
    """The real broker, which runs."""

    def __init__(self, wire: RawClient) -> None:
        self._wire = wire
        self.peer = wire.peer
        self.ask = wire.ask

    @staticmethod
    def clock_ms() -> int:
        return time.time_ns() // 1_000_000

    def now_ms(self) -> int:
        return self.clock_ms()

    def pushed(self, code: RequestCode) -> RemotingCommand:
        """Wait for a request of the broker."""
        return self._wire.wait_for(lambda c: not c.is_response and c.code == code)

    def start(self, command: RemotingCommand) -> None:
        """Send a request whose response is not waited for, or a response."""
        self._wire.send(command)

    def response(self, opaque: int) -> RemotingCommand:
        """Wait for the response to such a request."""
        return self._wire.wait_for(lambda c: c.is_response and c.opaque == opaque)

    def settle(self, topic: str, queue_offset: int) -> None:
        """Wait until queue 0 of a topic is so long."""
        code = RequestCode.GET_MAX_OFFSET
        fields = encode_fields(code, {"topic": topic, "queueId": 0})

        def length() -> int:
            found = self.ask(RemotingCommand(code, ext_fields=dict(fields)))
            return int(found.ext_fields["offset"])

        eventually(
            lambda: length() >= queue_offset,
            poll_s=0.1,
            details=lambda: f"{topic} has {length()} of {queue_offset} messages",
        )


class OurSide:
    """Our broker, whose clock is the test's."""

    def __init__(self, sender: Sender) -> None:
        self._sender = sender
        self.peer = sender.channel.peer
        self.ask = sender.ask
        self.now_ms = sender.loop.clock

    def pushed(self, code: RequestCode) -> RemotingCommand:
        return self._wait_for(lambda c: not c.is_response and c.code == code)

    def start(self, command: RemotingCommand) -> None:
        self._sender.start(command)

    def response(self, opaque: int) -> RemotingCommand:
        return self._wait_for(lambda c: c.is_response and c.opaque == opaque)

    def _wait_for(self, wanted: Callable[[RemotingCommand], bool]) -> RemotingCommand:
        sent = self._sender.channel.sent
        self._pass_time(lambda: any(map(wanted, sent)))
        found = next(filter(wanted, sent))
        sent.remove(found)
        return found

    def settle(self, topic: str, queue_offset: int) -> None:
        self._pass_time(lambda: self._sender.store.max_offset(topic, 0) >= queue_offset)

    def _pass_time(self, done: Callable[[], bool]) -> None:
        """Let the test's clock run; what a thread of the broker is to bring needs real time as well."""

        def is_done() -> bool:
            assert self._sender.store.wait_dispatched(GENEROUS_S)
            self._sender.loop.run()
            if done():
                return True
            self._sender.loop.advance(100)
            return False

        eventually(is_done, poll_s=0.001)


Side = JavaSide | OurSide


def shown(response: RemotingCommand, peer: str) -> dict[str, Any]:
    """Show what of a response must be the same."""
    fields = {name: value for name, value in response.ext_fields.items() if name != "msgId"}
    remark = (response.remark or "").replace(peer, "PEER")
    return {"code": int(response.code), "remark": remark, **fields}


def end(
    half: RemotingCommand, how: int, group: str = "pg", moved: int = 0, *, checked: bool = False
) -> RemotingCommand:
    """End the transaction of a half, by the answer to its send or by the broker's question."""
    fields = half.ext_fields
    msg_id = fields["offsetMsgId" if checked else "msgId"]
    return RemotingCommand(
        RequestCode.END_TRANSACTION,
        ext_fields=encode_fields(
            RequestCode.END_TRANSACTION,
            {
                "producerGroup": group,
                "tranStateTableOffset": int(
                    fields["tranStateTableOffset" if checked else "queueOffset"]
                )
                + moved,
                "commitLogOffset": parse_msg_id(msg_id).phy_offset,
                "commitOrRollback": how,
                "fromTransactionCheck": checked,
                "msgId": fields["transactionId"],
                "transactionId": fields["transactionId"],
            },
        ),
    )


def back(stored: RemotingCommand, level: int = 0, **fields: int) -> RemotingCommand:
    """Send a message back."""
    return RemotingCommand(
        RequestCode.CONSUMER_SEND_MSG_BACK,
        ext_fields=encode_fields(
            RequestCode.CONSUMER_SEND_MSG_BACK,
            {
                "offset": parse_msg_id(stored.ext_fields["msgId"]).phy_offset,
                "group": "cg",
                "delayLevel": level,
                "originMsgId": "X",
                "originTopic": "backs",
                **fields,
            },
        ),
    )


def play(side: Side) -> dict[str, dict[str, Any]]:
    """Play all scenes to a broker: what it answers."""
    answers = {name: shown(side.ask(request), side.peer) for name, request in REQUESTS.items()}

    def note(name: str, request: RemotingCommand) -> RemotingCommand:
        response = side.ask(request)
        answers[name] = shown(response, side.peer)
        return response

    side.settle("later", 2)
    first = note("back: sent", send("backs", b"b", {"TAGS": "t"}))
    note("back", back(first))
    note("back: level 1", back(first, 1))
    note("back: dead", back(first, -1))
    note("back: tried enough", back(first, maxReconsumeTimes=0))
    note("back: nothing there", back(first, offset=1 << 40))
    side.settle("%RETRY%cg", 1)
    _transactions(side, note)
    answers["reply"] = shown(_reply(side), side.peer)
    side.settle("%RETRY%cg", 2)
    return answers


def _transactions(side: Side, note: Callable[[str, RemotingCommand], RemotingCommand]) -> None:
    heartbeat = encode_heartbeat(Heartbeat("client", ("pg",)))
    side.ask(RemotingCommand(RequestCode.HEART_BEAT, body=heartbeat))

    def half(name: str, **changed: Any) -> RemotingCommand:
        properties = {
            "TRAN_MSG": "true",
            "PGROUP": "pg",
            "UNIQ_KEY": name,
            **changed.pop("properties", {}),
        }
        fields = {"bornTimestamp": side.now_ms(), "sysFlag": 4, **changed}
        return note(f"half: {name}", send("deals", name.encode(), properties, **fields))

    committed, rolled_back, _ = (
        half("committed"),
        half("rolled back"),
        half("of a delay", properties={"DELAY": "1"}),
    )
    note("end: another group", end(committed, COMMIT, "other"))
    note("end: another offset", end(committed, COMMIT, moved=1))
    note("end: commit", end(committed, COMMIT))
    note("end: rollback", end(rolled_back, ROLLBACK))
    note("end: no half", end(note("end: sent", send("deals")), COMMIT))
    note("half: retried", send("deals", b"r", {"TRAN_MSG": "true", "DELAY": "1"}, reconsumeTimes=1))
    half("of long ago", bornTimestamp=1)
    asked = half("asked")
    side.settle("RMQ_SYS_TRANS_OP_HALF_TOPIC", 1)
    question = side.pushed(RequestCode.CHECK_TRANSACTION_STATE)
    fields = question.ext_fields
    body = decode(question.body)
    note("question", RemotingCommand(RequestCode.HEART_BEAT, body=heartbeat))
    answers = {k: fields[k] for k in ("topic", "bname", "msgId", "transactionId")}
    assert answers == {
        "topic": TRANS_HALF_TOPIC,
        "bname": "interop-a",
        "msgId": "asked",
        "transactionId": "asked",
    }
    assert (body.topic, body.queue_id, body.flag, body.body) == ("deals", 0, 7, b"asked")
    assert (
        body.queue_offset
        == int(fields["tranStateTableOffset"])
        > int(asked.ext_fields["queueOffset"])
    )
    assert (
        body.phy_offset
        == int(fields["commitLogOffset"])
        == parse_msg_id(fields["offsetMsgId"]).phy_offset
    )
    assert {
        "TRANSACTION_CHECK_TIMES": "1",
        "REAL_TOPIC": "deals",
    }.items() <= body.properties.items()
    note("question: commit", end(question, COMMIT, checked=True))
    side.settle("deals", 4)
    side.settle("TRANS_CHECK_MAX_TIME_TOPIC", 1)
    side.settle("RMQ_SYS_TRANS_OP_HALF_TOPIC", 2)


def _reply(side: Side) -> RemotingCommand:
    request = send(
        "InteropCluster_REPLY_TOPIC",
        b"reply",
        {"REPLY_TO_CLIENT": "client", "CORRELATION_ID": "c"},
        code=RequestCode.SEND_REPLY_MESSAGE_V2,
    )
    request.opaque = 1 << 20
    side.start(request)
    push = side.pushed(RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT)
    fields = push.ext_fields
    assert push.body == b"reply"
    assert (fields["producerGroup"], fields["flag"], fields["bornHost"]) == ("pg", "7", side.peer)
    properties = decode_properties(fields["properties"].encode())
    assert int(properties.pop("PUSH_REPLY_TIME")) > 0
    assert properties == {
        "UNIQ_KEY": "KEY",
        "WAIT": "true",
        "REPLY_TO_CLIENT": "client",
        "CORRELATION_ID": "c",
        "MSG_REGION": "DefaultRegion",
        "TRACE_ON": "true",
    }
    assert REPLY_FIELDS <= fields.keys()
    side.start(push.response())
    return side.response(request.opaque)


def records(store: rmqcore.MessageStore) -> Iterator[MessageView]:
    """Give every record of a log."""
    phy_offset = store.min_phy_offset
    while phy_offset < store.max_phy_offset:
        view = store.lookup(phy_offset)
        assert view is not None
        yield view
        phy_offset += view.msg_size


def record(view: MessageView) -> dict[str, Any]:
    """Show what of a record must be the same; Java has the properties in the order of a hash table."""
    return {
        "topic": view.topic,
        "queue_id": view.queue_id,
        "queue_offset": view.queue_offset,
        "body": view.body,
        "properties": view.properties,
        "flag": view.flag,
        "sys_flag": view.sys_flag,
        "born_host": view.born_host.rpartition(":")[0],
        "store_host": view.store_host,
        "reconsume_times": view.reconsume_times,
        "is_prepared": view.prepared_transaction_offset > 0,
    }


def without_flag(record: dict[str, Any]) -> dict[str, Any]:
    """Java drops the flag of a half that it stores again; ours keeps it."""
    checked = "TRANSACTION_CHECK_TIMES" in record["properties"]
    return {**record, "flag": 0} if checked else record


def differences(their: dict[str, Any], our: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Name what differs, with both values; each property for itself."""
    their, our = ({**shown, **shown["properties"], "properties": None} for shown in (their, our))
    return {
        name: (their.get(name), our.get(name))
        for name in their | our
        if their.get(name) != our.get(name)
    }


def by_queue(store: rmqcore.MessageStore) -> dict[tuple[str, int], list[dict[str, Any]]]:
    found: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for view in records(store):
        found.setdefault((view.topic, view.queue_id), []).append(record(view))
    return found


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("sends")
    java = Broker(folder / "java", SIZES | CHECKS)
    with java.running() as server, RawClient(java.address) as wire:
        theirs = play(JavaSide(wire))
        server.stop()
    sender = Sender(folder / "ours", store=OUR_SIZES, loop=FakeLoop(), address=java.address, **OURS)
    sender.broker.start()
    ours = play(OurSide(sender))
    our_records = by_queue(sender.store)
    sender.close()
    with rmqcore.open(java.store, **{**SMALL, **OUR_SIZES}) as store:
        their_records = by_queue(store)
    return theirs, ours, their_records, our_records


def test_answers(played: Any) -> None:
    theirs, ours, _, _ = played
    for name in EXCEPTIONS:
        assert ours[name].pop("code") == theirs[name].pop("code") == 1
        ours[name] = theirs[name]
    for name in theirs:
        assert (name, ours[name]) == (name, theirs[name])
    assert ours == theirs


def test_records(played: Any) -> None:
    _, _, theirs, ours = played
    assert ours.keys() == theirs.keys()
    for queue, records in theirs.items():
        for place, (their, our) in enumerate(zip(records, ours[queue], strict=False)):
            different = differences(without_flag(their), without_flag(our))
            assert not different, (queue, place)
        assert (queue, len(ours[queue])) == (queue, len(records))
