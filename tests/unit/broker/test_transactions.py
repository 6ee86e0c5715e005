"""Transactions: how halves are stored, how they end, and the marks of those that did."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.sends import ADDRESS, send
from support.transactions import (
    COMMIT,
    ROLLBACK,
    UNKNOWN,
    Transacting,
    end,
)

from rmqcore._native.put.put_result import refused_result
from rmqcore.broker.transactions import service as transactions
from rmqcore.broker.transactions.messages import done_message, done_offsets
from rmqcore.codec.message import Message
from rmqcore.remoting.codes import ResponseCode
from rmqcore.vocabulary import sysflag
from rmqcore.vocabulary.status import PutMessageStatus
from rmqcore.vocabulary.topics import TRANS_HALF_TOPIC, TRANS_OP_HALF_TOPIC

SECOND = 1_000
CHECK = 30 * SECOND


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Transacting]:
    broker = Transacting(tmp_path)
    yield broker
    broker.close()


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
    broker.store.append(Message(TRANS_HALF_TOPIC, b"late", 0, properties=properties))
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
    (mark,) = broker.messages(TRANS_OP_HALF_TOPIC)
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
    assert done_offsets(broker.messages(TRANS_OP_HALF_TOPIC)[0]) == expected
