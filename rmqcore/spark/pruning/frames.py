"""`rmqcore.spark.optimize` and `rmqcore.spark.sql`."""

from __future__ import annotations

import json
import logging
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rmqcore.spark.options.given_filters import GivenFilter, filters_text, parse_filters
from rmqcore.spark.pruning.java_filters import filters_of
from rmqcore.spark.pruning.java_plans import PlanMaker
from rmqcore.spark.pruning.needs import Need, Needs, needs_of
from rmqcore.spark.pruning.relations import Relation, class_of, leaves_of, relations_of
from rmqcore.spark.runtime.connect import is_connect
from rmqcore.spark.runtime.failures import job_error, short_errors
from rmqcore.spark.source.registration import FORMAT
from rmqcore.spark.storage.store_pin import StorePin, pins_text

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

LOG = logging.getLogger(__name__)
_IN_MEMORY = "org.apache.spark.sql.execution.columnar.InMemoryRelation"
_CHEAP = ("integer", "long")
"""The types of the cheapest columns, cheapest first."""


def optimize(frame: DataFrame) -> DataFrame:
    """Return a frame with the same rows, columns and names that reads only the needed columns and records of its stores.

    Spark passes a Python source neither the columns nor, without losing rows, the conditions of a query. This function
    reads both from Spark's own optimized plan, and plans each store of the frame again: with the columns that the query
    needs, and with the conditions that the native scan can test.

    Parameters
    ----------
    frame : DataFrame
        Any frame: joins, subqueries, views, windows, functions. Its other sources stay unchanged.

    Returns
    -------
    DataFrame
        The given frame if nothing can be left out, and, with a warning, if Spark's plan cannot be inspected: a frame of
        Spark Connect, or of a stream.

    Notes
    -----
    The returned frame reads the same part of each store as the given frame, also while the store grows. Later
    operations can name only the columns of the frame, also where Spark would find others (``orderBy`` behind a
    ``select``). ``now()`` is the time of this call.
    """
    reason = _cannot(frame)
    if reason is not None:
        warnings.warn(
            f"the frame is not optimized: {reason}. Name the columns that it needs", stacklevel=2
        )
        return frame
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        return _optimized(frame)
    except (PySparkException, Py4JError) as error:
        # The plan, or the version of Spark, is unknown.
        warnings.warn(f"the frame is not optimized: {job_error(str(error))}", stacklevel=2)
        return frame


def sql(spark: SparkSession, query: str, args: Any = None, **frames: Any) -> DataFrame:
    """Run a query as ``spark.sql`` does, but read only the needed columns and records of its stores; see `optimize`.

    Parameters
    ----------
    spark : SparkSession
    query : str
        A query over temporary views, tables, or any other source of Spark.
    args, **frames
        As in ``spark.sql``.
    """
    with short_errors():
        return optimize(spark.sql(query, args, **frames))


def _cannot(frame: DataFrame) -> str | None:
    """Return why a frame's plan cannot be read; None if it can."""
    if is_connect(frame):
        return "Spark Connect does not expose its plans"
    return "it is a stream" if frame.isStreaming else None


def _optimized(frame: Any) -> DataFrame:
    spark = frame.sparkSession
    execution = frame._jdf.queryExecution()  # noqa: SLF001
    relations = relations_of(execution.analyzed())
    if not relations:
        LOG.info("nothing to optimize: no store is read")
        return frame  # type: ignore[no-any-return]
    maker = PlanMaker(spark)
    plan = maker.at_this_time(execution.analyzed())
    needs = needs_of(maker, plan, relations)
    changed: dict[tuple[int, ...], Any] = {}
    cached = _cached_ids(execution, relations)
    for group in _groups(relations):
        if not cached & {relation.ids for relation in group}:
            changed |= _changed(spark, maker, group, needs)
    if not changed:
        LOG.info("nothing to optimize: the query needs all that it reads")
        return frame  # type: ignore[no-any-return]
    found = maker.frame(maker.replaced(plan, relations, changed))
    if _shape(found) != _shape(frame):
        LOG.info("not optimized: Spark would no longer find the rows that it has cached")
        return frame  # type: ignore[no-any-return]
    return found


def _cached_ids(execution: Any, relations: Sequence[Relation]) -> set[tuple[int, ...]]:
    """Return the relations that belong, in any of their places, to a part of the plan for which Spark has cached rows."""
    total = Counter(relation.ids for relation in relations)
    read = Counter(relation.ids for relation in relations_of(execution.withCachedData()))
    return {ids for ids, places in total.items() if read[ids] != places}


def _shape(frame: Any) -> tuple[str, int]:
    """Return a frame's schema, and the number of parts of its plan for which Spark has cached rows."""
    java_frame = frame._jdf  # noqa: SLF001
    leaves = leaves_of(java_frame.queryExecution().withCachedData())
    return java_frame.schema().json(), [class_of(leaf) for leaf in leaves].count(_IN_MEMORY)


def _groups(relations: Sequence[Relation]) -> Iterator[list[Relation]]:
    """Group the relations of one source: both sides of a self-join must see the same rows."""
    left = list({relation.ids: relation for relation in relations}.values())
    while left:
        group = [one for one in left if one.shares_source_with(left[0])]
        yield group
        left = [one for one in left if one not in group]


def _changed(
    spark: SparkSession, maker: PlanMaker, group: list[Relation], needs: Needs
) -> dict[tuple[int, ...], Any]:
    """Plan the source of a group again; return the replacement of each relation, or nothing if nothing can be left out."""
    wanted = [needs.by_relation[relation.ids] for relation in group]
    if not all(need.places for need in wanted):
        return {}
    columns = _columns(group[0], wanted)
    options = group[0].options
    filters: list[GivenFilter] = []
    if sum(need.places for need in wanted) == 1 and needs.repeatable and _takes_filters(options):
        filters = filters_of(maker.jvm, wanted[0].conditions)
    if columns == group[0].names and not filters:
        return {}
    LOG.info("of %s only the columns %s", options.get("path", "the source"), ", ".join(columns))
    source = _source(spark, options, columns, filters, maker.pins(group[0]))
    return {
        relation.ids: maker.renumbered(source.newInstance(), relation.attributes)
        for relation in group
    }


def _columns(relation: Relation, wanted: Iterable[Need]) -> list[str]:
    """Return the columns that any of the needs has, in the relation's order; one cheap column if no column is needed."""
    needed = {name for need in wanted for name in need.columns}
    if not needed:
        by_type = {
            attribute.dataType().typeName(): name
            for attribute, name in reversed(
                list(zip(relation.attributes, relation.names, strict=True))
            )
        }
        needed = {next((by_type[one] for one in _CHEAP if one in by_type), relation.names[0])}
    return [name for name in relation.names if name in needed]


def _takes_filters(options: Mapping[str, str]) -> bool:
    return _option(options, "table", "messages").lower() == "messages"


def _source(
    spark: SparkSession,
    options: Mapping[str, str],
    columns: list[str],
    filters: list[GivenFilter],
    pins: Mapping[str, StorePin],
) -> Any:
    """Load a source again, with its stores as they were; return the leaf of its plan."""
    given = {
        name: text
        for name, text in options.items()
        if name.lower() not in ("columns", "filters", "pins", "pushdown")
    }
    if pins:
        given["pins"] = pins_text(pins)
    given["columns"] = json.dumps(columns)
    both = [*parse_filters(_option(options, "filters", "[]")), *filters]
    if both:
        given["filters"] = filters_text(both)
    frame: Any = spark.read.format(FORMAT).options(**given).load()
    return frame._jdf.queryExecution().analyzed()  # noqa: SLF001


def _option(options: Mapping[str, str], name: str, default: str) -> str:
    """Return an option's text; upper and lower case of the name are the same."""
    return next((text for key, text in options.items() if key.lower() == name), default)
