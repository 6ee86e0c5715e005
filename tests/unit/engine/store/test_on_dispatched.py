"""`on_dispatched`: who waits for messages learns which queues have new ones, and needs no look at all the others."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
from support.faults.interrupt_points import Injector, Interrupted, TimedOut

import rmqcore
from rmqcore import Message
from rmqcore._native.threads.bell import Bell
from rmqcore.codec import java_hash
from rmqcore.engine.dispatch.arrivals import Arrival
from rmqcore.errors import StoreClosedError
from rmqcore.services.wakeups import Wakeups
from rmqcore.vocabulary.sysflag import TRANSACTION_PREPARED

SMALL: dict[str, Any] = {
    "mapped_file_size_commit_log": 1 << 14,
    "max_index_num": 1000,
    "max_hash_slot_num": 100,
}
A, B = java_hash("A"), java_hash("B")


def test_what_is_told(tmp_path: Path) -> None:
    """Queues in the order of their numbers, tags in the order of the log; a half message is in no queue."""
    told: list[list[Arrival]] = []
    with rmqcore.open(tmp_path, services=False, **SMALL) as store:
        store.put(Message("before", b"x"))
        store.dispatch_once()
        listening = store.on_dispatched(told.append)
        for queue_id, tags in ((1, "A"), (0, "B"), (1, "B"), (1, None)):
            store.put(Message("t", b"x", queue_id, tags=tags))
        store.put(Message("half", b"x", sys_flag=TRANSACTION_PREPARED))
        assert told == []
        store.dispatch_once()
        assert told == [[Arrival("t", 0, 1, [B]), Arrival("t", 1, 3, [A, B, 0])]]
        assert store.dispatch_once() == 0
        store.put(Message("t", b"x", 1, tags="A"))
        store.dispatch_once()
        assert told[1:] == [[Arrival("t", 1, 4, [A])]]
        listening.remove()
        listening.remove()
        store.put(Message("t", b"x", 1))
        store.dispatch_once()
        assert len(told) == 2


def test_light_queues_are_told_too(tmp_path: Path) -> None:
    told: list[list[Arrival]] = []
    light = {"INNER_MULTI_DISPATCH": "%LMQ%one"}
    with rmqcore.open(
        tmp_path, services=False, enable_lmq=True, enable_multi_dispatch=True, **SMALL
    ) as store:
        with store.on_dispatched(told.append):
            store.put(Message("t", b"x", properties=light)).raise_for_status()
            store.dispatch_once()
        assert {(one.topic, one.next_queue_offset) for one in told[0]} == {
            ("t", 1),
            ("%LMQ%one", 1),
        }


@pytest.mark.parametrize("flush", ["ASYNC_FLUSH", "SYNC_FLUSH"])
def test_beside_threads_each_message_is_told_and_can_be_had(tmp_path: Path, flush: str) -> None:
    """Whatever was under way when the listener came, a native session too; many topics, some of them new."""
    ends: dict[tuple[str, int], int] = {}
    missing: list[object] = []
    everything = threading.Event()
    count = 600

    def hear(arrivals: list[Arrival]) -> None:
        for one in arrivals:
            place = one.topic, one.queue_id
            if store.max_offset(*place) < one.next_queue_offset:
                missing.append(one)
            ends[place] = one.next_queue_offset
            seen[place] = seen.get(place, 0) + len(one.tags_codes)
        if sum(seen.values()) >= count:
            everything.set()

    seen: dict[tuple[str, int], int] = {}
    with rmqcore.open(tmp_path, flush_disk_type=flush, **SMALL) as store:
        store.put(Message("t0", b"x"))
        assert store.wait_dispatched(60)
        store.on_dispatched(hear)
        for number in range(count):
            store.append(Message(f"t{number % 7}", b"x", number // 100))
        assert everything.wait(60)
        assert missing == []
        assert sum(seen.values()) == count
        assert store.wait_dispatched(60)
        assert ends == {
            place: store.max_offset(*place) for place in store.queues() if place in ends
        }
        assert len(ends) == len(store.queues())


def test_who_begins_while_a_session_goes_on_is_told_to_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A session is native, and tells nobody: what it puts into queues behind the begin of a listening was never told."""
    told: list[list[Arrival]] = []
    with rmqcore.open(tmp_path, services=False, **SMALL) as store:
        step = store._dispatch._until

        def begin_then_step(bell: Bell, follow: bool, heard: frozenset[str]) -> bool:
            store.on_dispatched(told.append)
            store.put(Message("t", b"x"))
            return step(bell, follow, heard)

        monkeypatch.setattr(store._dispatch, "_until", begin_then_step)
        store.dispatch_until(Bell(), follow=False)
        assert store.max_offset("t", 0) == 1
        assert told[-1] == []
        monkeypatch.undo()
        store.put(Message("t", b"x"))
        store.dispatch_until(Bell(), follow=False)
        assert told[-1] == [Arrival("t", 0, 2, [0])]


def test_a_listener_of_few_topics_leaves_the_others_to_sessions(tmp_path: Path) -> None:
    """The delay levels of a broker listen for one topic: each window of Python cost a SYNC_MASTER 70 us beside its loop."""
    told: list[Arrival] = []
    plain = {**SMALL, "message_index_enable": False}
    with rmqcore.open(tmp_path, services=False, **plain) as store:
        done = store._dispatch._dispatcher.done

        def put(topic: str) -> int:
            store.put(Message(topic, b"x"))
            before = done.batches
            while store.dispatch_until(Bell(), follow=False):
                pass
            assert store.dispatch_behind_bytes == 0
            return done.batches - before

        put("t")
        put("wanted")
        with store.on_dispatched(told.extend, topics=("wanted", "never")):
            put("t")  # the scan learns the names
            told.clear()
            assert (put("t"), told) == (1, [])
            put("wanted")
            assert told == [Arrival("wanted", 0, 2, [0])]
            assert (put("t"), told) == (1, [Arrival("wanted", 0, 2, [0])])
            with store.on_dispatched(told.extend):
                assert put("t") == 0, "one that wants all hears of all"
                assert told[1].topic == "t"
        told.clear()
        many = [f"topic{number}" for number in range(9)]
        with store.on_dispatched(told.extend, topics=many):
            assert put("t") == 0
        assert told


def test_a_message_wakes_a_dispatch_that_sleeps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No thread looks every millisecond at an idle log: the append itself rings."""
    come, asleep = threading.Event(), threading.Event()
    arm = Wakeups.arm

    def noted(self: Wakeups, *given: Any) -> None:
        arm(self, *given)
        asleep.set()

    monkeypatch.setattr(Wakeups, "arm", noted)
    with rmqcore.open(tmp_path, **SMALL) as store, store.on_dispatched(lambda _: come.set()):
        for _ in range(5):
            assert asleep.wait(60)
            asleep.clear()
            come.clear()
            store.put(Message("t", b"x"))
            assert come.wait(60)


def test_a_callback_that_raises_hurts_nobody(tmp_path: Path) -> None:
    told: list[list[Arrival]] = []
    come = threading.Event()

    def refuse(_: list[Arrival]) -> None:
        raise SystemExit(3)

    def hear(arrivals: list[Arrival]) -> None:
        if not arrivals:  # it began to listen while a session went on
            return
        told.append(arrivals)
        store.put_many([])
        store.flush_consume_queues()
        come.set()

    with rmqcore.open(tmp_path, **SMALL) as store:
        for callback in (refuse, hear):
            store.on_dispatched(callback)
        for _ in range(2):
            come.clear()
            store.put(Message("t", b"x"))
            assert come.wait(60)
        assert (store.failed, len(told)) == (False, 2)
        assert store.stats()["errors"]["on_dispatched"] == "SystemExit: 3"
        with pytest.raises(TypeError, match="callback"):
            store.on_dispatched(None)  # type: ignore[arg-type]
    with pytest.raises(StoreClosedError):
        store.on_dispatched(hear)


def test_an_exception_at_any_place_loses_nothing(tmp_path: Path) -> None:
    """What was dispatched before a Ctrl-C is told after it; perhaps for the second time, never not at all."""

    def work(store: rmqcore.MessageStore) -> None:
        while store.dispatch_once():
            pass

    def told_at(at: int) -> Injector:
        told: list[Arrival] = []
        injector = Injector(at)
        with rmqcore.open(tmp_path / str(at), services=False, **SMALL) as store:
            store.on_dispatched(told.extend)
            for number in range(6):
                store.put(Message("t", b"x", number % 2))
            try:
                injector.run(work, store)
            except (Interrupted, TimedOut):
                work(store)
            store.put(Message("t", b"x"))
            work(store)
            assert {one.queue_id for one in told} == {0, 1}
            assert max(one.next_queue_offset for one in told if one.queue_id == 1) == 3
            assert sum(len(one.tags_codes) for one in told) >= 7
            assert not store.failed
        return injector

    events = told_at(0).events
    for at in range(1, events + 1, events // 30 | 1):  # odd: Ctrl-C and time-outs take turns
        told_at(at)
