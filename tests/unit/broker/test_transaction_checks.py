"""Transactions: the checks of halves that have not ended."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.broker import FakeLoop
from support.sends import count_slices, send
from support.transactions import (
    COMMIT,
    ROLLBACK,
    Transacting,
    end,
    end_asked,
)

from rmqcore._native.put.put_result import refused_result
from rmqcore.broker.transactions import half_walk
from rmqcore.broker.transactions.messages import GROUP
from rmqcore.codec import decode
from rmqcore.codec.message import Message
from rmqcore.errors import StoreFailedError
from rmqcore.remoting.codes import ResponseCode
from rmqcore.vocabulary.status import PutMessageStatus
from rmqcore.vocabulary.topics import (
    TRANS_CHECK_MAX_TIME_TOPIC,
    TRANS_HALF_TOPIC,
    TRANS_OP_HALF_TOPIC,
)

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
    return query(GROUP, TRANS_HALF_TOPIC, 0), query(GROUP, TRANS_OP_HALF_TOPIC, 0)


def wait_for_topic(broker: Transacting, milliseconds: int) -> None:
    """Let time pass, and wait for the file of a topic that is made meanwhile."""
    broker.advance(milliseconds)
    topics = broker.broker.topics
    broker.loop.run_until(lambda: not topics._made)
    broker.advance(0)


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
        "topic": TRANS_HALF_TOPIC,
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


@pytest.mark.parametrize("step_ms", [-86_400_000, -600_000, 600_000])
def test_a_wall_clock_that_steps_stops_no_check(broker: Transacting, step_ms: int) -> None:
    """After 600 seconds back no half was asked about for ten minutes: each had been stored after the walk began."""
    broker.half("before")
    broker.advance(SECOND)
    broker.loop.stepped_ms += step_ms
    broker.advance(3 * CHECK)
    assert broker.questions() != []


def test_it_is_asked_again_until_it_was_asked_enough(tmp_path: Path) -> None:
    broker = Transacting(tmp_path, transaction_check_max=3)
    broker.half("h")
    times = []
    for _ in range(8):
        wait_for_topic(broker, CHECK)
        times += [decode(q.body).properties["TRANSACTION_CHECK_TIMES"] for q in broker.questions()]
    assert times == ["1", "2", "3"]
    (given_up,) = broker.messages(TRANS_CHECK_MAX_TIME_TOPIC)
    assert (given_up.body, given_up.flag, given_up.queue_id) == (b"h", 7, 0)
    assert given_up.properties == broker.halves()[-1].properties
    assert broker.broker.topics.get(TRANS_CHECK_MAX_TIME_TOPIC) is not None
    assert offsets(broker)[0] == len(broker.halves()) == 4
    broker.close()


def test_a_half_as_old_as_the_files_is_given_up(broker: Transacting) -> None:
    born = broker.loop.now_ms - 73 * 3_600_000
    properties = {"TRAN_MSG": "true", "PGROUP": "pg"}
    broker.ask(send("deals", b"old", properties, bornTimestamp=born))
    wait_for_topic(broker, CHECK)
    broker.advance(CHECK)
    assert (broker.questions(), broker.bodies(TRANS_CHECK_MAX_TIME_TOPIC)) == ([], [b"old"])


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
    wrong = Message(
        TRANS_HALF_TOPIC, b"wrong", 0, properties={"PGROUP": "pg"}, born_timestamp_ms=born
    )
    broker.store.append(wrong)
    broker.half("right")
    for _ in range(6):
        wait_for_topic(broker, CHECK)
    assert {q.ext_fields["msgId"] for q in broker.questions()} == {"right"}
    assert set(broker.bodies(TRANS_CHECK_MAX_TIME_TOPIC)) == {b"wrong", b"right"}
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
    assert broker.bodies(TRANS_CHECK_MAX_TIME_TOPIC) == [b"full"]


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


def test_an_offset_waits_for_the_disk(broker: Transacting, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was saved behind a half whose commit no disk had yet: after a power cut nobody had asked how the half ended."""
    broker.start(end(broker.half("h"), COMMIT, oneway=True))
    asked: list[int] = []

    def fails(phy_offset: int, *_: object) -> None:
        asked.append(phy_offset)
        raise StoreFailedError("no sync")

    with monkeypatch.context() as patch:
        patch.setattr(broker.store, "on_flushed", fails)
        broker.advance(2 * CHECK)
        assert asked[0] == broker.store.max_phy_offset
        assert offsets(broker) == (-1, -1)
    broker.advance(2 * CHECK)
    assert offsets(broker)[0] == 1


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
