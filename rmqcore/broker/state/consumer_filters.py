"""SQL92 filters of consumer groups, compiled once for all pulls without an own one; in ``config/consumerFilter.json``.

Source: RocketMQ 5.5.0 ConsumerFilterManager, ConsumerFilterData.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from rmqcore.broker.config_files import ConfigFiles
from rmqcore.broker.sql92.bloom_positions import BIT_NUM, bit_positions
from rmqcore.broker.sql92.sql_filter import SqlFilter
from rmqcore.broker.state.client_memory import filter_bytes
from rmqcore.errors import FilterExpressionError
from rmqcore.remoting.bodies.heartbeat import SQL92, TAG, SubscriptionData
from rmqcore.remoting.bodies.json_object import JsonObject
from rmqcore.vocabulary.units import DAY_MS

FILE = "consumerFilter.json"
SAVE_PERIOD_MS = 10_000
DEAD_BEFORE_START_MS = 30_000
"""How long a group counts as gone when a broker starts, where it was there when the file was written."""
FILTER_DATA_CLEAN_TIME_SPAN_MS = DAY_MS
"""How long the filter of a group stays that is gone."""
_Entry = tuple[str, str, str, int, int, int]
"""Group, topic, expression, clientVersion, bornTime, deadTime."""
_LOG = logging.getLogger("rmqcore.broker")


@dataclass(slots=True)
class ConsumerFilterData:
    """The filter of a group for a topic.

    Attributes
    ----------
    sql_filter : SqlFilter
    client_version : int
        The subscription's ``subVersion``.
    born_ms : int
    dead_ms : int
        Time at which its group lost its last member; 0 while it has members.
    """

    sql_filter: SqlFilter
    client_version: int
    born_ms: int
    dead_ms: int = 0


class ConsumerFilters:
    """The filters of all groups. Its methods are called by the loop's thread only.

    Parameters
    ----------
    files : ConfigFiles
    now_ms : int
        The current time.
    most_dead_bytes : int
        Most bytes of the filters of groups that are gone; above it those gone for longest are dropped.

    Raises
    ------
    StoreFormatError
        ``consumerFilter.json`` cannot be read, nor its ``.bak``.
    """

    def __init__(self, files: ConfigFiles, now_ms: int, most_dead_bytes: int) -> None:
        self._files = files
        self._most_dead_bytes = most_dead_bytes
        self._filters: dict[str, dict[str, ConsumerFilterData]] = {}
        self._dead: dict[tuple[str, str], None] = {}  # the first one has been dead for longest
        self._dead_bytes = 0
        self._changed = False
        for place, saved in files.load_as(FILE, _parse) or ():
            self._take(place, saved, now_ms)
        self._dead = dict.fromkeys(sorted(self._dead, key=self._dead_since))
        self._changed = False
        self._drop_oldest_dead()

    def __len__(self) -> int:
        return sum(map(len, self._filters.values()))

    def get(self, group: str, topic: str) -> ConsumerFilterData | None:
        """Return the filter of a group for a topic."""
        return self._filters.get(group, {}).get(topic)

    def _take(self, place: tuple[str, str], saved: _Saved, now_ms: int) -> None:
        """Register a filter from the file; its group has no members yet."""
        group, topic = place
        sql_filter = compile_filter(saved.expression_type, saved.expression)
        if sql_filter is None:
            wrong = (
                f"the {saved.expression_type} filter {saved.expression!r} of group {group} for "
                f"topic {topic} does not compile."
            )
            self._files.left_out(FILE, wrong)
            return
        dead_ms = saved.dead_ms or max(saved.born_ms, now_ms - DEAD_BEFORE_START_MS)
        data = ConsumerFilterData(sql_filter, saved.client_version, saved.born_ms)
        self._filters.setdefault(group, {})[topic] = data
        self._set_dead(place, data, dead_ms)

    def _dead_since(self, place: tuple[str, str]) -> int:
        return self._filters[place[0]][place[1]].dead_ms

    def _set_dead(self, place: tuple[str, str], data: ConsumerFilterData, dead_ms: int) -> None:
        """Note since when a filter's group is gone; 0 if the group has members."""
        self._changed |= dead_ms != data.dead_ms
        if dead_ms and not data.dead_ms:
            self._dead[place] = None
            self._dead_bytes += filter_bytes(data.sql_filter.text)
        elif data.dead_ms and not dead_ms:
            del self._dead[place]
            self._dead_bytes -= filter_bytes(data.sql_filter.text)
        data.dead_ms = dead_ms

    def _remove(self, group: str, topic: str) -> None:
        """Remove a filter, if it exists."""
        topics = self._filters.get(group, {})
        data = topics.get(topic)
        if data is None:
            return
        self._set_dead((group, topic), data, 0)
        del topics[topic]
        if not topics:
            del self._filters[group]
        self._changed = True

    def _drop_oldest_dead(self) -> None:
        """Remove filters of groups that are gone, until the rest fits in `most_dead_bytes`."""
        dropped = 0
        while self._dead_bytes > self._most_dead_bytes:
            self._remove(*next(iter(self._dead)))
            dropped += 1
        if dropped:
            text = (
                "%s: dropped %d filters of groups without members: they exceed maxDeadFilterBytes "
                "(%d)"
            )
            _LOG.warning(text, FILE, dropped, self._most_dead_bytes)

    def register(self, group: str, subscriptions: Iterable[SubscriptionData], now_ms: int) -> None:
        """Register a group's subscriptions; its filters for other topics are dead from now on.

        An invalid expression removes the filter; later pulls get FILTER_DATA_NOT_EXIST.
        """
        listed = set()
        for wanted in subscriptions:
            listed.add(wanted.topic)
            if not is_tag_type(wanted.expression_type) and wanted.sub_string:
                self._register(group, wanted, now_ms)
        self._mark_dead(group, now_ms, listed)

    def _register(self, group: str, wanted: SubscriptionData, now_ms: int) -> None:
        known = self.get(group, wanted.topic)
        if known is not None and wanted.sub_version <= known.client_version:
            if wanted.sub_version == known.client_version:
                self._set_dead((group, wanted.topic), known, 0)
            return
        self._changed = True
        if known is not None and known.sql_filter.text == wanted.sub_string:
            known.client_version = wanted.sub_version
            self._set_dead((group, wanted.topic), known, 0)
            return
        self._remove(group, wanted.topic)
        sql_filter = compile_filter(wanted.expression_type, wanted.sub_string)
        if sql_filter is not None:
            data = ConsumerFilterData(sql_filter, wanted.sub_version, now_ms)
            self._filters.setdefault(group, {})[wanted.topic] = data

    def unregister(self, group: str, now_ms: int) -> None:
        """Note that a group is gone; its filters stay for the case that it returns with the same ones."""
        self._mark_dead(group, now_ms)

    def _mark_dead(self, group: str, now_ms: int, but: Iterable[str] = ()) -> None:
        """Mark the filters of a group as dead for all topics but some."""
        for topic, data in self._filters.get(group, {}).items():
            if topic not in but and not data.dead_ms:
                self._set_dead((group, topic), data, now_ms)
        self._drop_oldest_dead()

    def clean(self, now_ms: int) -> None:
        """Remove the filters whose groups have been gone for one day."""
        for place in list(self._dead):
            if now_ms - self._dead_since(place) >= FILTER_DATA_CLEAN_TIME_SPAN_MS:
                self._remove(*place)

    def save_if_changed(self) -> None:
        """Write the file if a filter has changed since the last write."""
        if self._changed:
            self._changed = False
            self._files.save(FILE, self.snapshot)

    def snapshot(self) -> Callable[[], dict[str, Any]]:
        """Return a function that returns the contents of the file, by Java's names, and that any thread may call."""
        return partial(_of_entries, list(self._entries()))

    def _entries(self) -> Iterator[_Entry]:
        for group, topics in self._filters.items():
            for topic, data in topics.items():
                text = data.sql_filter.text
                yield group, topic, text, data.client_version, data.born_ms, data.dead_ms


def _of_entries(entries: list[_Entry]) -> dict[str, Any]:
    topics: dict[str, Any] = {}
    for group, topic, expression, client_version, born_ms, dead_ms in entries:
        groups = topics.setdefault(topic, {"groupFilterData": {}, "topic": topic})
        groups["groupFilterData"][group] = {
            "bloomFilterData": {
                "bitNum": BIT_NUM,
                "bitPos": bit_positions(f"{group}#{topic}"),
            },
            "bornTime": born_ms,
            "clientVersion": client_version,
            "consumerGroup": group,
            "dead": bool(dead_ms),
            "deadTime": dead_ms,
            "expression": expression,
            "expressionType": SQL92,
            "topic": topic,
        }
    return {"filterDataByTopic": topics}


@dataclass(frozen=True, slots=True)
class _Saved:
    """A filter in the form of the file."""

    expression: str
    expression_type: str
    client_version: int
    born_ms: int
    dead_ms: int


def _parse(saved: dict[str, Any]) -> list[tuple[tuple[str, str], _Saved]]:
    return [
        ((group, topic), _saved(data))
        for topic, groups in JsonObject(FILE, "", saved).table("filterDataByTopic")
        for group, data in groups.table("groupFilterData")
    ]


def _saved(data: JsonObject) -> _Saved:
    return _Saved(
        data.text("expression", ""),
        data.text("expressionType", ""),
        data.number("clientVersion", 0),
        data.number("bornTime", 0),
        data.number("deadTime", 0),
    )


def is_tag_type(expression_type: str | None) -> bool:
    """Return True if the expression type is TAG, or missing."""
    return expression_type is None or expression_type in ("", TAG)


def compile_filter(expression_type: str | None, expression: str) -> SqlFilter | None:
    """Compile the filter of a subscription; None if its expression is invalid."""
    if expression_type != SQL92:
        return None
    try:
        return SqlFilter(expression)
    except FilterExpressionError:
        return None
