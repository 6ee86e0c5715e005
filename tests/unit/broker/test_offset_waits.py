"""Messages that wait for one thing: the store is asked for the first alone, and each gets its own answer."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
from support.broker import FakeLoop

from rmqcore.broker.offset_waits import Heard, OffsetWaits
from rmqcore.errors import StoreFailedError
from rmqcore.vocabulary.status import PutMessageStatus

OK, LATE = PutMessageStatus.PUT_OK, PutMessageStatus.FLUSH_SLAVE_TIMEOUT
LOST = PutMessageStatus.UNKNOWN_ERROR
HOUR_MS = 3_600_000


class Asked:
    """A store that remembers what it is asked, and answers when a test does."""

    def __init__(self) -> None:
        self.safe_to = 0
        self.asks: list[tuple[int, Heard]] = []
        self.fails = False

    def on_replicated(self, end_phy_offset: int, callback: Heard, timeout_ms: int) -> None:
        assert timeout_ms >= 0
        if self.fails:
            raise StoreFailedError("just now")
        self.asks.append((end_phy_offset, callback))

    def reach(self, phy_offset: int) -> None:
        """Answer as a store does: all whose message is safe, with PUT_OK."""
        self.safe_to = phy_offset
        safe = [ask for ask in self.asks if ask[0] <= phy_offset]
        self.asks = [ask for ask in self.asks if ask[0] > phy_offset]
        for _, callback in safe:
            callback(OK)


class Waits:
    """`OffsetWaits` with a list of the answers."""

    def __init__(self, timeout_ms: int = HOUR_MS) -> None:
        self.store, self.loop = Asked(), FakeLoop()
        self.all = OffsetWaits(
            self.loop, self.store.on_replicated, lambda: self.store.safe_to, LATE, timeout_ms
        )
        self.heard: list[tuple[int, PutMessageStatus]] = []

    def add(self, *ends: int) -> None:
        for end in ends:
            self.all.add(end, self.noting(end))

    def noting(self, end: int) -> Callable[[PutMessageStatus], None]:
        return lambda status: self.heard.append((end, status))


def test_the_store_is_asked_for_the_first_alone() -> None:
    """A callback of the store for each of 64 sends cost a SYNC_MASTER more than the sends."""
    waits = Waits()
    waits.add(*range(10, 650, 10))
    assert [end for end, _ in waits.store.asks] == [10]
    waits.store.reach(630)
    assert waits.heard == [(end, OK) for end in range(10, 640, 10)]
    assert [end for end, _ in waits.store.asks] == [640]
    waits.store.reach(640)
    assert (len(waits.heard), len(waits.all)) == (64, 0)


def test_messages_that_are_safe_are_answered_in_the_order_of_their_ends() -> None:
    waits = Waits()
    waits.add(20, 10, 40, 30)
    assert [end for end, _ in waits.store.asks] == [20, 10]
    waits.store.reach(10)
    assert waits.heard == [(10, OK)]
    waits.store.reach(40)
    assert waits.heard == [(end, OK) for end in (10, 20, 30, 40)]
    assert not waits.store.asks


def test_a_late_one_keeps_none_behind_it_from_an_answer() -> None:
    waits = Waits()
    waits.add(10, 20, 30)
    (_, callback), waits.store.asks = waits.store.asks[0], []
    callback(LATE)
    assert waits.heard == [(10, LATE)]
    assert [end for end, _ in waits.store.asks] == [20]
    waits.store.reach(30)
    assert waits.heard == [(10, LATE), (20, OK), (30, OK)]


def test_all_whose_time_is_over_are_answered_at_once() -> None:
    waits = Waits(timeout_ms=0)
    waits.add(10, 20)
    waits.store.safe_to = 10
    waits.store.asks[0][1](LATE)
    assert waits.heard == [(10, OK), (20, LATE)]
    assert len(waits.all) == 0


def test_an_answer_in_another_thread_comes_in_the_loop() -> None:
    waits = Waits()
    waits.add(10)
    other = threading.Thread(target=waits.store.reach, args=(10,))
    other.start()
    other.join()
    assert waits.heard == []
    waits.loop.run()
    assert waits.heard == [(10, OK)]


def test_a_store_that_fails_answers_all() -> None:
    waits = Waits()
    waits.add(10, 20, 30)
    waits.store.safe_to = 10
    waits.store.asks[0][1](LOST)
    assert waits.heard == [(10, OK), (20, LOST), (30, LOST)]


def test_a_store_that_fails_between_two_answers_answers_all() -> None:
    waits = Waits()
    waits.add(10, 20, 30)
    waits.store.fails = True
    waits.store.reach(10)
    assert waits.heard == [(10, OK), (20, LOST), (30, LOST)]


def test_a_store_that_has_failed_lists_nothing() -> None:
    waits = Waits()
    waits.store.fails = True
    with pytest.raises(StoreFailedError):
        waits.add(10)
    assert (waits.heard, len(waits.all)) == ([], 0)


def test_one_that_raises_keeps_none_from_its_answer(caplog: pytest.LogCaptureFixture) -> None:
    waits = Waits()
    waits.all.add(5, lambda _: 1 / 0)
    waits.add(10)
    waits.store.reach(10)
    assert waits.heard == [(10, OK)]
    assert "ZeroDivisionError" in caplog.text
