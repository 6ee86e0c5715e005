"""The conditions in Spark's options, and the part of conditions that planning needs."""

from __future__ import annotations

from rmqcore.offline.log.conditions import Conditions
from rmqcore.spark.options.source_options import SourceOptions
from rmqcore.spark.rows.pushdown import take_filters
from rmqcore.spark.splits.planning import Span


def conditions_of(options: SourceOptions, broker: str) -> Conditions:
    """Return the conditions of the options for one store."""
    span = options.span(broker)
    stated = Conditions.of(
        options.topics,
        options.queue_ids,
        options.tags,
        options.keys,
        span.since_ms,
        span.until_ms,
        span.start_phy_offset,
        span.end_phy_offset,
    )
    if not options.filters:
        return stated
    taken = take_filters(options.filters)
    if taken.brokers is not None and broker not in taken.brokers:
        stated = stated.and_also(Conditions(queue_ids=frozenset()))
    return stated.and_also(taken.conditions)


def span_of(conditions: Conditions, max_clock_step_ms: int | None) -> Span:
    """Return the ranges by which planning leaves out files."""
    return Span(
        conditions.start_phy_offset,
        conditions.end_phy_offset,
        conditions.since_ms,
        conditions.until_ms,
        max_clock_step_ms,
    )
