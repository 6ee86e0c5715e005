"""`rmqcore.spark.optimize`: what is read of a store, and where a frame stays as it is."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from support.spark.spark_rows import golden_rows, message_rows, store_of

import rmqcore.spark
from rmqcore.spark.options.given_filters import GivenFilter, filters_text, parse_filters
from rmqcore.spark.options.source_options import SourceOptions
from rmqcore.spark.pruning.relations import Relation, relations_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@pytest.fixture
def messages(spark: SparkSession, golden: Path) -> Iterator[DataFrame]:
    frame = spark.read.format("rmqstore").load(str(store_of(golden, "basic")))
    frame.createOrReplaceTempView("messages")
    yield frame
    spark.catalog.clearCache()


def reads(frame: Any) -> list[Relation]:
    """What a frame reads of stores."""
    return relations_of(frame._jdf.queryExecution().withCachedData())


def columns_of(frame: DataFrame) -> list[list[str]]:
    return [relation.names for relation in reads(frame)]


@pytest.mark.parametrize(
    ("query", "columns"),
    [
        ("SELECT count(*) FROM messages", ["queue_id"]),
        ("SELECT topic, count(*) FROM messages GROUP BY topic", ["topic"]),
        ("SELECT upper(t) FROM (SELECT topic t, body b FROM messages)", ["topic"]),
        ("SELECT TOPIC FROM messages WHERE Tags = 'TagA'", ["topic", "tags"]),
        ("SELECT properties['KEYS'] FROM messages", ["properties"]),
        ("SELECT topic, row_number() OVER (PARTITION BY topic ORDER BY phy_offset) FROM messages",
         ["topic", "phy_offset"]),
        ("SELECT CASE WHEN now() > '2001-01-01' THEN topic ELSE hex(body) END FROM messages", ["topic"]),
    ],
)  # fmt: skip
def test_only_what_the_query_needs(
    spark: SparkSession, messages: DataFrame, query: str, columns: list[str]
) -> None:
    """An unnamed count decoded twenty columns, and took four times as long as a named one."""
    assert len(columns_of(spark.sql(query))[0]) == 20
    assert columns_of(rmqcore.spark.sql(spark, query)) == [columns]


def test_other_tables_too(spark: SparkSession, golden: Path) -> None:
    for table, column in (("segments", "file_size"), ("queues", "topic"), ("corrupt", "kind")):
        source = spark.read.format("rmqstore").option("table", table)
        frame = source.load(str(store_of(golden, "basic"))).where(f"{column} IS NOT NULL")
        found = rmqcore.spark.optimize(frame.select(column))
        assert columns_of(found) == [[column]]
        assert found.collect() == frame.select(column).collect()


def test_options_and_schemas_stay(spark: SparkSession, golden: Path) -> None:
    source = spark.read.format("rmqstore").options(Topics="TopicBasicA", PROPERTIES="string")
    frame = source.schema("queue_id int, properties string, crc_ok boolean")
    chosen = frame.load([str(store_of(golden, "basic"))]).selectExpr("length(properties)", "crc_ok")
    found = rmqcore.spark.optimize(chosen)
    assert columns_of(found) == [["properties", "crc_ok"]]
    assert found.collect() == chosen.collect()
    assert found.count() == len(message_rows(store_of(golden, "basic"), topics=["TopicBasicA"]))


# ---- conditions ---------------------------------------------------------------------------------------


def filters_of(frame: DataFrame) -> list[tuple[str, str]]:
    """The filters that the sources of a frame are planned for."""
    return [
        (kind, column)
        for relation in reads(frame)
        for kind, column, _ in json.loads(relation.options.get("filters", "[]"))
    ]


def test_conditions_go_to_the_scan(spark: SparkSession, messages: DataFrame, golden: Path) -> None:
    query = "SELECT phy_offset FROM messages WHERE topic IN ('TopicBasicA', 'x') AND queue_id = 1 AND length(tags) > 2"
    found = rmqcore.spark.sql(spark, query)
    taken = [("In", "topic"), ("EqualTo", "queue_id")]
    assert filters_of(found) == taken
    rows = message_rows(store_of(golden, "basic"), topics=["TopicBasicA"], queue_ids=[1])
    assert [row[0] for row in found.collect()] == [
        row["phy_offset"] for row in rows if len(row["tags"] or "") > 2
    ]
    again = rmqcore.spark.optimize(found.where("phy_offset > 9000"))
    assert set(filters_of(again)) == {*taken, ("GreaterThan", "phy_offset")}


def test_the_scan_of_a_query_gives_only_what_its_conditions_leave(
    spark: SparkSession, messages: DataFrame, golden: Path
) -> None:
    """Measured behind the source: the rows that its plan gives to the filter of Spark."""
    at = golden_rows(golden, "basic")[700]["store_timestamp"]
    query = f"SELECT queue_id FROM messages WHERE store_timestamp < '{at}' AND broker = 'basic' AND topic = 'TopicBasicA'"
    found: Any = rmqcore.spark.sql(spark, query)
    expected = found.count()
    assert 0 < expected < 700
    (relation,) = reads(found)
    options = {name: text for name, text in relation.options.items() if name != "columns"}
    assert spark.read.format("rmqstore").options(**options).load().count() == expected


@pytest.mark.parametrize(
    "query",
    [
        "SELECT a.topic FROM messages a JOIN messages b USING (phy_offset) WHERE a.queue_id = 1 AND b.topic = 'x'",
        "WITH c AS (SELECT * FROM messages) SELECT tags FROM c WHERE queue_id = 1 UNION ALL SELECT tags FROM c",
        "SELECT rand() FROM messages WHERE queue_id = 1",
        "SELECT queue_id FROM messages TABLESAMPLE (50 PERCENT) WHERE queue_id = 1",
        "SELECT tags FROM messages WHERE queue_id = 1 OR topic = 'TopicBasicA'",
        "SELECT queue_id FROM messages WHERE store_timestamp > '0001-02-03' AND store_timestamp < '+12345-01-01'",
    ],
)
def test_conditions_that_stay_with_spark(
    spark: SparkSession, messages: DataFrame, query: str
) -> None:
    """They hold for one of two reads, or rows are drawn by lot, or they are no filters."""
    found = rmqcore.spark.sql(spark, query)
    assert {*map(len, columns_of(found))} <= {1, 2, 3}
    assert filters_of(found) == []


def test_both_sides_of_a_self_join_are_one_read(messages: DataFrame) -> None:
    """Two reads of a store that is written to would be planned at two times."""
    joined = messages.alias("a").join(messages.alias("b"), "phy_offset")
    found = rmqcore.spark.optimize(joined.select("phy_offset", "a.topic", "b.tags"))
    left, right = reads(found)
    assert left.shares_source_with(right)
    assert left.names == right.names == ["topic", "phy_offset", "tags"]


def test_the_text_of_filters() -> None:
    given = (
        GivenFilter("In", ("topic",), ("a", "\x01")),
        GivenFilter("EqualTo", ("queue_id",), 3),
    )
    assert parse_filters(filters_text(given)) == given
    for text in ("", "x", "[1]", '[["In", "topic"]]', '[["LessThan", "store_timestamp", {}]]'):
        with pytest.raises(ValueError, match=r"option filters: .* expected filters as"):
            SourceOptions.parse({"filters": text})


# ---- what a frame is behind it ------------------------------------------------------------------------


def test_columns_that_were_left_out_cannot_be_named(messages: DataFrame) -> None:
    """Spark finds a column again that a select left out: here it would sort by nulls."""
    from pyspark.errors import AnalysisException

    chosen = messages.select("topic")
    assert len(chosen.orderBy("body").head(1)) == 1
    found = rmqcore.spark.optimize(chosen)
    with pytest.raises(AnalysisException):
        found.orderBy("body")
    with pytest.raises(AnalysisException):
        found.where(messages["body"].isNull())


def test_columns_that_it_has_can_be_named_as_before(messages: DataFrame) -> None:
    chosen = messages.alias("m").select("m.topic", "m.queue_id")
    found = rmqcore.spark.optimize(chosen)
    for condition in (messages["queue_id"] == 1, chosen["queue_id"] == 1, "m.queue_id = 1"):
        assert found.where(condition).count() == messages.where("queue_id = 1").count()
    assert found.select("m.topic").columns == ["topic"]


# ---- frames that stay as they are ---------------------------------------------------------------------


def test_nothing_to_gain(spark: SparkSession, messages: DataFrame) -> None:
    for frame in (messages, spark.range(3), spark.sql("SELECT topic FROM messages WHERE 1 = 0")):
        assert rmqcore.spark.optimize(frame) is frame


def test_cached_rows_are_used(spark: SparkSession, messages: DataFrame, golden: Path) -> None:
    cached = messages.where("queue_id = 1").cache()
    frame = cached.groupBy("topic").count()
    assert rmqcore.spark.optimize(frame) is frame
    both = cached.join(messages.select("phy_offset", "tags"), "phy_offset").select("topic")
    assert rmqcore.spark.optimize(both) is both
    other = spark.read.format("rmqstore").load(str(store_of(golden, "delay")))
    joined = cached.join(other, cached["queue_offset"] == other["queue_offset"]).select(
        other["tags"]
    )
    found: Any = rmqcore.spark.optimize(joined)
    assert columns_of(found) == [["queue_offset", "tags"]]
    assert "InMemoryRelation" in found._jdf.queryExecution().optimizedPlan().toString()
    assert found.count() == joined.count()


def test_a_stream(spark: SparkSession, golden: Path) -> None:
    frame = spark.readStream.format("rmqstore").load(str(store_of(golden, "basic")))
    with pytest.warns(UserWarning, match="not optimized: it is a stream"):
        assert rmqcore.spark.optimize(frame) is frame


def test_a_plan_that_cannot_be_seen(messages: DataFrame, monkeypatch: pytest.MonkeyPatch) -> None:
    from py4j.protocol import Py4JError

    from rmqcore.spark.pruning import frames

    other: Any = type("DataFrame", (), {"__module__": "pyspark.sql.connect.dataframe"})()
    with pytest.warns(UserWarning, match="Spark Connect does not expose its plans"):
        assert rmqcore.spark.optimize(other) is other

    def fails(frame: DataFrame) -> DataFrame:
        raise Py4JError("no such method")

    monkeypatch.setattr(frames, "_optimized", fails)
    with pytest.warns(UserWarning, match="not optimized: no such method"):
        assert rmqcore.spark.optimize(messages) is messages
