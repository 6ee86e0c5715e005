"""Held pulls: none is lost, none is answered twice, whatever comes first: a message, the clock, the end of the connection."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.broker import FakeChannel, FakeLoop

import rmqcore
from rmqcore import Message
from rmqcore.broker.state.held_pulls import (
    LINGER_MS,
    LONGEST_MS,
    MOST_AT_ONCE,
    TICK_MS,
    HeldPull,
    HeldPulls,
)
from rmqcore.engine.dispatch.arrivals import MOST_TOPICS, Arrival, ArrivalCallback, Listening

MOST_BYTES = 10_000_000


class Queues:
    """The queues of a store, as far as held pulls see them."""

    def __init__(self) -> None:
        self.ends: dict[tuple[str, int], int] = {}
        self.callbacks: dict[Listening, ArrivalCallback] = {}
        self.begins = 0
        self.while_beginning: Callable[[], object] = lambda: None

    def on_dispatched(
        self, callback: ArrivalCallback, topics: Iterable[str] | None = None
    ) -> Listening:
        self.while_beginning()
        self.begins += 1
        heard = None if topics is None else frozenset(topics)
        return Listening(self.callbacks, callback, heard)

    @property
    def topics(self) -> list[set[str] | None]:
        """What each listener wants to hear of."""
        return [None if one.topics is None else set(one.topics) for one in self.callbacks]

    def max_offset(self, topic: str, queue_id: int) -> int:
        return self.ends.get((topic, queue_id), 0)

    def come(self, topic: str, queue_id: int, *codes: int) -> None:
        """Dispatch new messages, and tell who listens."""
        end = self.ends[topic, queue_id] = self.max_offset(topic, queue_id) + len(codes)
        self.tell([Arrival(topic, queue_id, end, list(codes))])

    def tell(self, arrivals: list[Arrival]) -> None:
        for callback in list(self.callbacks.values()):
            callback(arrivals)


def held_pull(channel: FakeChannel, max_offset: int, run: Callable[[], object]) -> HeldPull:
    """Make a pull that wants all messages and is never refused."""

    def refuse() -> None:
        raise AssertionError("there is room")

    return HeldPull(
        channel,
        "t",
        0,
        max_offset,
        wants=lambda _: True,
        run=run,
        refuse=refuse,
        memory_bytes=1_000,
    )


class Broker:
    """Held pulls with all that they need, and a list of those that were answered."""

    def __init__(self) -> None:
        self.loop = FakeLoop()
        self.queues = Queues()
        self.held = HeldPulls(self.loop, self.queues, self.loop.clock, MOST_BYTES)
        self.channel = FakeChannel()
        self.answered: list[str] = []
        self.refused: list[str] = []

    def hold(
        self,
        name: str,
        queue_id: int = 0,
        *,
        topic: str = "t",
        wants: Callable[[Arrival], bool] = lambda arrival: True,
        timeout_ms: int = 15_000,
        channel: FakeChannel | None = None,
        seen: int | None = None,
        memory_bytes: int = 1_000,
    ) -> None:
        end = self.queues.max_offset(topic, queue_id) if seen is None else seen
        pull = HeldPull(
            channel or self.channel,
            topic,
            queue_id,
            end,
            wants=wants,
            run=lambda: self.answered.append(name),
            refuse=lambda: self.refused.append(name),
            memory_bytes=memory_bytes,
        )
        self.held.hold(pull, timeout_ms)


def test_a_message_wakes_the_pulls_of_its_queue() -> None:
    broker = Broker()
    broker.hold("a")
    broker.hold("b")
    broker.hold("c", 1)
    broker.queues.come("t", 0, 1)
    assert broker.answered == []
    broker.loop.run()
    assert broker.answered == ["a", "b"]
    broker.queues.come("t", 0, 1)
    broker.loop.run()
    assert broker.answered == ["a", "b"]
    assert len(broker.held) == 1


def test_a_message_that_the_filter_refuses_wakes_nobody() -> None:
    broker = Broker()
    broker.hold("a", wants=lambda arrival: 7 in arrival.tags_codes)
    broker.queues.come("t", 0, 5, 6)
    broker.loop.run()
    assert broker.answered == []
    broker.queues.come("t", 0, 5, 7)
    broker.loop.run()
    assert broker.answered == ["a"]


def test_the_look_at_all_queues_asks_no_filter() -> None:
    """So a client whose tags are rare learns in time that the queue went on, and begins behind what it does not want."""
    broker = Broker()
    broker.hold("a", wants=lambda arrival: False)
    broker.hold("b", 1, wants=lambda arrival: False)
    broker.queues.come("t", 0, 5)
    broker.loop.run()
    broker.held.check()
    assert broker.answered == ["a"]


def test_what_a_pull_has_seen_does_not_wake_it() -> None:
    """A batch may be told twice, and the pull may have read its messages between the dispatch and the telling."""
    broker = Broker()
    broker.hold("other", 1)
    broker.queues.come("t", 0, 5)
    broker.hold("a")
    broker.loop.run()
    broker.queues.tell([Arrival("t", 0, 1, [5])])
    broker.loop.run()
    broker.held.check()
    assert broker.answered == []


def test_a_message_between_the_look_and_the_holding() -> None:
    """It came when nobody listened, so nobody tells of it: the pull itself looks again when it begins to listen."""
    broker = Broker()
    broker.queues.ends["t", 0] = 4
    broker.hold("a", seen=3)
    assert broker.answered == []
    broker.loop.run()
    assert broker.answered == ["a"]


def test_a_message_while_the_listening_begins() -> None:
    broker = Broker()
    broker.queues.while_beginning = lambda: broker.queues.come("t", 0, 1)
    broker.hold("a", seen=0)
    broker.loop.run()
    assert broker.answered == ["a"]


def test_what_was_not_told_is_looked_for() -> None:
    """An empty list says so: a native session of the dispatch was under way when the listening began."""
    broker = Broker()
    broker.hold("a")
    broker.hold("b", 1)
    broker.queues.ends["t", 1] = 1
    broker.queues.tell([])
    broker.loop.run()
    assert broker.answered == ["b"]


def test_it_listens_only_while_a_pull_is_held_and_a_moment_longer() -> None:
    """A dispatch that nobody listens to is native; a client that gets messages one by one pulls again at once."""
    broker = Broker()
    assert not broker.queues.callbacks
    broker.hold("a")
    broker.hold("b", 1)
    assert (len(broker.queues.callbacks), broker.queues.begins) == (1, 1)
    broker.queues.come("t", 0, 1)
    broker.loop.run()
    assert len(broker.queues.callbacks) == 1
    broker.held.channel_closed(broker.channel)
    broker.loop.advance(LINGER_MS - 1)
    broker.hold("c")
    broker.loop.advance(10 * LINGER_MS)
    assert (len(broker.queues.callbacks), broker.queues.begins) == (1, 1)
    broker.held.channel_closed(broker.channel)
    broker.loop.advance(LINGER_MS)
    assert not broker.queues.callbacks
    broker.hold("d")
    assert broker.queues.begins == 2
    broker.held.close()
    assert not broker.queues.callbacks
    broker.loop.advance(60_000)
    assert broker.answered == ["a"]
    assert broker.loop.waiting_timers() == 0


def test_it_listens_to_the_topics_of_held_pulls_alone() -> None:
    """It listened to all topics: while one pull waited, messages of all others were dispatched in Python."""
    broker = Broker()
    broker.hold("a", topic="A")
    assert broker.queues.topics == [{"A"}]
    broker.hold("a1", 1, topic="A")
    broker.hold("b", topic="B")
    assert (broker.queues.topics, broker.queues.begins) == ([{"A", "B"}], 2)
    broker.queues.come("A", 0, 1)
    broker.queues.come("B", 0, 1)
    broker.loop.run()
    assert broker.answered == ["a", "b"]
    broker.loop.advance(LINGER_MS - 1)
    assert broker.queues.topics == [{"A", "B"}]
    broker.loop.advance(1)
    assert broker.queues.topics == [{"A"}]
    broker.hold("b1", topic="B", seen=0)  # another message came while B was not listened to
    broker.loop.run()
    assert broker.answered == ["a", "b", "b1"]
    broker.held.close()
    assert broker.queues.topics == []


def test_it_listens_to_all_where_pulls_of_many_topics_are_held() -> None:
    broker = Broker()
    for number in range(3 * MOST_TOPICS):
        broker.hold(str(number), topic=f"t{number}")
    assert (broker.queues.topics, broker.queues.begins) == ([None], MOST_TOPICS + 1)
    for number in range(1, 3 * MOST_TOPICS):
        broker.queues.come(f"t{number}", 0, 1)
    broker.loop.run()
    broker.loop.advance(LINGER_MS)
    assert (broker.queues.topics, len(broker.answered)) == ([{"t0"}], 3 * MOST_TOPICS - 1)


def test_one_timer_ends_all_pulls_in_time() -> None:
    broker = Broker()
    begin_ms = broker.loop.now_ms
    ended: dict[str, int] = {}
    for number in range(1000):
        broker.hold(str(number), number, timeout_ms=1_000 + 7 * number)
    assert broker.loop.waiting_timers() == 1
    while len(broker.held):
        broker.loop.advance(1)
        assert broker.loop.waiting_timers() <= 2  # the other one ends the listening
        for name in broker.answered:
            ended.setdefault(name, broker.loop.now_ms - begin_ms)
    for number in range(1000):
        late = ended[str(number)] - (1_000 + 7 * number)
        assert 0 <= late <= TICK_MS
    assert len(broker.answered) == 1000
    broker.loop.advance(LINGER_MS)
    assert broker.loop.waiting_timers() == 0


@pytest.mark.parametrize("timeout_ms", [0, -1, -(1 << 63)])
def test_a_pull_without_time_ends_at_once(timeout_ms: int) -> None:
    broker = Broker()
    broker.hold("a", timeout_ms=timeout_ms)
    broker.loop.advance(TICK_MS)
    assert broker.answered == ["a"]


def test_no_pull_is_held_for_longer_than_a_day() -> None:
    broker = Broker()
    broker.hold("a", timeout_ms=(1 << 63) - 1)
    broker.loop.advance(LONGEST_MS + TICK_MS)
    assert broker.answered == ["a"]


def test_a_closed_connection_takes_its_pulls_along() -> None:
    broker = Broker()
    other = FakeChannel()
    broker.hold("a")
    broker.hold("b", channel=other)
    broker.held.channel_closed(broker.channel)
    broker.queues.come("t", 0, 1)
    broker.loop.advance(60_000)
    assert broker.answered == ["b"]


def test_what_one_answer_raises_hurts_no_other(caplog: pytest.LogCaptureFixture) -> None:
    broker = Broker()

    def refuse(arrival: Arrival) -> bool:
        raise ValueError("no filter")

    def fail() -> None:
        raise ValueError("no answer")

    broker.held.hold(held_pull(broker.channel, 0, fail), 1000)
    broker.hold("a", wants=refuse)
    broker.hold("b")
    broker.queues.come("t", 0, 1)
    broker.loop.run()
    assert broker.answered == ["a", "b"]
    assert "no filter" in caplog.text
    assert "no answer" in caplog.text


def test_thousands_that_are_woken_at_once_keep_nobody_waiting() -> None:
    broker = Broker()
    for number in range(3 * MOST_AT_ONCE):
        broker.hold(str(number))
    broker.queues.come("t", 0, 1)
    at: list[int] = []
    broker.loop.call_soon_threadsafe(lambda: at.append(len(broker.answered)))
    broker.loop.run()
    assert at == [MOST_AT_ONCE]
    assert broker.answered == [str(number) for number in range(3 * MOST_AT_ONCE)]
    assert len(broker.held) == 0


def test_a_pull_that_is_held_again_by_its_answer() -> None:
    """The answer of one pull may bring the next one of the same client, which waits for what comes behind."""
    broker = Broker()
    broker.held.hold(held_pull(broker.channel, 0, lambda: broker.hold("next")), 1000)
    broker.queues.come("t", 0, 1)
    broker.loop.run()
    assert broker.answered == []
    broker.queues.come("t", 0, 1)
    broker.loop.run()
    assert broker.answered == ["next"]


def wanting(tag: int) -> Callable[[Arrival], bool]:
    """Want one tag; 0 is all."""
    return lambda arrival: not tag or tag in arrival.tags_codes


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("hold"), st.integers(0, 1), st.integers(0, 2), st.integers(0, 90)),
        st.tuples(st.just("come"), st.integers(0, 1), st.lists(st.integers(1, 2), max_size=3)),
        st.tuples(st.just("untold"), st.integers(0, 1)),
        st.tuples(st.just("close"), st.integers(0, 1)),
        st.tuples(st.just("time"), st.integers(1, 60)),
        st.tuples(st.just("run")),
    ),
    max_size=40,
)


@given(STEPS)
def test_no_pull_is_lost_and_none_is_answered_twice(steps: list[tuple[object, ...]]) -> None:
    """Of each pull a slow model keeps what it waits for: where it began, which tags it wants, when it ends."""
    broker = Broker()
    channels = [FakeChannel("0"), FakeChannel("1")]
    log: dict[int, list[int]] = {0: [], 1: []}  # by queue the tags of all messages
    waiting: dict[str, tuple[int, int, int, int]] = {}  # queue, begin, tag (0: all), deadline
    closed: set[str] = set()
    for number, step in enumerate(steps):
        match step:
            case ("hold", int(queue_id), int(tag), int(timeout_ms)):
                name = f"{number % 2}-{number}"
                broker.hold(
                    name,
                    queue_id,
                    wants=wanting(tag),
                    timeout_ms=timeout_ms,
                    channel=channels[number % 2],
                )
                deadline_ms = broker.loop.now_ms + timeout_ms
                waiting[name] = queue_id, len(log[queue_id]), tag, deadline_ms
            case ("come", int(queue_id), list(tags)):
                log[queue_id] += tags
                if tags:
                    broker.queues.come("t", queue_id, *tags)
            case ("untold", int(queue_id)):
                log[queue_id].append(1)
                broker.queues.ends["t", queue_id] = len(log[queue_id])
                broker.queues.tell([])
            case ("close", int(who)):
                broker.held.channel_closed(channels[who])
                closed |= {name for name in waiting if name.startswith(f"{who}-")}
            case ("time", int(passed)):
                broker.loop.advance(passed)
            case _:
                broker.loop.run()
        assert len(set(broker.answered)) == len(broker.answered)
    broker.loop.run()
    for name, (queue_id, begin, tag, deadline_ms) in waiting.items():
        new = log[queue_id][begin:]
        comes = bool(new) if not tag else tag in new
        over = broker.loop.now_ms >= deadline_ms + TICK_MS
        if name in closed:
            continue
        if comes or over:
            assert name in broker.answered
        elif not new and broker.loop.now_ms < deadline_ms:
            assert name not in broker.answered
    assert len(broker.held) == len(set(waiting) - closed - set(broker.answered))
    broker.loop.advance(200)
    assert set(waiting) - closed <= set(broker.answered)
    assert len(set(broker.answered)) == len(broker.answered)
    assert not broker.queues.callbacks


def test_beside_threads_no_message_is_missed(tmp_path: Path) -> None:
    """A pull is held, woken, and held again thousands of times while another thread stores: each time the listening begins anew.

    The dispatch goes along natively while nobody listens, so a begin falls into all of its moments.
    """
    count = 3000
    loop = FakeLoop()
    with rmqcore.open(tmp_path, mapped_file_size_commit_log=1 << 20) as store:
        held, channel = HeldPulls(loop, store, loop.clock, MOST_BYTES), FakeChannel()
        seen = 0
        begins = 0

        def pull() -> None:
            nonlocal seen, begins
            held.close()  # nothing is held: it listens no more
            end = store.max_offset("t", 0)
            if end > seen:
                seen = end
                loop.call_soon_threadsafe(pull)
            elif seen < count:
                begins += 1
                one = held_pull(channel, end, pull)
                held.hold(one, 3_600_000)

        def store_all() -> None:
            for number in range(count):
                store.append(Message("t", b"x"))
                if number % 50 == 0:
                    store.wait_dispatched(60)

        thread = threading.Thread(target=store_all)
        pull()
        thread.start()
        # Time stands still: neither a timer nor a look at all queues helps a pull that was passed over.
        loop.run_until(lambda: seen == count)
        thread.join()
        assert begins > 0
        assert len(held) == 0


def test_above_the_bound_pulls_of_the_connection_are_refused_that_holds_most() -> None:
    """A connection held pulls until the broker's memory was full, whatever others needed."""
    broker, greedy, quiet = Broker(), FakeChannel("greedy"), FakeChannel("quiet")
    size = MOST_BYTES // 10
    broker.hold("q0", channel=quiet, memory_bytes=size)
    for number in range(9):
        broker.hold(f"g{number}", channel=greedy, memory_bytes=size)
    assert broker.refused == []
    broker.hold("g9", channel=greedy, memory_bytes=size)
    assert broker.refused == ["g9"], "it holds most itself"
    broker.hold("q1", channel=quiet, memory_bytes=size)
    assert broker.refused == ["g9", "g0"], "its oldest one makes room"
    broker.queues.come("t", 0, 1)
    broker.loop.run()
    assert sorted(broker.answered) == [*(f"g{number}" for number in range(1, 9)), "q0", "q1"]
    broker.hold("more", channel=greedy, memory_bytes=MOST_BYTES)
    broker.held.channel_closed(greedy)
    broker.hold("last", channel=quiet, memory_bytes=MOST_BYTES)
    broker.hold("too large", channel=FakeChannel("3"), memory_bytes=MOST_BYTES + 1)
    assert broker.refused == ["g9", "g0", "too large"]
    assert len(broker.held) == 1
