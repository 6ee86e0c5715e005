"""Transactions: halves, how they end, and the checks of those that do not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.broker import FakeLoop
from support.sends import ADDRESS, count_slices, send
from support.transactions import (
    COMMIT,
    ROLLBACK,
    UNKNOWN,
    Transacting,
    end,
    end_asked,
)

from rmqcore import sysflag
from rmqcore._native.put.put_result import refused_result
from rmqcore.broker.transactions import half_walk
from rmqcore.broker.transactions import service as transactions
from rmqcore.broker.transactions.messages import (
    CHECK_MAX_TOPIC,
    GROUP,
    HALF_TOPIC,
    OP_TOPIC,
    done_message,
    done_offsets,
)
from rmqcore.codec import decode
from rmqcore.errors import StoreFailedError
from rmqcore.message import Message
from rmqcore.remoting.codes import ResponseCode
from rmqcore.status import PutMessageStatus

SECOND = 1_000
CHECK = 30 * SECOND


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Transacting]:
    broker = Transacting(tmp_path)
    yield broker
    broker.close()


def offsets(broker: Transacting) -> tuple[int, int]:
    """How far halves and marks are done with."""
    query = broker.broker.offsets.query
    return query(GROUP, HALF_TOPIC, 0), query(GROUP, OP_TOPIC, 0)


def wait_for_topic(broker: Transacting, milliseconds: int) -> None:
    """Let time pass, and wait for the file of a topic that is made meanwhile."""
    broker.advance(milliseconds)
    topics = broker.broker.topics
    broker.loop.run_until(lambda: not topics._made)
    broker.advance(0)


# ---- how a half is stored, and how it ends


def test_a_half_is_not_seen(broker: Transacting) -> None:
    response = broker.half("h")
    (half,) = broker.halves()
    assert broker.bodies() == []
    assert (half.sys_flag, half.flag, half.queue_id, half.body) == (0, 7, 0, b"h")
    assert half.properties == {
        "UNIQ_KEY": "h",
        "WAIT": "true",
        "TRAN_MSG": "true",
        "PGROUP": "pg",
        "MSG_REGION": "DefaultRegion",
        "TRACE_ON": "true",
        "CLUSTER": "DefaultCluster",
        "__transactionId__": "h",
        "REAL_TOPIC": "deals",
        "REAL_QID": "0",
    }
    fields = response.ext_fields
    assert (fields["msgId"], fields["queueId"], fields["queueOffset"]) == (half.msg_id, "0", "0")
    assert fields["transactionId"] == "h"


def test_a_commit_stores_the_message(broker: Transacting) -> None:
    response = broker.ask(end(broker.half("h"), COMMIT))
    assert (response.code, response.remark) == (0, None)
    (half,), (message,) = broker.halves(), broker.messages("deals")
    assert (message.body, message.flag, message.queue_id) == (b"h", 7, 0)
    assert message.sys_flag == sysflag.TRANSACTION_COMMIT
    assert message.prepared_transaction_offset == half.phy_offset
    gone = {"REAL_TOPIC", "REAL_QID"}
    assert message.properties == {k: v for k, v in half.properties.items() if k not in gone}
    for name in ("born_timestamp_ms", "born_host", "store_host", "reconsume_times"):
        assert getattr(message, name) == getattr(half, name)


def test_a_rollback_stores_nothing(broker: Transacting) -> None:
    response = broker.ask(end(broker.half("h"), ROLLBACK))
    assert (response.code, response.remark) == (0, "not set any response code")
    broker.advance(4 * SECOND)
    assert (broker.bodies(), broker.marks()) == ([], [b"0,"])


@pytest.mark.parametrize("how", [UNKNOWN, 4, 99])
def test_whoever_does_not_know_gets_no_answer(broker: Transacting, how: int) -> None:
    half = broker.half("h")
    before = len(broker.channel.sent)
    broker.start(end(half, how))
    broker.advance(4 * SECOND)
    assert (len(broker.channel.sent), broker.bodies(), broker.marks()) == (before, [], [])


@pytest.mark.parametrize(
    ("changed", "remark"),
    [
        ({"producerGroup": "other"}, "The producer group wrong"),
        ({"tranStateTableOffset": 1}, "The transaction state table offset wrong"),
        ({"commitLogOffset": 1}, "Find prepared transaction message failed"),
        ({"commitLogOffset": -1}, "Find prepared transaction message failed"),
        ({"commitLogOffset": 1 << 50}, "Find prepared transaction message failed"),
    ],
)
@pytest.mark.parametrize("how", [COMMIT, ROLLBACK])
def test_an_end_that_fits_no_half(
    broker: Transacting, changed: dict[str, Any], remark: str, how: int
) -> None:
    response = broker.ask(end(broker.half("h"), how, **changed))
    assert (response.code, response.remark) == (ResponseCode.SYSTEM_ERROR, remark)
    broker.advance(4 * SECOND)
    assert (broker.bodies(), broker.marks()) == ([], [])


def test_no_message_but_a_half_can_be_committed(broker: Transacting) -> None:
    plain = broker.ask(
        send("deals", properties={"PGROUP": "pg", "REAL_TOPIC": "x", "REAL_QID": "0"})
    )
    response = broker.ask(end(plain, COMMIT))
    assert response.remark == "Find prepared transaction message failed"


def test_a_broker_may_take_no_transactions(tmp_path: Path) -> None:
    broker = Transacting(tmp_path, reject_transaction_message=True)
    response = broker.half("h")
    assert response.code == ResponseCode.NO_PERMISSION
    assert response.remark == "the broker[127.0.0.1] sending transaction message is forbidden"
    broker.close()


def test_a_committed_message_may_have_a_delay(broker: Transacting) -> None:
    """A client sets no delay for a half, but the property may come with the half of another broker."""
    broker.half("h")
    properties = {**broker.halves()[0].properties, "DELAY": "1"}
    broker.store.append(Message(HALF_TOPIC, b"late", 0, properties=properties))
    late = broker.halves()[1]
    fields = {"msgId": late.msg_id, "queueOffset": "1", "transactionId": "h"}
    assert broker.ask(end(type(broker.half("x"))(0, ext_fields=fields), COMMIT)).code == 0
    (waiting,) = broker.messages("SCHEDULE_TOPIC_XXXX", 0)
    assert "TRAN_MSG" not in waiting.properties
    assert waiting.properties["REAL_TOPIC"] == "deals"
    broker.advance(SECOND)
    assert broker.bodies() == [b"late"]


def test_a_store_that_failed_commits_nothing(broker: Transacting) -> None:
    half = broker.half("h")
    broker.store.fail(OSError("the disk is gone"))
    response = broker.ask(end(half, COMMIT))
    assert (response.code, response.remark) == (
        ResponseCode.SERVICE_NOT_AVAILABLE,
        "Service not available now.",
    )


def test_a_slave_ends_nothing(tmp_path: Path) -> None:
    broker = Transacting(tmp_path)
    half = broker.half("h")
    broker.close()
    slave = Transacting(tmp_path, store={"broker_role": "SLAVE"})
    assert slave.ask(end(half, COMMIT)).code == ResponseCode.SLAVE_NOT_AVAILABLE
    slave.advance(2 * CHECK)
    assert (slave.questions(), len(slave.halves())) == ([], 1)
    slave.close()


# ---- marks of halves that ended


def test_marks_wait_for_others_and_are_written_as_one_message(broker: Transacting) -> None:
    halves = [broker.half(f"h{i}") for i in range(3)]
    for half in halves:
        broker.start(end(half, ROLLBACK, oneway=True))
    broker.advance(2 * SECOND)
    assert broker.marks() == []
    broker.advance(SECOND)
    (mark,) = broker.messages(OP_TOPIC)
    assert (mark.body, mark.tags, mark.properties) == (
        b"0,1,2,",
        "d",
        {"TAGS": "d", "WAIT": "true"},
    )
    assert (mark.born_host, mark.store_host) == (ADDRESS, ADDRESS)
    assert mark.born_timestamp_ms == broker.loop.now_ms


def test_many_marks_are_written_at_once(broker: Transacting) -> None:
    halves = [broker.half(f"h{i}") for i in range(30)]
    for _ in range(60):
        for half in halves:
            broker.start(end(half, ROLLBACK, oneway=True))
    written = broker.marks()
    assert written
    assert all(4096 <= len(mark) < 4096 + 10 for mark in written)
    broker.advance(3 * SECOND)
    assert sum(len(m.split(b",")) - 1 for m in broker.marks()) == 60 * 30


def test_a_stop_writes_the_marks_that_wait(tmp_path: Path) -> None:
    broker = Transacting(tmp_path)
    broker.start(end(broker.half("h"), ROLLBACK, oneway=True))
    broker.close()
    after = Transacting(tmp_path)
    assert after.marks() == [b"0,"]
    after.close()


def test_marks_that_the_store_does_not_take_are_kept(
    broker: Transacting, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = refused_result(PutMessageStatus.SERVICE_NOT_AVAILABLE)
    broker.start(end(broker.half("h"), ROLLBACK, oneway=True))
    with monkeypatch.context() as patch:
        patch.setattr(transactions, "append_message", lambda *_: refused)
        broker.advance(9 * SECOND)
    assert broker.marks() == []
    broker.advance(3 * SECOND)
    assert broker.marks() == [b"0,"]


@pytest.mark.parametrize(
    ("body", "tag", "expected"),
    [
        ("5,7,", "d", [5, 7]),
        ("12", "d", [12]),
        ("", "d", []),
        ("5,x,-3,7", "d", [5, 7]),
        ("5", "e", []),
        ("9" * 30, "d", []),
    ],
)
def test_marks_of_other_brokers(
    broker: Transacting, body: str, tag: str, expected: list[int]
) -> None:
    message = done_message(0, body, ADDRESS, 1)
    message.properties["TAGS"] = tag
    broker.store.append(message)
    assert done_offsets(broker.messages(OP_TOPIC)[0]) == expected


# ---- checks


def test_a_half_is_asked_about_when_its_time_has_come(broker: Transacting) -> None:
    broker.advance(CHECK - 5 * SECOND)
    broker.half("h")
    broker.advance(5 * SECOND)
    assert broker.questions() == []  # younger than transactionTimeOut
    broker.advance(CHECK)
    (question,) = broker.questions()
    first, again = broker.halves()
    assert again.properties == {**first.properties, "TRANSACTION_CHECK_TIMES": "1"}
    assert (again.body, again.flag, again.born_timestamp_ms) == (b"h", 7, first.born_timestamp_ms)
    assert question.is_oneway
    assert question.ext_fields == {
        "topic": HALF_TOPIC,
        "tranStateTableOffset": "1",
        "commitLogOffset": str(again.phy_offset),
        "msgId": "h",
        "transactionId": "h",
        "offsetMsgId": again.msg_id,
        "bname": "broker-a",
    }
    image = decode(question.body)
    assert image.crc_ok()
    assert (image.topic, image.queue_id, image.body) == ("deals", 0, b"h")
    assert (image.queue_offset, image.phy_offset) == (1, again.phy_offset)
    assert image.properties == again.properties
    broker.start(end_asked(question, COMMIT))
    broker.advance(4 * CHECK)
    assert (broker.questions(), broker.bodies()) == ([], [b"h"])
    assert offsets(broker) == (2, 1)


def test_a_half_that_has_ended_is_not_asked_about(broker: Transacting) -> None:
    """Java asks while the mark waits to be written, and then commits the message twice."""
    half = broker.half("h")
    broker.advance(CHECK - 1)
    broker.start(end(half, COMMIT, oneway=True))
    broker.advance(1)
    broker.advance(3 * CHECK)
    assert (broker.questions(), broker.bodies()) == ([], [b"h"])
    assert offsets(broker) == (1, 1)


def test_it_is_asked_again_until_it_was_asked_enough(tmp_path: Path) -> None:
    broker = Transacting(tmp_path, transaction_check_max=3)
    broker.half("h")
    times = []
    for _ in range(8):
        wait_for_topic(broker, CHECK)
        times += [decode(q.body).properties["TRANSACTION_CHECK_TIMES"] for q in broker.questions()]
    assert times == ["1", "2", "3"]
    (given_up,) = broker.messages(CHECK_MAX_TOPIC)
    assert (given_up.body, given_up.flag, given_up.queue_id) == (b"h", 7, 0)
    assert given_up.properties == broker.halves()[-1].properties
    assert broker.broker.topics.get(CHECK_MAX_TOPIC) is not None
    assert offsets(broker)[0] == len(broker.halves()) == 4
    broker.close()


def test_a_half_as_old_as_the_files_is_given_up(broker: Transacting) -> None:
    born = broker.loop.now_ms - 73 * 3_600_000
    properties = {"TRAN_MSG": "true", "PGROUP": "pg"}
    broker.ask(send("deals", b"old", properties, bornTimestamp=born))
    wait_for_topic(broker, CHECK)
    broker.advance(CHECK)
    assert (broker.questions(), broker.bodies(CHECK_MAX_TOPIC)) == ([], [b"old"])


def test_where_nobody_can_be_asked_it_is_asked_later(broker: Transacting) -> None:
    broker.broker.producers.unregister("pg", broker.channel)
    broker.half("h")
    broker.advance(2 * CHECK)
    assert broker.questions() == []
    broker.connect()
    broker.advance(CHECK)
    (question,) = broker.questions()
    broker.start(end_asked(question, ROLLBACK))
    broker.advance(3 * CHECK)
    assert (broker.questions(), broker.bodies()) == ([], [])


def test_halves_behind_one_that_is_open_end_as_well(broker: Transacting) -> None:
    halves = [broker.half(f"h{i}") for i in range(5)]
    for half in halves[1:]:
        broker.start(end(half, COMMIT, oneway=True))
    broker.advance(2 * CHECK + 5 * SECOND)
    assert {q.ext_fields["msgId"] for q in broker.questions()} == {"h0"}
    assert broker.bodies() == [b"h1", b"h2", b"h3", b"h4"]


def test_a_kill_loses_no_half(tmp_path: Path) -> None:
    killed = Transacting(tmp_path)
    marked, unmarked = killed.half("marked"), killed.half("unmarked")
    killed.half("open")
    killed.start(end(marked, COMMIT, oneway=True))
    killed.advance(3 * SECOND)
    killed.start(end(unmarked, ROLLBACK, oneway=True))
    killed.kill()
    after = Transacting(tmp_path, loop=FakeLoop(killed.loop.now_ms))
    after.advance(CHECK + 5 * SECOND)
    asked = {q.ext_fields["msgId"]: q for q in after.questions()}
    assert asked.keys() == {"unmarked", "open"}
    after.start(end_asked(asked["unmarked"], ROLLBACK))
    after.start(end_asked(asked["open"], COMMIT))
    after.advance(3 * CHECK)
    assert (after.questions(), after.bodies()) == ([], [b"marked", b"open"])
    after.close()


def test_a_half_that_the_store_does_not_take_again_is_asked_about_later(
    broker: Transacting, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker.half("h")
    refused = refused_result(PutMessageStatus.SERVICE_NOT_AVAILABLE)
    with monkeypatch.context() as patch:
        patch.setattr(half_walk, "append_message", lambda *_: refused)
        broker.advance(2 * CHECK)
    assert (broker.questions(), len(broker.halves())) == ([], 1)
    broker.advance(CHECK)
    assert len(broker.questions()) == 1


def test_a_half_without_its_place_is_given_up_in_the_end(tmp_path: Path) -> None:
    broker = Transacting(tmp_path, transaction_check_max=2)
    born = broker.loop.now_ms
    wrong = Message(HALF_TOPIC, b"wrong", 0, properties={"PGROUP": "pg"}, born_timestamp_ms=born)
    broker.store.append(wrong)
    broker.half("right")
    for _ in range(6):
        wait_for_topic(broker, CHECK)
    assert {q.ext_fields["msgId"] for q in broker.questions()} == {"right"}
    assert set(broker.bodies(CHECK_MAX_TOPIC)) == {b"wrong", b"right"}
    broker.close()


def test_a_half_without_room_for_what_a_check_adds_holds_up_no_other(broker: Transacting) -> None:
    """A property of a check made its properties too long, and no half behind it was ever asked about."""
    broker.half("h")
    size = sum(len(k) + len(v) + 2 for k, v in broker.halves()[0].properties.items())
    broker.half("full", pad="x" * (32_767 - size - 5 - 9))
    broker.half("other")
    wait_for_topic(broker, 2 * CHECK)
    wait_for_topic(broker, 2 * CHECK)
    assert {q.ext_fields["msgId"] for q in broker.questions()} == {"h", "other"}
    assert broker.bodies(CHECK_MAX_TOPIC) == [b"full"]


def test_a_check_that_fails_is_not_the_last(
    broker: Transacting, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The round counted as going on for ever, and no half was asked about any more."""
    broker.half("h")

    def fails(*_: object) -> None:
        raise StoreFailedError("no sync")

    with monkeypatch.context() as patch:
        patch.setattr(broker.store, "on_flushed", fails)
        broker.advance(2 * CHECK)
    assert offsets(broker)[0] == -1
    assert broker.questions()
    broker.advance(2 * CHECK)
    assert offsets(broker)[0] > 0


def test_many_halves_are_walked_in_slices(
    broker: Transacting, monkeypatch: pytest.MonkeyPatch
) -> None:
    for half in [broker.half(f"h{i}") for i in range(200)]:
        broker.start(end(half, ROLLBACK, oneway=True))
    broker.advance(CHECK - SECOND)
    slices = count_slices(monkeypatch)
    broker.advance(2 * SECOND)
    assert len(slices) >= 200 // 32
    assert offsets(broker)[0] == 200


# ---- a half that is not to be checked early

IMMUNE = {"CHECK_IMMUNITY_TIME_IN_SECONDS": "100"}


def test_an_immune_half_is_put_off_and_not_asked_about(broker: Transacting) -> None:
    half = broker.half("h", **IMMUNE)
    broker.half("other")
    broker.advance(3 * CHECK)
    assert {q.ext_fields["msgId"] for q in broker.questions()} == {"other"}
    again = [m for m in broker.halves() if m.body == b"h"]
    assert len(again) > 1
    assert {m.properties.get("TRAN_PREPARED_QUEUE_OFFSET") for m in again[1:]} == {"0"}
    assert all("TRANSACTION_CHECK_TIMES" not in m.properties for m in again)
    broker.start(end(half, COMMIT, oneway=True))
    broker.advance(6 * CHECK)
    assert "h" not in {q.ext_fields["msgId"] for q in broker.questions()}
    assert broker.bodies() == [b"h"]


def test_an_immune_half_is_asked_about_when_its_own_time_has_come(broker: Transacting) -> None:
    half = broker.half("h", **IMMUNE)
    broker.advance(5 * CHECK)
    questions = broker.questions()
    assert {q.ext_fields["msgId"] for q in questions} == {"h"}
    response = broker.ask(end(half, COMMIT))
    assert (
        response.code == ResponseCode.ILLEGAL_OPERATION
    )  # too late: the question is to be answered
    broker.start(end_asked(questions[-1], COMMIT))
    broker.advance(3 * CHECK)
    assert (broker.questions(), broker.bodies()) == ([], [b"h"])


@pytest.mark.parametrize("text", ["x", "", "1"])
def test_an_immunity_that_is_none_or_short(broker: Transacting, text: str) -> None:
    half = broker.half("h", **({"CHECK_IMMUNITY_TIME_IN_SECONDS": text} if text else {}))
    broker.advance(5 * SECOND)
    assert broker.ask(end(half, COMMIT)).code == 0
    broker.advance(2 * CHECK)
    assert (broker.questions(), broker.bodies()) == ([], [b"h"])
