"""SQL92 filters of consumer groups, compiled once for all pulls that do not bring their own.

Source: RocketMQ 5.5.0 ConsumerFilterManager, ConsumerFilterData.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from rmqcore.broker.sql92.sql_filter import SqlFilter
from rmqcore.errors import FilterExpressionError
from rmqcore.remoting.bodies.heartbeat import SQL92, TAG, SubscriptionData

FILTER_DATA_CLEAN_TIME_SPAN_MS = 24 * 3_600_000
"""How long the filter of a group stays that is gone."""


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
        When its group went; 0 while it is there.
    """

    sql_filter: SqlFilter
    client_version: int
    born_ms: int
    dead_ms: int = 0


class ConsumerFilters:
    """The filters of all groups. Its methods are called by the loop's thread only."""

    def __init__(self) -> None:
        self._filters: dict[tuple[str, str], ConsumerFilterData] = {}

    def __len__(self) -> int:
        return len(self._filters)

    def get(self, group: str, topic: str) -> ConsumerFilterData | None:
        """Give the filter of a group for a topic."""
        return self._filters.get((group, topic))

    def register(self, group: str, subscriptions: Iterable[SubscriptionData], now_ms: int) -> None:
        """Take what a group subscribes to; its filters for other topics are dead from now on.

        An expression that is none takes the filter away: pulls are then told that there is none.
        """
        listed = set()
        for wanted in subscriptions:
            listed.add(wanted.topic)
            if not is_tag_type(wanted.expression_type) and wanted.sub_string:
                self._register(group, wanted, now_ms)
        for (owner, topic), data in self._filters.items():
            if owner == group and topic not in listed and not data.dead_ms:
                data.dead_ms = now_ms

    def _register(self, group: str, wanted: SubscriptionData, now_ms: int) -> None:
        place = group, wanted.topic
        known = self._filters.get(place)
        if known is not None and wanted.sub_version <= known.client_version:
            if wanted.sub_version == known.client_version:
                known.dead_ms = 0
        elif known is not None and known.sql_filter.text == wanted.sub_string:
            known.client_version, known.dead_ms = wanted.sub_version, 0
        else:
            self._filters.pop(place, None)
            sql_filter = compile_filter(wanted)
            if sql_filter is not None:
                self._filters[place] = ConsumerFilterData(sql_filter, wanted.sub_version, now_ms)

    def unregister(self, group: str, now_ms: int) -> None:
        """Note that a group is gone; when it comes back with the same filters, they are still there."""
        for (owner, _), data in self._filters.items():
            if owner == group and not data.dead_ms:
                data.dead_ms = now_ms

    def clean(self, now_ms: int) -> None:
        """Forget the filters whose groups are gone for a day."""
        for place, data in list(self._filters.items()):
            if data.dead_ms and now_ms - data.dead_ms >= FILTER_DATA_CLEAN_TIME_SPAN_MS:
                del self._filters[place]


def is_tag_type(expression_type: str | None) -> bool:
    """Whether an expression is one of tags, as it also is where no type is given."""
    return expression_type is None or expression_type in ("", TAG)


def compile_filter(wanted: SubscriptionData) -> SqlFilter | None:
    """Give the filter of a subscription; None where its expression is none."""
    if wanted.expression_type != SQL92:
        return None
    try:
        return SqlFilter(wanted.sub_string)
    except FilterExpressionError:
        return None
