"""Dispatch beside producers, without the GIL.

A thread that took and dropped the GIL for each small batch made a producer in Python wait 180 times a second, 20 microseconds
or more each time, which was the slowest put of a thousand. Now sessions without the GIL go along with the
log, and come back for what is not plain; queues and index are the same, byte by byte.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from support.eventually import eventually

import rmqcore
from rmqcore import Message, MessageStore
from rmqcore._native.dispatch.session import Dispatched
from rmqcore._native.threads.bell import Bell
from rmqcore.engine.dispatch import dispatcher as dispatch
from rmqcore.errors import StoreFailedError
from rmqcore.offline.fsck import fsck
from rmqcore.testing.crash_check import TINY
from rmqcore.testing.recovery_check import contents, errors_of
from rmqcore.vocabulary.sysflag import TRANSACTION_PREPARED, TRANSACTION_ROLLBACK

STEPS: dict[str, Any] = {
    "services": False,
    "mapped_file_size_commit_log": 1 << 20,
    "max_index_num": 5000,
    "max_hash_slot_num": 64,
}


def go_along(store: MessageStore) -> None:
    while store.dispatch_until(Bell(), follow=False):
        pass
    assert store.dispatch_behind_bytes == 0


def done_of(store: MessageStore) -> Dispatched:
    return store._parts.dispatcher.done


def put_plain(store: MessageStore, messages: int, topic: str = "T", queues: int = 2) -> None:
    for number in range(messages):
        key = f"k{number}"
        store.put(Message(topic, b"x" * 100, number % queues, keys=key)).raise_for_status()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[MessageStore]:
    """Queues and index are made, so that what comes next is plain."""
    with rmqcore.open(tmp_path / "store", **STEPS) as store:
        put_plain(store, 2)
        go_along(store)
        yield store
    assert errors_of(tmp_path / "store") == []


@contextmanager
def without_windows(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """In here nothing is left to the dispatcher."""
    with monkeypatch.context() as patched:
        patched.delattr(dispatch.Dispatcher, "dispatch_once")
        yield


def test_what_is_plain_needs_no_window(
    store: MessageStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    batches = done_of(store).batches
    with without_windows(monkeypatch):
        put_plain(store, 1000)
        go_along(store)
        assert store.wait_dispatched(0)
    done = done_of(store)
    assert done.batches > batches
    assert store.max_offset("T", 0) == store.max_offset("T", 1) == 501
    assert [view.queue_offset for view in store.query("T", "k999").messages] == [500]
    last = store.phy_offset_of("T", 1, 500)
    assert last is not None and done.last_phy_offset == last
    view = store.lookup(last)
    assert view is not None and done.last_store_timestamp_ms == view.store_timestamp_ms
    assert done.cq_from == done.index_from == store.reput_from_offset == store.max_phy_offset


def test_a_new_queue_in_the_middle_of_a_batch(store: MessageStore) -> None:
    """Rows before it are put by the session; the window behind it gives them no second time."""
    put_plain(store, 10)
    store.put(Message("T", b"new", 7))
    put_plain(store, 10)
    go_along(store)
    assert store.max_offset("T", 7) == 1
    assert store.max_offset("T", 0) == 11
    assert store._queues._table.repeats == 0
    assert [v.queue_offset for v in store.query("T", "k9").messages] == [5, 10]


def test_a_new_topic_in_the_middle_of_a_batch(store: MessageStore) -> None:
    put_plain(store, 10)
    put_plain(store, 10, "other")
    go_along(store)
    assert store.max_offset("other", 1) == 5
    assert store.max_offset("T", 1) == 6


def test_messages_without_an_entry(store: MessageStore) -> None:
    for number in range(30):
        flag = (0, TRANSACTION_PREPARED, TRANSACTION_ROLLBACK)[number % 3]
        store.put(Message("T", b"x", sys_flag=flag)).raise_for_status()
    go_along(store)
    assert store.max_offset("T", 0) == 11


def test_a_session_goes_along_until_its_bell_rings(tmp_path: Path) -> None:
    bell = Bell()
    with rmqcore.open(tmp_path / "store", services=False) as store:
        done = done_of(store)
        put_plain(store, 10)
        go_along(store)
        with producing(lambda: put_plain(store, 10)):
            wanted = done.batches + 30
            while done.batches < wanted:
                store.dispatch_until(bell, follow=True)
            assert done.sessions < wanted / 2
            bell.ring()
            put_plain(store, 1)
            sessions, batches = done.sessions, done.batches
            assert store.dispatch_until(
                bell, follow=True
            )  # what is there is dispatched all the same
            assert (done.sessions, done.batches) == (sessions + 1, batches + 1)
        bell.clear()
        while store.dispatch_until(bell, follow=True):
            pass
        assert store.dispatch_behind_bytes == 0


def test_far_behind_large_batches_are_taken(
    store: MessageStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dispatch, "FAR_BEHIND", 20_000)
    monkeypatch.setattr(dispatch, "NEAR_AGAIN", 1_000)
    put_plain(store, 1000)
    sessions = done_of(store).sessions
    go_along(store)
    assert done_of(store).sessions <= sessions + 1
    assert store.max_offset("T", 0) == 501


def test_a_queue_that_cannot_be_written_fails_the_store(tmp_path: Path) -> None:
    store = rmqcore.open(tmp_path / "store", **STEPS)
    put_plain(store, 2)
    go_along(store)
    store._queues._table.close_files()
    queue = tmp_path / "store" / "consumequeue" / "T" / "0"
    queue.rename(tmp_path / "elsewhere")
    queue.write_bytes(b"")
    put_plain(store, 2)
    end = store.reput_from_offset
    with pytest.raises(StoreFailedError, match="consumequeue/T/0"):
        store.dispatch_until(Bell(), follow=True)
    assert store.failed and store.reput_from_offset == end
    store.close()


def test_further_queues_are_left_to_the_dispatcher(tmp_path: Path) -> None:
    with rmqcore.open(
        tmp_path / "store", **STEPS, enable_lmq=True, enable_multi_dispatch=True
    ) as store:
        for _ in range(5):
            store.put(Message("T", b"x", properties={"INNER_MULTI_DISPATCH": "%LMQ%a"}))
            go_along(store)
        assert store.max_offset("%LMQ%a", 0) == 5
        assert done_of(store).sessions == 0


@pytest.mark.parametrize("config", [TINY, STEPS, {**TINY, "message_index_enable": False}])
@pytest.mark.parametrize("seed", range(3))
def test_the_same_bytes_as_by_windows(tmp_path: Path, seed: int, config: dict[str, Any]) -> None:
    """Two stores get the same messages; of one the log is dispatched window by window, of the other along with the puts."""
    roots = tmp_path / "windows", tmp_path / "sessions"
    for number, root in enumerate(roots):
        rng, now = random.Random(seed), count(1_700_000_000_000)
        settings = {**config, "services": False}
        with rmqcore.open(root, clock=lambda now=now: next(now), **settings) as store:  # type: ignore[misc]
            for at in range(700):
                store.put(some_message(rng, at)).raise_for_status()
                if rng.random() < 0.1:
                    step(store, by_session=number == 1)
            step(store, by_session=number == 1)
            assert (done_of(store).batches > 0) == (number == 1)
    windows, sessions = (
        {
            name: data
            for name, data in contents(root).items()
            if name.startswith(("consumequeue", "commitlog"))
        }
        for root in roots
    )
    assert windows == sessions and len(windows) > 4
    indexes = [[path.read_bytes() for path in sorted((root / "index").glob("*"))] for root in roots]
    assert indexes[0] == indexes[1]
    assert [one for one in fsck(roots[1]).findings if one.severity != "info"] == []


def step(store: MessageStore, *, by_session: bool) -> None:
    if by_session:
        go_along(store)
    else:
        store.wait_dispatched()


def some_message(rng: random.Random, number: int) -> Message:
    topic = rng.choice(["T", "T", "T", "U", f"topic-{number // 100}"])
    return Message(
        topic,
        rng.randbytes(rng.choice([0, 10, 300])),
        rng.choice([0, 0, 1, 5]),
        tags=rng.choice([None, "A", "B"]),
        keys=[f"k{number}", "more"][: rng.randrange(3)],
        sys_flag=rng.choice([0, 0, 0, TRANSACTION_PREPARED]),
    )


@contextmanager
def producing(*producers: Callable[[], object]) -> Iterator[None]:
    """In here threads repeat these; whatever happens they are stopped."""
    over = threading.Event()

    def repeat(produce: Callable[[], object]) -> None:
        while not over.is_set():
            produce()

    with ThreadPoolExecutor(len(producers)) as pool:
        running = [pool.submit(repeat, produce) for produce in producers]
        try:
            yield
        finally:
            over.set()
        for thread in running:
            thread.result(60)


# ---- with threads ---------------------------------------------------------------------------------------


BATCHES_A_SESSION = 20
"""At least, where nothing but its time ends a session. A thread that takes the GIL for each batch has one."""


def test_a_producer_that_keeps_the_gil_is_rarely_asked_for_it(tmp_path: Path) -> None:
    """Nothing in the loop lets go of the GIL: each time that dispatch wants it the producer is stopped for it."""
    with rmqcore.open(tmp_path / "store") as store:
        put_plain(store, 10)
        assert store.wait_dispatched(60)
        done = done_of(store)
        windows = Windows(store)
        put, body, number = store.put, b"x" * 100, 0

        def is_rarely_asked() -> bool:
            """Put for a moment. Other work of the machine may stop the producer, and end a session that would go on."""
            nonlocal number
            sessions, batches, windows.count = done.sessions, done.batches, 0
            for _ in range(200_000):
                put(Message("T", body, number % 4))
                number += 1
            asked = max(done.sessions - sessions, windows.count)
            return 0 < BATCHES_A_SESSION * asked <= done.batches - batches

        eventually(is_rarely_asked)
        assert store.wait_dispatched(60)
        assert sum(store.max_offset("T", queue) for queue in range(4)) >= number


class Windows:
    """Counts how often dispatch comes back to Python for a window."""

    def __init__(self, store: MessageStore) -> None:
        self.count = 0
        dispatcher = store._parts.dispatcher
        step = dispatcher.dispatch_once

        def counted(*args: int) -> int:
            self.count += 1
            return step(*args)

        dispatcher.dispatch_once = counted  # type: ignore[method-assign,assignment]


def test_an_idle_store_begins_no_session(tmp_path: Path) -> None:
    with rmqcore.open(tmp_path / "store") as store:
        put_plain(store, 10)
        assert store.wait_dispatched(60)

        def idles() -> bool:
            sessions = done_of(store).sessions
            time.sleep(1)  # no session may start in this time; in the first round one may end
            return done_of(store).sessions == sessions

        eventually(idles)
        assert idles()
        for number in range(5):  # and the next message is dispatched all the same
            put_plain(store, 1)
            eventually(lambda: store.dispatch_behind_bytes == 0)
            assert store.max_offset("T", 0) == 6 + number


@pytest.mark.parametrize("mode", ["ASYNC_FLUSH", "SYNC_FLUSH"])
def test_who_waits_is_answered_while_others_put(tmp_path: Path, mode: str) -> None:
    with (
        rmqcore.open(tmp_path / "store", flush_disk_type=mode) as store,
        producing(lambda: put_plain(store, 10)),
    ):
        for _ in range(50):
            result = store.put(Message("mine", b"x"))
            assert store.wait_dispatched(60)
            assert store.max_offset("mine", 0) > result.queue_offset


QUESTIONS = 2000


def test_questions_and_cleaning_beside_sessions(tmp_path: Path) -> None:
    """Nobody waits for a session: not for a queue that does not exist, nor for its own change of the queues."""
    config: dict[str, Any] = {
        "mapped_file_size_commit_log": 1 << 20,
        "mapped_file_size_consume_queue": 20_000,
        "max_index_num": 100_000,
        "max_hash_slot_num": 1000,
    }
    with rmqcore.open(tmp_path / "store", **config) as store:
        rounds = count()

        def produce() -> None:
            number = next(rounds)
            put_plain(store, 20, "TU"[number % 2])
            if number % 50 == 0:
                put_plain(store, 1, f"topic-{number // 50}")
            time.sleep(0.001)  # its pace: sessions go on, and the log stays small

        with producing(produce, produce):

            def many_within_few_sessions() -> bool:
                """Ask and clean. With other work of the machine sessions end between any two questions."""
                sessions = done_of(store).sessions
                for asked in range(QUESTIONS):
                    with store.get("nobody", asked % 7, 0) as result:
                        assert not result.messages
                    store._queues.correct_min_offsets(store.min_phy_offset)
                    store._queues.delete_expired(store.min_phy_offset)
                    for queue_id in (0, 1):
                        end = store.max_offset("T", queue_id)
                        if end:
                            (view,) = store.get("T", queue_id, end - 1, 1).messages
                            assert view.queue_offset == end - 1
                # One that waits for a session sees it end.
                return done_of(store).sessions - sessions < QUESTIONS / 2

            eventually(many_within_few_sessions)
        assert store.wait_dispatched(60)
        ends = {queue: store.max_offset(*queue) for queue in store.queues()}
    assert errors_of(tmp_path / "store") == []
    assert sum(ends.values()) == sum(1 for _ in rmqcore.read(tmp_path / "store").messages())


def test_close_beside_a_session_dispatches_the_rest(tmp_path: Path) -> None:
    for number in range(10):
        store = rmqcore.open(tmp_path / f"store-{number}", **TINY)
        put_plain(store, 50 + number * 37)
        store.close()
        assert errors_of(tmp_path / f"store-{number}") == []
