"""Statistics of a broker: messages and bytes by topic and group, and totals of puts and gets.

Source: RocketMQ 5.5.0 BrokerStatsManager, StatsItem, StoreStatsService.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from operator import itemgetter

TOPIC_PUT_NUMS, TOPIC_PUT_SIZE = "TOPIC_PUT_NUMS", "TOPIC_PUT_SIZE"
GROUP_GET_NUMS, GROUP_GET_SIZE = "GROUP_GET_NUMS", "GROUP_GET_SIZE"
SNDBCK_PUT_NUMS = "SNDBCK_PUT_NUMS"
BROKER_PUT_NUMS, BROKER_GET_NUMS = "BROKER_PUT_NUMS", "BROKER_GET_NUMS"
NAMES = (
    TOPIC_PUT_NUMS,
    TOPIC_PUT_SIZE,
    GROUP_GET_NUMS,
    GROUP_GET_SIZE,
    SNDBCK_PUT_NUMS,
    BROKER_PUT_NUMS,
    BROKER_GET_NUMS,
)
BETWEEN_TOPIC_AND_GROUP = "@"
MINUTE_STEP_MS, HOUR_STEP_MS, DAY_STEP_MS = 10_000, 600_000, 3_600_000
MINUTE_MOMENTS, HOUR_MOMENTS, DAY_MOMENTS = 7, 7, 25
SECONDS_KEPT = 601
IDLE_STEPS = 26 * DAY_STEP_MS // MINUTE_STEP_MS
"""Steps of ten seconds after which a counter that was not counted up is forgotten: it is 0 for minute, hour and day alike."""
_OF_BROKER = 2
"""Names at the end of `NAMES` that have one counter each, of the broker itself."""
Moment = tuple[int, int, int]
"""Milliseconds since the epoch, value, times."""

_LOG = logging.getLogger("rmqcore.broker")


@dataclass(frozen=True, slots=True)
class StatsSnapshot:
    """Counts over a span of time: sum, per second, per call."""

    sum: int = 0
    tps: float = 0.0
    times: int = 0
    avgpt: float = 0.0


@dataclass(slots=True)
class StatsItem:
    """A counter, with its values at some moments of the last minute, hour and day, and the time of its last increase.

    The moments are lists, which need less than half the memory of deques: counters are many, moments of each are few.
    """

    value: int = 0
    times: int = 0
    counted: int = 0
    minute: list[Moment] = field(default_factory=list)
    hour: list[Moment] = field(default_factory=list)
    day: list[Moment] = field(default_factory=list)

    def sample(self, moments: list[Moment], most: int, step_ms: int, now_ms: int) -> None:
        """Keep the present value of the counter; its value before the first moment is 0."""
        if not moments:
            moments.append((now_ms - step_ms, 0, 0))
        moments.append((now_ms, self.value, self.times))
        if len(moments) > most:
            del moments[0]


def snapshot(moments: Sequence[Moment]) -> StatsSnapshot:
    """Return the counts between the first and the last moment.

    Source: RocketMQ 5.5.0 StatsItem#computeStatsData.
    """
    if len(moments) < 2:
        return StatsSnapshot()
    (first_ms, first, first_times), (last_ms, last, last_times) = moments[0], moments[-1]
    total, times = last - first, last_times - first_times
    span_ms = last_ms - first_ms
    return StatsSnapshot(
        total,
        total * 1000 / span_ms if span_ms > 0 else 0.0,
        times,
        total / times if times > 0 else 0.0,
    )


def minute_tps(item: StatsItem | None) -> float:
    """Return the rate of a counter per second, over the last minute."""
    return 0.0 if item is None else snapshot(item.minute).tps


@dataclass(slots=True)
class DayTotals:
    """A total, and its values at the start of today and of yesterday."""

    total: int = 0
    today_morning: int = 0
    yesterday_morning: int = 0

    def next_day(self) -> None:
        """Note the start of a day."""
        self.yesterday_morning, self.today_morning = self.today_morning, self.total


@dataclass(frozen=True, slots=True)
class Totals:
    """Counts since the broker's start: messages put, gets with and without result, messages returned."""

    at_ms: int
    put: int
    found: int
    missed: int
    transferred: int


class BrokerStats:
    """The counters of one broker. Its methods are called by the loop's thread only.

    Parameters
    ----------
    cluster : str
        The key of the counters for the whole broker.
    now_ms : callable
    is_system : callable
        Returns whether RocketMQ itself uses a topic of this name.
    most_items : int
        Most counters of topics and groups; above it, those that have not changed for longest are dropped.

    Attributes
    ----------
    boot_timestamp_ms : int
    put, found, missed, transferred : int
        As `Totals`.
    put_bytes : int
    put_days, get_days : DayTotals
        Messages put and got, without those of topics that RocketMQ itself uses.
    take_counts : callable
        Adds the counts of native code since its last call. Called each second, and before totals are read.
    """

    def __init__(
        self,
        cluster: str,
        now_ms: Callable[[], int],
        is_system: Callable[[str], bool],
        most_items: int,
    ) -> None:
        self._cluster = cluster
        self._most_items = most_items
        self._count = self._step = 0
        self._now_ms = now_ms
        self._is_system = is_system
        self._items: dict[str, dict[str, StatsItem]] = {name: {} for name in NAMES}
        self.boot_timestamp_ms = now_ms()
        self.put = self.put_bytes = self.found = self.missed = self.transferred = 0
        self.put_days, self.get_days = DayTotals(), DayTotals()
        self._day = _local_day(self.boot_timestamp_ms)
        self.take_counts: Callable[[], object] = lambda: None
        self._seconds: deque[Totals] = deque(maxlen=SECONDS_KEPT)
        self._hour_ms = self._day_ms = self.boot_timestamp_ms
        self.every_second()

    # ---- counting -----------------------------------------------------------------------------------

    def topic_put(self, topic: str, messages: int, msg_size: int) -> None:
        """Count messages that were put into a topic at once, with their bytes in the log."""
        self._add(TOPIC_PUT_NUMS, topic, messages)
        self._add(TOPIC_PUT_SIZE, topic, msg_size)
        self.put_bytes += msg_size
        if not self._is_system(topic):
            self.put_days.total += messages

    def group_get(self, group: str, topic: str, messages: int, msg_size: int) -> None:
        """Count messages that a group received at once, with their bytes in the log."""
        key = f"{topic}{BETWEEN_TOPIC_AND_GROUP}{group}"
        self._add(GROUP_GET_NUMS, key, messages)
        self._add(GROUP_GET_SIZE, key, msg_size)
        if not self._is_system(topic):
            self.get_days.total += messages

    def send_back(self, group: str, topic: str) -> None:
        """Count a message that a group sent back."""
        self._add(SNDBCK_PUT_NUMS, f"{topic}{BETWEEN_TOPIC_AND_GROUP}{group}", 1)

    def broker_put(self, messages: int) -> None:
        """Count messages of any topic that were put at once."""
        self.put += messages
        self._add(BROKER_PUT_NUMS, self._cluster, messages)

    def broker_get(self, messages: int) -> None:
        """Count the messages of one get; 0 for a get that found no messages."""
        if messages:
            self.found += 1
            self.transferred += messages
            self._add(BROKER_GET_NUMS, self._cluster, messages)
        else:
            self.missed += 1

    def _add(self, name: str, key: str, value: int) -> None:
        items = self._items[name]
        item = items.get(key)
        if item is None:
            item = self._new_item(name, key)
        item.value += value
        item.times += 1
        item.counted = self._step

    def _new_item(self, name: str, key: str) -> StatsItem:
        if self._count >= self._most_items:
            self._forget_oldest(self._count - self._most_items * 9 // 10)
        self._count += 1
        item = self._items[name][key] = StatsItem()
        return item

    def _forget_oldest(self, many: int) -> None:
        """Drop the counters that have not changed for longest: a tenth at once, because each call visits all."""
        found = [
            (item.counted, name, key)
            for name in NAMES[:-_OF_BROKER]
            for key, item in self._items[name].items()
        ]
        found.sort(key=itemgetter(0))
        for _, name, key in found[:many]:
            del self._items[name][key]
        self._count -= min(many, len(found))
        text = "dropped %d counters of topics and groups: there are more than maxStatsItems (%d)"
        _LOG.warning(text, min(many, len(found)), self._most_items)

    def topic_deleted(self, topic: str) -> None:
        """Drop the counters of a topic.

        Source: RocketMQ 5.5.0 BrokerStatsManager#onTopicDeleted.
        """
        of_groups = f"{topic}{BETWEEN_TOPIC_AND_GROUP}"
        self._forget(lambda key: key == topic or key.startswith(of_groups))

    def group_deleted(self, group: str) -> None:
        """Drop the counters of a group.

        Source: RocketMQ 5.5.0 BrokerStatsManager#onGroupDeleted.
        """
        of_group = f"{BETWEEN_TOPIC_AND_GROUP}{group}"
        self._forget(lambda key: key.endswith(of_group))

    def _forget(self, goes: Callable[[str], bool]) -> None:
        for name in NAMES[:-_OF_BROKER]:
            items = self._items[name]
            for key in [key for key in items if goes(key)]:
                del items[key]
                self._count -= 1

    # ---- the clock ----------------------------------------------------------------------------------

    def every_second(self) -> None:
        """Keep the totals of this second."""
        self.take_counts()
        totals = Totals(self._now_ms(), self.put, self.found, self.missed, self.transferred)
        self._seconds.append(totals)

    def every_ten_seconds(self) -> None:
        """Keep the present values of the counters for the last minute; when due, also for the last hour and day."""
        now_ms = self._now_ms()
        if _local_day(now_ms) != self._day:
            self._day = _local_day(now_ms)
            self.put_days.next_day()
            self.get_days.next_day()
        hour = now_ms - self._hour_ms >= HOUR_STEP_MS
        day = now_ms - self._day_ms >= DAY_STEP_MS
        self._step += 1
        for items in self._items.values():
            for item in items.values():
                item.sample(item.minute, MINUTE_MOMENTS, MINUTE_STEP_MS, now_ms)
                if hour:
                    item.sample(item.hour, HOUR_MOMENTS, HOUR_STEP_MS, now_ms)
                if day:
                    item.sample(item.day, DAY_MOMENTS, DAY_STEP_MS, now_ms)
        if hour:
            self._forget_idle()
        self._hour_ms = now_ms if hour else self._hour_ms
        self._day_ms = now_ms if day else self._day_ms

    def _forget_idle(self) -> None:
        """Drop the counters that have not changed for longer than the longest reported span of time."""
        for name in NAMES[:-_OF_BROKER]:
            items = self._items[name]
            for key in [k for k, one in items.items() if self._step - one.counted > IDLE_STEPS]:
                del items[key]
                self._count -= 1

    # ---- asking -------------------------------------------------------------------------------------

    def item(self, name: str, key: str) -> StatsItem | None:
        """Return a counter, for example ``TOPIC_PUT_NUMS`` of a topic; None if nothing was counted."""
        return self._items.get(name, {}).get(key)

    def keys(self, name: str) -> list[str]:
        """Return the keys, topics for example, that have a counter with this name."""
        return list(self._items.get(name, ()))

    def rate(self, kind: str, seconds: int) -> float:
        """Return the rate per second over the last `seconds` seconds; `kind` is a field of `Totals`."""
        if len(self._seconds) <= seconds:
            return 0.0  # as in Java, until the broker has run that long
        last, first = self._seconds[-1], self._seconds[-1 - seconds]
        span_ms = last.at_ms - first.at_ms
        if span_ms <= 0:
            return 0.0
        many: int = getattr(last, kind) - getattr(first, kind)
        return many * 1000 / span_ms


def _local_day(timestamp_ms: int) -> tuple[int, int]:
    """Return year and day of a time, in the broker's time zone."""
    here = time.localtime(timestamp_ms / 1000)
    return here.tm_year, here.tm_yday
