"""Delay levels: when messages are delivered, what they look like then, and what a restart keeps."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.broker import FakeLoop
from support.sends import Sender, count_slices, send

from rmqcore._native.put.put_result import refused_result
from rmqcore.broker import schedule
from rmqcore.codec.message import Message
from rmqcore.engine.store.store import MessageStore
from rmqcore.remoting.codes import RequestCode
from rmqcore.remoting.command import RemotingCommand
from rmqcore.vocabulary.status import PutMessageStatus

SCHEDULE = "SCHEDULE_TOPIC_XXXX"
SECOND = 1_000


class Delayed(Sender):
    """A broker that delivers delayed messages."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        super().__init__(folder, **settings)
        self.folder = folder
        self.broker.schedule.start()

    def send(self, level: int, body: bytes = b"b", **properties: str) -> None:
        given = {"DELAY": str(level), "TAGS": "t", **properties}
        assert self.ask(send("orders", body, given)).code == 0
        self.dispatch()

    def dispatch(self) -> None:
        assert self.store.wait_dispatched(60)
        self.loop.run()

    def advance(self, milliseconds: int) -> None:
        self.loop.advance(milliseconds)
        self.dispatch()

    def bodies(self) -> list[bytes]:
        return [message.body for message in self.messages("orders")]

    def saved(self) -> Any:
        return json.loads((self.folder / "config" / "delayOffset.json").read_text())


@pytest.fixture
def delayed(tmp_path: Path) -> Iterator[Delayed]:
    delayed = Delayed(tmp_path)
    yield delayed
    delayed.close()


def test_what_only_for_version_refuses_is_kept(tmp_path: Path) -> None:
    """A delayed message with an IPv6 host, taken before `for_version` was set, was passed over when its time came."""
    before = Delayed(tmp_path)
    before.channel.peer = "[2001:db8::7]:9"
    before.send(1, b"ipv6")
    before.close()
    restricted = Delayed(tmp_path, store={"for_version": "4.5"}, loop=before.loop)
    restricted.advance(5 * SECOND)
    assert restricted.bodies() == []
    restricted.close()
    after = Delayed(tmp_path, loop=before.loop)
    after.advance(5 * SECOND)
    assert after.bodies() == [b"ipv6"]
    after.close()


def test_a_message_waits_for_its_time(delayed: Delayed) -> None:
    delayed.send(1)
    (waiting,) = delayed.messages(SCHEDULE, 0)
    delayed.advance(999)
    assert delayed.bodies() == []
    delayed.advance(1)
    (delivered,) = delayed.messages("orders")
    assert delivered.store_timestamp_ms == waiting.store_timestamp_ms + SECOND
    assert delivered.properties == waiting.properties  # DELAY and REAL_TOPIC too, as in Java
    assert delivered.properties["REAL_TOPIC"] == "orders"
    for name in ("body", "flag", "sys_flag", "born_timestamp_ms", "born_host", "store_host"):
        assert getattr(delivered, name) == getattr(waiting, name)
    delayed.advance(60 * SECOND)
    assert delayed.bodies() == [b"b"]


@pytest.mark.parametrize("level", range(1, 19))
def test_each_level_has_its_queue_and_its_delay(delayed: Delayed, level: int) -> None:
    delay_ms = delayed.broker.schedule.delays_ms[level - 1]
    delayed.send(level)
    assert len(delayed.messages(SCHEDULE, level - 1)) == 1
    assert delayed.messages(SCHEDULE, level - 1)[0].tags_code == delayed.loop.now_ms + delay_ms
    delayed.advance(delay_ms - 1)
    assert delayed.bodies() == []
    delayed.advance(1)
    assert delayed.bodies() == [b"b"]


def test_a_level_above_the_last_is_the_last(delayed: Delayed) -> None:
    delayed.send(99)
    (waiting,) = delayed.messages(SCHEDULE, 17)
    assert waiting.properties["DELAY"] == "18"


def test_a_delay_makes_timer_properties_void(delayed: Delayed) -> None:
    delayed.send(1, TIMER_DELAY_MS="5", TIMER_DELAY_SEC="6", TIMER_DELIVER_MS="7")
    (waiting,) = delayed.messages(SCHEDULE, 0)
    assert not [name for name in waiting.properties if name.startswith("TIMER")]


def test_each_level_that_waits_has_a_timer_for_its_first_message(delayed: Delayed) -> None:
    idle = delayed.loop.waiting_timers()
    delayed.send(3, b"10 s")
    delayed.send(2, b"5 s")
    delayed.send(1, b"1 s")
    delayed.send(1, b"1 s too")
    assert delayed.loop.waiting_timers() == idle + 3
    delayed.advance(10 * SECOND)
    assert delayed.bodies() == [b"1 s", b"1 s too", b"5 s", b"10 s"]
    times = [m.store_timestamp_ms - delayed.loop.now_ms for m in delayed.messages("orders")]
    assert times == [-9 * SECOND, -9 * SECOND, -5 * SECOND, 0]
    assert delayed.loop.waiting_timers() == idle


def test_many_messages_are_delivered_in_slices(
    delayed: Delayed, monkeypatch: pytest.MonkeyPatch
) -> None:
    delayed.ask(send("orders"))
    for i in range(100):
        delayed.start(send("orders", b"%d" % i, {"DELAY": "1"}))
    delayed.dispatch()
    slices = count_slices(monkeypatch)
    delayed.advance(SECOND)
    assert delayed.bodies()[1:] == [b"%d" % i for i in range(100)]
    assert len(slices) >= 3


def test_a_restart_goes_on_where_it_ended(tmp_path: Path) -> None:
    first = Delayed(tmp_path)
    first.send(1, b"before")
    first.send(2, b"later")
    first.advance(SECOND)
    first.close()
    assert first.saved()["offsetTable"] == {"1": 1, "2": 0}
    second = Delayed(tmp_path, loop=FakeLoop(first.loop.now_ms + 60 * SECOND))
    second.advance(0)
    assert second.bodies() == [b"before", b"later"]
    second.close()


def test_a_kill_delivers_again_and_loses_nothing(tmp_path: Path) -> None:
    killed = Delayed(tmp_path)
    killed.send(1, b"one")
    killed.advance(SECOND)
    killed.send(1, b"two")
    killed.store.close()  # nothing was saved
    killed.broker.config_files.close()
    after = Delayed(tmp_path, loop=FakeLoop(killed.loop.now_ms + SECOND))
    after.advance(0)
    assert after.bodies() == [b"one", b"one", b"two"]
    after.close()


def test_offsets_are_saved_when_what_was_delivered_is_on_disk(tmp_path: Path) -> None:
    delayed = Delayed(tmp_path)
    delayed.send(1)
    delayed.advance(9_999)
    assert not (tmp_path / "config" / "delayOffset.json").exists()
    end = delayed.store.max_phy_offset
    delayed.loop.advance(1)
    delayed.loop.run_until((tmp_path / "config" / "delayOffset.json").exists)
    assert delayed.store.flushed_phy_offset >= end
    assert delayed.saved() == {
        "dataVersion": {"counter": 0, "stateVersion": 0, "timestamp": 0},
        "offsetTable": {"1": 1},
    }
    response = delayed.ask(RemotingCommand(RequestCode.GET_ALL_DELAY_OFFSET))
    assert json.loads(response.body) == delayed.saved()
    delayed.close()


def test_the_version_of_the_file_moves_with_every_two_hundred_steps(delayed: Delayed) -> None:
    for _ in range(201):
        delayed.start(send("orders", properties={"DELAY": "1"}))
    delayed.loop.run_until(lambda: len(delayed.channel.sent) == 201)
    delayed.dispatch()
    delayed.advance(SECOND)
    version = delayed.broker.schedule.as_json()["dataVersion"]
    assert (version["counter"], version["timestamp"]) == (1, delayed.loop.now_ms)


@pytest.mark.parametrize(("saved", "expected"), [(99, 1), (-5, 0)])
def test_an_offset_outside_of_its_queue_is_corrected(
    tmp_path: Path, saved: int, expected: int
) -> None:
    first = Delayed(tmp_path)
    first.send(1, b"old")
    first.close()
    (tmp_path / "config").mkdir(exist_ok=True)
    file = tmp_path / "config" / "delayOffset.json"
    file.write_text(
        f'{{"dataVersion":{{"counter":4,"stateVersion":0,"timestamp":9}},"offsetTable":{{1:{saved},30:7}}}}'
    )
    second = Delayed(tmp_path, loop=FakeLoop(first.loop.now_ms + SECOND))
    second.advance(0)
    assert second.bodies() == [b"old"] * (1 - expected)
    assert second.broker.schedule.offsets() == {
        1: 1,
        30: 7,
    }  # a level of another configuration stays
    second.close()


def test_a_message_that_the_store_does_not_take_now_comes_later(
    delayed: Delayed, monkeypatch: pytest.MonkeyPatch
) -> None:
    delayed.send(1, b"first")
    delayed.send(1, b"second")
    refused = refused_result(PutMessageStatus.SERVICE_NOT_AVAILABLE)
    with monkeypatch.context() as patch:
        patch.setattr(schedule, "append_message", lambda broker, message: refused)
        delayed.advance(3 * SECOND)
    assert delayed.bodies() == []
    delayed.advance(schedule.AGAIN_MS)
    assert delayed.bodies() == [b"first", b"second"]


@pytest.mark.parametrize(
    "properties",
    [
        {"DELAY": "1"},
        {"DELAY": "1", "REAL_TOPIC": "orders", "REAL_QID": "x"},
        {"DELAY": "1", "REAL_TOPIC": "../x", "REAL_QID": "0"},
        {"DELAY": "1", "REAL_TOPIC": "RMQ_SYS_TRANS_HALF_TOPIC", "REAL_QID": "0"},
    ],
)
def test_a_message_that_cannot_be_delivered_holds_up_no_other(
    delayed: Delayed, properties: dict[str, str]
) -> None:
    delayed.store.append(Message(SCHEDULE, b"wrong", 0, properties=properties))
    delayed.send(1, b"right")
    delayed.advance(SECOND)
    assert delayed.bodies() == [b"right"]


def test_a_time_too_far_ahead_is_now(tmp_path: Path) -> None:
    """The clock went back by an hour: a message of one second waited for an hour and a second."""
    before = Delayed(tmp_path, loop=FakeLoop(1_700_003_600_000))
    before.send(1)
    before.close()
    after = Delayed(tmp_path, loop=FakeLoop(1_700_000_000_000))
    after.advance(0)
    assert after.bodies() == [b"b"]
    after.close()


DAY = 24 * 3600 * SECOND


@pytest.mark.parametrize(
    "step_ms", [-DAY, -600 * SECOND, -3 * SECOND, 3 * SECOND, 600 * SECOND, DAY]
)
def test_a_wall_clock_that_steps_delays_no_message(delayed: Delayed, step_ms: int) -> None:
    """After 600 seconds back nothing of the level was delivered for ten minutes, nor what was sent later."""
    delayed.send(2, b"before")
    delayed.advance(SECOND)
    delayed.loop.stepped_ms += step_ms
    delayed.send(2, b"after")
    delayed.advance(3 * SECOND)
    assert b"after" not in delayed.bodies()
    delayed.advance(SECOND)
    assert delayed.bodies() == [b"before"]
    for _ in range(6):
        delayed.advance(SECOND)
    assert delayed.bodies() == [b"before", b"after"]
    delayed.send(2, b"later")
    delayed.advance(4 * SECOND)
    assert len(delayed.bodies()) == 2
    delayed.advance(SECOND)
    assert len(delayed.bodies()) == 3


def test_other_delays_may_be_configured(tmp_path: Path) -> None:
    delayed = Delayed(tmp_path, store={"message_delay_level": "2s 1m"})
    delayed.send(1)
    delayed.send(7)
    delayed.advance(2 * SECOND)
    assert len(delayed.bodies()) == 1
    delayed.advance(58 * SECOND)
    assert len(delayed.bodies()) == 2
    delayed.close()


def test_nothing_is_delivered_after_the_end(delayed: Delayed) -> None:
    delayed.send(1)
    delayed.broker.schedule.stop()
    delayed.advance(60 * SECOND)
    assert delayed.bodies() == []


def test_a_slave_delivers_nothing_and_knows_how_far_its_master_is(tmp_path: Path) -> None:
    master = Delayed(tmp_path)
    master.send(1)
    master.close()
    slave = Delayed(
        tmp_path, loop=FakeLoop(master.loop.now_ms + SECOND), store={"broker_role": "SLAVE"}
    )
    slave.advance(60 * SECOND)
    assert slave.bodies() == []
    assert slave.broker.schedule.offsets() == {1: 0}
    slave.close()


def test_a_store_that_failed_saves_nothing(tmp_path: Path) -> None:
    """What was delivered may not be on disk: a restart must deliver it again."""
    delayed = Delayed(tmp_path)
    delayed.send(1)
    delayed.advance(SECOND)
    delayed.store.fail(OSError("the disk is gone"))
    delayed.broker.schedule.save()
    delayed.close()
    assert not (tmp_path / "config" / "delayOffset.json").exists()


def test_a_store_that_cannot_be_read_is_asked_again(
    delayed: Delayed, monkeypatch: pytest.MonkeyPatch
) -> None:
    delayed.send(1)

    def fails(*_: object) -> Any:
        raise OSError("cannot be read")

    with monkeypatch.context() as patch:
        patch.setattr(MessageStore, "get", fails)
        delayed.advance(SECOND)
    delayed.advance(schedule.AGAIN_MS)
    assert delayed.bodies() == [b"b"]


def test_a_full_disk_is_one_line_of_the_log(
    delayed: Delayed, caplog: pytest.LogCaptureFixture
) -> None:
    """What waited for its time was one more line each second, for each level, as long as the disk was full."""
    delayed.send(1, b"waits")
    delayed.store._state.pause_puts("/data: No space left on device")
    delayed.advance(30 * SECOND)
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    delayed.store._state.resume_puts()
    delayed.advance(5 * SECOND)
    assert [record.levelname for record in caplog.records] == ["ERROR", "WARNING"]
    assert delayed.bodies() == [b"waits"]
