"""Tables and views of SQL over stores, in a real session: made, read, described and dropped, with the stores as they were."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from support.spark.sink_writes import SMALL
from support.spark.spark_rows import golden_rows, store_of

import rmqcore.spark
from rmqcore.spark.pruning.relations import relations_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Sql:
    """Runs statements over two golden stores."""

    def __init__(self, spark: SparkSession, golden: Path) -> None:
        self.spark = spark
        self.basic, self.delay = (str(store_of(golden, case)) for case in ("basic", "delay"))

    def __call__(self, text: str) -> list[tuple[Any, ...]]:
        text = text.replace("$BASIC", self.basic).replace("$DELAY", self.delay)
        return [tuple(row) for row in self.spark.sql(text).collect()]

    def catalog_type(self, table: str) -> str:
        """EXTERNAL or MANAGED, as the catalog has it and as DROP goes by. DESCRIBE says MANAGED of every Python source."""
        spark: Any = self.spark
        name = spark._jvm.org.apache.spark.sql.catalyst.TableIdentifier(table)
        catalog = spark._jsparkSession.sessionState().catalog()
        return str(catalog.getTableMetadata(name).tableType().name())


@pytest.fixture
def sql(spark: SparkSession, golden: Path) -> Iterator[Sql]:
    """The tables end with the test, and nothing in a store has changed."""
    rmqcore.spark.register(spark)
    before = files(golden)
    yield Sql(spark, golden)
    for table in spark.catalog.listTables():
        spark.sql(f"DROP {'VIEW' if table.isTemporary else 'TABLE'} {table.name}")
    assert files(golden) == before


def files(folder: Path) -> dict[str, tuple[int, int]]:
    """Size and time of change of every file below a folder."""
    found = (Path(parent, name) for parent, _, names in os.walk(folder) for name in names)
    return {str(path): (path.stat().st_size, path.stat().st_mtime_ns) for path in found}


@pytest.fixture
def topic_a(golden: Path) -> int:
    return sum(row["topic"] == "TopicBasicA" for row in golden_rows(golden, "basic"))


@pytest.mark.smoke
def test_a_table_is_made_read_described_and_dropped(sql: Sql, topic_a: int) -> None:
    """CREATE TABLE failed with "unknown option owner"; with columns of its own, SELECT failed for want of a path."""
    sql(
        "CREATE TABLE t USING rmqstore OPTIONS (path '$BASIC', topics 'TopicBasicA', COLUMNS 'topic,queue_id') "
        "COMMENT 'orders' TBLPROPERTIES (made_by 'hand')"
    )
    assert sql("SELECT count(*), min(topic) FROM t") == [(topic_a, "TopicBasicA")]
    assert [row[:2] for row in sql("DESCRIBE t")] == [("topic", "string"), ("queue_id", "int")]
    assert "topic STRING" in sql("SHOW CREATE TABLE t")[0][0]
    assert sql.catalog_type("t") == "EXTERNAL"
    sql("DROP TABLE t PURGE")  # the fixture looks whether every file is there
    assert not sql.spark.catalog.tableExists("t")


def test_a_query_may_add_options_and_take_another_path(sql: Sql, topic_a: int) -> None:
    sql("CREATE TABLE t USING rmqstore LOCATION '$BASIC'")
    assert sql("SELECT count(*) FROM t") == [(2000,)]
    assert sql("SELECT count(*) FROM t WITH (topics 'TopicBasicA')") == [(topic_a,)]
    assert sql.spark.read.option("Topics", "TopicBasicA").table("t").count() == topic_a
    assert sql("SELECT count(*) FROM t WITH (path '$DELAY')") == [(400,)]


def test_several_stores_and_names(sql: Sql) -> None:
    options = """paths '["a=$BASIC", "b=$DELAY"]', columns 'broker'"""
    sql(f"CREATE TABLE t USING rmqstore OPTIONS ({options})")
    assert sorted(sql("SELECT broker, count(*) FROM t GROUP BY 1")) == [("a", 2000), ("b", 400)]
    sql("CREATE TABLE u USING rmqstore OPTIONS (path 'a=$BASIC,b=$DELAY', columns 'broker')")
    assert sorted(sql("SELECT broker, count(*) FROM u GROUP BY 1")) == [("a", 2000), ("b", 400)]


def test_a_table_is_read_by_what_a_query_needs(sql: Sql, topic_a: int) -> None:
    sql("CREATE TABLE t USING rmqstore OPTIONS (path '$BASIC', topics 'TopicBasicA')")
    frame: Any = rmqcore.spark.sql(sql.spark, "SELECT count(*), max(topic) FROM t")
    (relation,) = relations_of(frame._jdf.queryExecution().analyzed())
    assert relation.names == ["topic"]
    assert [tuple(row) for row in frame.collect()] == [(topic_a, "TopicBasicA")]
    one = sql.spark.table("t").select("topic", "tags")
    assert rmqcore.spark.optimize(one).schema == one.schema


def test_a_table_with_columns_of_its_own_says_how_to_read_it(sql: Sql) -> None:
    sql("CREATE TABLE t (topic STRING, body BINARY) USING rmqstore OPTIONS (path '$BASIC')")
    with pytest.raises(
        Exception, match=r"path is missing.*WITH \(path '...'\), or create a temporary view"
    ):
        sql("SELECT count(*) FROM t")
    assert sql("SELECT count(*) FROM t WITH (path '$BASIC')") == [(2000,)]
    sql("CREATE TABLE managed (topic STRING) USING rmqstore")
    assert (
        sql.catalog_type("managed") == "MANAGED"
    )  # an empty folder in the warehouse, which goes with it
    with pytest.raises(Exception, match="path is missing"):
        sql("SELECT * FROM managed")


def test_a_folder_is_written_by_insert_with_its_path(
    sql: Sql, tmp_path: Path, topic_a: int
) -> None:
    sql(
        "CREATE TABLE src USING rmqstore OPTIONS (path '$BASIC', topics 'TopicBasicA', columns 'topic,body')"
    )
    sql("CREATE TABLE t (topic STRING, body BINARY) USING rmqstore")
    refused = r"path is missing.*INSERT INTO t WITH \(path '...'\)"
    with pytest.raises(Exception, match=refused):
        sql("INSERT INTO src SELECT * FROM src")
    with pytest.raises(Exception, match=refused):
        sql(f"CREATE TABLE c USING rmqstore OPTIONS (path '{tmp_path}/c') AS SELECT * FROM src")
    assert not sql.spark.catalog.tableExists("c") and not (tmp_path / "c").exists()
    out = f"path '{tmp_path}/out'"
    small = ", ".join(f"{name} '{value}'" for name, value in SMALL.items())
    sql(f"INSERT INTO t WITH ({out}, {small}) SELECT * FROM src")
    assert sql(f"SELECT count(*) FROM t WITH ({out})") == [(topic_a,)]
    with pytest.raises(
        Exception, match="is a store: a write creates new stores in a separate directory"
    ):
        sql("INSERT OVERWRITE t WITH (path '$DELAY') SELECT * FROM src")


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("OPTIONS (path '$BASIC', topic 'x')", "unknown option topic; did you mean topics"),
        ("OPTIONS (path 's3://b', `storage.secret_key` 'hush')", "every user who can see a table"),
        ("", "path is missing"),
    ],
    ids=["option", "secret", "nothing"],
)  # fmt: skip
def test_what_is_wrong_is_said_when_the_table_is_made(
    sql: Sql, statement: str, message: str
) -> None:
    with pytest.raises(Exception, match=message) as caught:
        sql(f"CREATE TABLE t USING rmqstore {statement}")
    assert "hush" not in str(caught.value).partition("CREATE")[0]
    assert not sql.spark.catalog.tableExists("t")


def test_views(sql: Sql, topic_a: int) -> None:
    sql("CREATE TEMPORARY VIEW v USING rmqstore OPTIONS (path '$BASIC', topics 'TopicBasicA')")
    sql("CREATE GLOBAL TEMPORARY VIEW g USING rmqstore OPTIONS (path '$DELAY')")
    assert sql("SELECT count(*) FROM v") == [(topic_a,)]
    assert sql("SELECT count(*) FROM global_temp.g") == [(400,)]
    assert ("topic", "string") in [row[:2] for row in sql("DESCRIBE v")]
    sql("CREATE TABLE t USING rmqstore OPTIONS (path '$BASIC')")
    sql("CREATE VIEW p AS SELECT topic FROM t")
    assert sql("SELECT count(*) FROM p WHERE topic = 'TopicBasicA'") == [(topic_a,)]
    sql("DROP VIEW p")
    sql("DROP VIEW global_temp.g")
