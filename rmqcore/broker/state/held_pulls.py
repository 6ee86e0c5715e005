"""Pulls that found no messages and wait for them: woken by the dispatch, ended by the clock.

Source: RocketMQ 5.5.0 PullRequestHoldService, NotifyMessageArrivingListener.
"""

from __future__ import annotations

import heapq
import logging
from collections.abc import Callable, Collection, Iterable
from functools import partial
from typing import Protocol, TypeVar

from rmqcore.broker.channel import Channel, Loop, Timer
from rmqcore.engine.dispatch.arrivals import MOST_TOPICS, Arrival, ArrivalCallback, Listening
from rmqcore.vocabulary.units import DAY_MS

TICK_MS = 20
"""Deadlines are rounded up to whole ticks: pulls that end in one tick share its timer."""
LONGEST_MS = DAY_MS
"""A pull is not held for longer, whatever it asks for."""
CHECK_PERIOD_MS = 5_000
"""So often all queues with held pulls are looked at, as in Java."""
LINGER_MS = 50
"""It listens so much longer than a pull is held: a client that gets messages one by one pulls again at once."""
MOST_AT_ONCE = 200
"""Pulls that are answered without a pause, some milliseconds: a message can wake thousands."""
_K = TypeVar("_K")
_LOG = logging.getLogger("rmqcore.broker")


class ArrivalStore(Protocol):
    """The part of a store that held pulls use."""

    def on_dispatched(
        self, callback: ArrivalCallback, topics: Iterable[str] | None = None
    ) -> Listening:
        """Call back after each dispatch of these topics, and possibly of others."""
        ...

    def max_offset(self, topic: str, queue_id: int) -> int:
        """Return the queue offset after a queue's last dispatched message."""
        ...


class HeldPull:
    """A pull that waits.

    Parameters
    ----------
    channel : Channel
        The pull is forgotten when the channel closes.
    topic : str
    queue_id : int
    max_offset : int
        End of the queue when the pull read it: the pull waits for messages from there on.
    wants : callable
        Returns whether one of the new messages may pass the pull's filter.
    run : callable
        Sends the answer to the pull, in the loop's thread.
    refuse : callable
        Answers the pull with a refusal: the memory for held pulls is full. Either `run` or `refuse` is called, once.
    memory_bytes : int
        Estimated bytes of the pull while it is held.
    """

    __slots__ = ("channel", "max_offset", "memory_bytes", "queue", "refuse", "run", "tick", "wants")

    def __init__(
        self,
        channel: Channel,
        topic: str,
        queue_id: int,
        max_offset: int,
        *,
        wants: Callable[[Arrival], bool],
        run: Callable[[], object],
        refuse: Callable[[], object],
        memory_bytes: int,
    ) -> None:
        self.channel = channel
        self.queue = topic, queue_id
        self.max_offset = max_offset
        self.wants = wants
        self.run = run
        self.refuse = refuse
        self.memory_bytes = memory_bytes
        self.tick = 0


class HeldPulls:
    """All held pulls of a broker. Its methods are called by the loop's thread only.

    It listens to the dispatch of a topic only while a pull of the topic is held and a moment longer: a dispatch without
    a listener needs no Python. Above `MOST_TOPICS` topics it listens to all.

    Parameters
    ----------
    loop : Loop
    store : MessageStore
    steady_ms : callable
        The clock.
    most_bytes : int
        Most bytes of all held pulls; above it, pulls of the connection that holds most are refused.
    """

    def __init__(
        self, loop: Loop, store: ArrivalStore, steady_ms: Callable[[], int], most_bytes: int
    ) -> None:
        self._most_bytes = most_bytes
        self._bytes = 0
        self._bytes_of: dict[Channel, int] = {}
        self._loop = loop
        self._store = store
        self._steady_ms = steady_ms
        self._by_queue: dict[tuple[str, int], dict[HeldPull, None]] = {}
        self._by_channel: dict[Channel, dict[HeldPull, None]] = {}
        self._of_topic: dict[str, int] = {}  # the number of held pulls
        self._by_tick: dict[int, dict[HeldPull, None]] = {}
        self._ticks: list[int] = []  # a heap of the keys of _by_tick, which go in their time
        self._timer: Timer | None = None
        self._timer_tick: int | None = None
        self._listening: Listening | None = None
        self._listening_ends: Timer | None = None

    def __len__(self) -> int:
        return sum(map(len, self._by_channel.values()))

    # ---- coming and going

    def hold(self, pull: HeldPull, timeout_ms: int) -> None:
        """Hold a pull until a wanted message arrives or its time is over; messages since its read of the queue count.

        If the limit is reached, the oldest pulls of the connection with the most bytes are refused, or this pull if
        that is its own connection.
        """
        if not self._makes_room(pull):
            pull.refuse()
            return
        self._count(pull, pull.memory_bytes)
        deadline_ms = self._steady_ms() + min(max(timeout_ms, 0), LONGEST_MS)
        pull.tick = -(-deadline_ms // TICK_MS)
        self._by_queue.setdefault(pull.queue, {})[pull] = None
        self._by_channel.setdefault(pull.channel, {})[pull] = None
        if pull.tick not in self._by_tick:
            self._by_tick[pull.tick] = {}
            heapq.heappush(self._ticks, pull.tick)
            self._set_timer()
        self._by_tick[pull.tick][pull] = None
        topic = pull.queue[0]
        self._of_topic[topic] = self._of_topic.get(topic, 0) + 1
        if not self._hears(topic):
            heard = self._listening.topics if self._listening is not None else None
            self._listen({*self._of_topic, *(heard or ())})
            # Messages that arrived between the pull's read of the queue and the listening were not reported.
            if self._store.max_offset(*pull.queue) > pull.max_offset:
                self._loop.call_soon_threadsafe(partial(self._wake, [pull]))

    def _makes_room(self, pull: HeldPull) -> bool:
        """Refuse pulls of the connections that hold most until a pull fits; return whether it fits."""
        wanted = self._bytes_of.get(pull.channel, 0) + pull.memory_bytes
        while self._bytes + pull.memory_bytes > self._most_bytes:
            largest = max(self._bytes_of, key=self._bytes_of.__getitem__, default=pull.channel)
            if self._bytes_of.get(largest, 0) <= wanted:
                self._tell_full(pull.channel, wanted)
                return False
            self._tell_full(largest, self._bytes_of[largest])
            oldest = next(iter(self._by_channel[largest]))
            self._remove(oldest)
            oldest.refuse()
        return True

    def _tell_full(self, channel: Channel, held: int) -> None:
        text = (
            "%s: its held pulls use %d bytes, more than any other client's; the limit "
            "maxHeldPullBytes (%d) is reached, and pulls are refused"
        )
        _LOG.warning(text, channel.peer, held, self._most_bytes)

    def _count(self, pull: HeldPull, size: int) -> None:
        """Count the bytes of a pull; negative when the pull ends."""
        self._bytes += size
        held = self._bytes_of.get(pull.channel, 0) + size
        if held:
            self._bytes_of[pull.channel] = held
        else:
            del self._bytes_of[pull.channel]

    def channel_closed(self, channel: Channel) -> None:
        """Forget the pulls of a connection without an answer."""
        for pull in list(self._by_channel.get(channel, ())):
            self._remove(pull)

    def close(self) -> None:
        """Forget all pulls without an answer."""
        for channel in list(self._by_channel):
            self.channel_closed(channel)
        self._by_tick.clear()
        self._ticks.clear()
        self._set_timer()
        if self._listening_ends is not None:
            self._listening_ends.cancel()
        self._listen_less()

    def _remove(self, pull: HeldPull) -> bool:
        """Forget a pull; return whether it was held."""
        held = _discard(self._by_queue, pull.queue, pull)
        if held:
            self._count_down(pull.queue[0])
        if _discard(self._by_channel, pull.channel, pull):
            self._count(pull, -pull.memory_bytes)
        self._by_tick.get(pull.tick, {}).pop(pull, None)
        return held

    def _count_down(self, topic: str) -> None:
        """Count a pull of a topic as ended; after the last one, listening to the topic ends a moment later."""
        self._of_topic[topic] -= 1
        if not self._of_topic[topic]:
            del self._of_topic[topic]
            if self._listening_ends is None:
                self._listening_ends = self._loop.call_later(LINGER_MS / 1000, self._listen_less)

    # ---- listening

    def _hears(self, topic: str) -> bool:
        """Return whether messages of a topic are reported."""
        listening = self._listening
        return listening is not None and (listening.topics is None or topic in listening.topics)

    def _listen_less(self) -> None:
        """Listen only to the topics of pulls that are held now."""
        self._listening_ends = None
        self._listen(self._of_topic)

    def _listen(self, topics: Collection[str]) -> None:
        """Replace the topics that are listened to; if there are too many, listen to all."""
        old = self._listening
        heard = frozenset(topics) if len(topics) <= MOST_TOPICS else None
        if old is not None and old.topics == heard:
            return
        # The new registration first: otherwise a message could arrive while no listener is registered.
        self._listening = self._store.on_dispatched(self._dispatched, heard) if topics else None
        if old is not None:
            old.remove()

    # ---- messages

    def _dispatched(self, arrivals: list[Arrival]) -> None:
        """Pass arrivals to the loop; called by the dispatching thread."""
        self._loop.call_soon_threadsafe(partial(self._arrived, arrivals))

    def _arrived(self, arrivals: list[Arrival]) -> None:
        """Wake the pulls that want one of the new messages; with no arrivals, check all: reports may be missing."""
        if not arrivals:
            self.check()
        for arrival in arrivals:
            waiting = self._by_queue.get((arrival.topic, arrival.queue_id), ())
            self._wake(
                pull
                for pull in list(waiting)
                if arrival.next_queue_offset > pull.max_offset and _wants(pull, arrival)
            )

    def check(self) -> None:
        """Wake the pulls whose queues have new messages, wanted or not: the next pull begins behind these.

        Source: RocketMQ 5.5.0 PullRequestHoldService#checkHoldRequest.
        """
        for queue, waiting in list(self._by_queue.items()):
            max_offset = self._store.max_offset(*queue)
            self._wake(pull for pull in list(waiting) if max_offset > pull.max_offset)

    # ---- the clock

    def _set_timer(self) -> None:
        """Set the one timer to the first tick."""
        tick = self._ticks[0] if self._ticks else None
        if tick == self._timer_tick:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._timer_tick = None, tick
        if tick is not None:
            delay_ms = max(0, tick * TICK_MS - self._steady_ms())
            self._timer = self._loop.call_later(delay_ms / 1000, self._expire)

    def _expire(self) -> None:
        """Answer the pulls whose time is over."""
        self._timer, self._timer_tick = None, None
        now_ms = self._steady_ms()
        while self._ticks and self._ticks[0] * TICK_MS <= now_ms:
            self._wake(self._by_tick.pop(heapq.heappop(self._ticks)))
        self._set_timer()

    # ---- answers

    def _wake(self, pulls: Iterable[HeldPull]) -> None:
        """Answer pulls that are still held: some now, the others after the loop has handled all other events."""
        self._run([pull for pull in pulls if self._remove(pull)])

    def _run(self, pulls: list[HeldPull]) -> None:
        """Answer pulls; an error of one of them does not affect the others."""
        for pull in pulls[:MOST_AT_ONCE]:
            try:
                pull.run()
            except Exception:  # noqa: BLE001 a bug in one answer must not end the round of all
                _LOG.exception("a held pull of %s", pull.channel.peer)
        if len(pulls) > MOST_AT_ONCE:
            self._loop.call_soon_threadsafe(partial(self._run, pulls[MOST_AT_ONCE:]))


def _discard(table: dict[_K, dict[HeldPull, None]], key: _K, pull: HeldPull) -> bool:
    """Remove a pull from a table; return whether the table had it."""
    pulls = table.get(key)
    if pulls is None or pull not in pulls:
        return False
    del pulls[pull]
    if not pulls:
        del table[key]
    return True


def _wants(pull: HeldPull, arrival: Arrival) -> bool:
    """Return whether a pull wants a message; if its filter raises, wake the pull, whose answer reports the error."""
    try:
        return pull.wants(arrival)
    except Exception:  # noqa: BLE001 as above
        _LOG.exception("the filter of a held pull of %s", pull.channel.peer)
        return True
