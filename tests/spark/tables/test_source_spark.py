"""The data source in a real Spark session: what it gives is what `rmqcore.read` gives, and what is wrong is said before a job."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from operator import eq, ge, gt, le, lt
from pathlib import Path
from socket import gethostname
from typing import TYPE_CHECKING, Any, Protocol

import pytest
from support.eventually import eventually
from support.spark.spark_rows import (
    Row,
    damage_rows,
    golden_rows,
    message_rows,
    only,
    store_of,
)
from support.spark.spark_tables import read_table, table_of
from support.stores.golden_stores import CLEAN

import rmqcore.spark
from rmqcore.errors import NotAStoreError
from rmqcore.spark.runtime.versions import PUSH_FILTERS, pyspark_version

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

DEFAULT = (
    "topic", "queue_id", "queue_offset", "phy_offset", "msg_size", "store_timestamp", "born_timestamp", "tags", "keys",
    "uniq_key", "body", "properties", "sys_flag", "flag", "body_crc", "reconsume_times", "prepared_transaction_offset",
    "store_host", "born_host", "broker",
)  # fmt: skip
EVERY = (*DEFAULT, "msg_id", "tags_code", "magic", "raw", "crc_ok", "resynced", "corrupt_reason", "_file")  # fmt: skip


class StoreCopy(Protocol):
    def __call__(self, case: str, part: str = "store") -> Path: ...


def rows_of(frame: DataFrame) -> list[Row]:
    """Rows in the order of the partitions."""
    rows: list[Row] = frame.toArrow().to_pylist()
    for row in rows:
        if isinstance(row.get("properties"), list):
            row["properties"] = dict(row["properties"])
    return rows


@pytest.fixture
def no_job(spark: SparkSession) -> Iterator[None]:
    """What a test does must not start a job."""
    group = f"no-job-{os.urandom(4).hex()}"
    spark.sparkContext.setJobGroup(group, "nothing is to run")
    yield
    assert list(spark.sparkContext.statusTracker().getJobIdsForGroup(group)) == []
    spark.sparkContext.setLocalProperty("spark.jobGroup.id", "")


# ---- rows ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", CLEAN)
def test_messages_are_those_of_a_reader(spark: SparkSession, golden: Path, case: str) -> None:
    frame = rmqcore.spark.read(spark, store_of(golden, case), columns=EVERY)
    assert frame.columns == list(EVERY)
    assert rows_of(frame) == golden_rows(golden, case)


@pytest.mark.parametrize(
    ("case", "count"), [("basic", 1), ("basic", 2), ("basic", 7), ("delay", 50)]
)
@pytest.mark.parametrize("mode", ["walk", "resync"])
def test_any_number_of_splits(
    spark: SparkSession, golden: Path, case: str, count: int, mode: str
) -> None:
    """Files have 128 KiB; in ``resync`` with a maxRecordSize so small that they are cut at all."""
    options: dict[str, Any] = {"splitMode": mode, "maxPartitionBytes": -(-131_072 // count)}
    if mode == "resync":
        options["maxRecordSize"] = "1k"
    root = store_of(golden, case)
    files = len(list((root / "commitlog").iterdir()))
    parts = len(table_of(root, **options).parts())
    # The last file, and 16 KiB of every other file, are not cut in resync.
    assert parts == files if count == 1 else parts > (files - 1) * count * 0.8
    assert rows_of(rmqcore.spark.read(spark, root, columns=EVERY, **options)) == golden_rows(
        golden, case
    )


@pytest.mark.parametrize("case", ["crash_flipped", "crash_torn"])
def test_damage_and_what_lies_around_it(spark: SparkSession, golden: Path, case: str) -> None:
    root = golden / case / "input"
    names = ("phy_offset", "body", "crc_ok")
    for part_bytes in ("128m", "20k"):
        options: dict[str, Any] = {"splitMode": "walk", "maxPartitionBytes": part_bytes}
        frame = rmqcore.spark.read(spark, root, columns=names, **options)
        assert rows_of(frame) == only(golden_rows(golden, case, "input"), *names)
        frame = rmqcore.spark.read(spark, root, table="corrupt", **options)
        assert rows_of(frame.orderBy("start_phy_offset", "end_phy_offset")) == [
            {name: row[name] for name in frame.columns} for row in damage_rows(root, "input")
        ]


@pytest.mark.parametrize("table", ["segments", "queues", "consumequeue", "index"])
def test_other_tables_are_what_their_parts_give(
    spark: SparkSession, golden: Path, table: str
) -> None:
    """The parts themselves are compared with `rmqcore.read` in test_source_tables.py."""
    root = store_of(golden, "basic")
    found = rows_of(rmqcore.spark.read(spark, root, table=table))
    assert found == read_table(root, table=table)
    assert len(found) >= 7


def test_a_store_without_a_log(spark: SparkSession, tmp_path: Path) -> None:
    """Spark reads an empty list of partitions once, with nothing in it."""
    (tmp_path / "store" / "commitlog").mkdir(parents=True)
    for table in ("messages", "corrupt", "segments", "index"):
        assert rows_of(rmqcore.spark.read(spark, tmp_path / "store", table=table)) == []


# ---- ways to ask --------------------------------------------------------------------------------------


@pytest.mark.smoke
def test_the_plain_way(spark: SparkSession, golden: Path) -> None:
    frame = spark.read.format("rmqstore").load(str(store_of(golden, "delay")))
    assert rows_of(frame) == only(golden_rows(golden, "delay"), *DEFAULT)


@pytest.mark.skipif(pyspark_version() < PUSH_FILTERS, reason="PySpark hands no filters down")
def test_the_plain_way_needs_no_setting(spark: SparkSession, golden: Path) -> None:
    """A reader that merely could take filters makes every query fail while Spark's setting is off, as it is by default."""
    setting = "spark.sql.python.filterPushdown.enabled"
    before = spark.conf.get(setting)
    spark.conf.set(setting, "false")
    try:
        frame = spark.read.format("rmqstore").load(str(store_of(golden, "delay")))
        assert frame.where("queue_id = 0").count() == 97
    finally:
        spark.conf.set(setting, str(before))


def test_a_schema_of_the_user(spark: SparkSession, golden: Path) -> None:
    source = spark.read.format("rmqstore").schema("crc_ok boolean, topic string")
    assert rows_of(source.load(str(store_of(golden, "delay")))) == only(
        golden_rows(golden, "delay"), "crc_ok", "topic"
    )


def test_several_paths_and_sql(spark: SparkSession, golden: Path) -> None:
    paths = [f"a={store_of(golden, 'delay')}", f"b={store_of(golden, 'ipv6')}"]
    frame = spark.read.format("rmqstore").load(paths)
    counts = {row["broker"]: row["count"] for row in frame.groupBy("broker").count().collect()}
    assert counts == {"a": 400, "b": 500}
    spark.sql(
        f"CREATE OR REPLACE TEMPORARY VIEW delayed USING rmqstore OPTIONS (path '{store_of(golden, 'delay')}')"
    )
    assert spark.sql("SELECT count(*) FROM delayed").collect()[0][0] == 400


def test_a_condition_on_columns_that_are_not_asked_for(spark: SparkSession, golden: Path) -> None:
    root = store_of(golden, "basic")
    expected = message_rows(root, topics=["TopicBasicA"], queue_ids=[1])
    names = ["phy_offset", "tags"]
    where = "topic = 'TopicBasicA' AND queue_id = 1 AND corrupt_reason IS NULL"
    frame = rmqcore.spark.read(spark, root, columns=names, where=where)
    assert frame.columns == names
    assert rows_of(frame) == only(expected, *names)
    # Spark takes names in any case; a column that had not been read was answered with "there is no column TOPIC".
    where = "TOPIC = 'TopicBasicA' AND `Queue_Id` = 1"
    assert rows_of(rmqcore.spark.read(spark, root, columns=names, where=where)) == rows_of(frame)


@pytest.mark.skipif(pyspark_version() < PUSH_FILTERS, reason="PySpark hands no filters down")
def test_filters_go_down_to_the_scan(spark: SparkSession, golden: Path) -> None:
    root = store_of(golden, "basic")
    columns = ["topic", "queue_id", "phy_offset"]
    frame = rmqcore.spark.read(spark, root, columns=columns, pushdown=True)
    chosen = frame.where("topic IN ('TopicBasicA', 'x') AND phy_offset BETWEEN 1000 AND 200000 AND queue_id < 2")  # fmt: skip
    plan = chosen._jdf.queryExecution().executedPlan().toString()
    assert "queue_id" in plan.split("Filter", 1)[1].split("\n", 1)[0]
    assert "topic" not in plan.split("Filter", 1)[1].split("\n", 1)[0].replace("queue_id", "")
    expected = [
        row
        for row in golden_rows(golden, "basic")
        if row["topic"] == "TopicBasicA"
        and 1000 <= row["phy_offset"] <= 200_000
        and row["queue_id"] < 2
    ]
    assert rows_of(chosen) == only(expected, *frame.columns)


def test_a_query_does_not_read_by_the_filters_of_another(spark: SparkSession, golden: Path) -> None:
    """Spark keeps the plan of a read that took filters: count(), after a query for one topic, counted that topic alone."""
    rows = golden_rows(golden, "basic")
    frame = rmqcore.spark.read(spark, store_of(golden, "basic"), columns=["topic", "phy_offset"])
    topics = [frame.where(f"topic = 'TopicBasic{name}'") for name in "AB"]
    for chosen, name in zip(topics, "AB", strict=True):
        assert chosen.count() == sum(row["topic"] == f"TopicBasic{name}" for row in rows)
        assert frame.count() == len(rows)
    assert topics[0].join(topics[1], "phy_offset").count() == 0
    assert topics[0].union(topics[1]).distinct().count() == topics[0].count() + topics[1].count()


def test_filters_by_time(spark: SparkSession, golden: Path) -> None:
    root = store_of(golden, "basic")
    rows = golden_rows(golden, "basic")
    at = rows[700]["store_timestamp"]
    frame = rmqcore.spark.read(spark, root, columns=["store_timestamp"], pushdown=True)
    tests: dict[str, Callable[[Any, Any], Any]] = {">=": ge, ">": gt, "<": lt, "<=": le, "=": eq}
    for text, test in tests.items():
        found = frame.where(f"store_timestamp {text} timestamp '{at:%Y-%m-%d %H:%M:%S.%f}'").count()
        assert found == sum(test(row["store_timestamp"], at) for row in rows)


def test_a_broker_that_no_filter_leaves_is_not_read(spark: SparkSession, golden: Path) -> None:
    root = store_of(golden, "delay")
    frame = rmqcore.spark.read(spark, root, columns=["broker"], pushdown=True)
    assert rows_of(frame.where("broker = 'other'")) == []


@pytest.mark.parametrize("table", ["messages", "corrupt", "segments", "queues", "consumequeue", "index"])  # fmt: skip
def test_the_way_for_pyspark_3_5(spark: SparkSession, golden: Path, table: str) -> None:
    root = golden / "crash_flipped" / "input"
    options: dict[str, Any] = {"table": table}
    if table in ("messages", "corrupt"):
        options |= {"splitMode": "walk", "maxPartitionBytes": "20k"}
    frame = rmqcore.spark.read_with_map(spark, root, **options)
    expected = read_table(root, **options)
    for row in expected:
        if "properties" in row:
            row["properties"] = dict(row["properties"])
    assert rows_of(frame) == expected


# ---- what is wrong ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"topic": "x"}, "ValueError: unknown option topic; did you mean topics"),
        ({"mode": "x"}, "ValueError: option mode: 'x' is invalid, expected one of PERMISSIVE, FAILFAST, DROPMALFORMED"),
        ({"table": "x"}, "ValueError: option table: 'x' is invalid, expected one of messages"),
        ({"columns": "x"}, "ValueError: table messages has no column x; it has topic"),
        ({"path": "/nowhere"}, "No such file or directory: '/nowhere'"),
        ({"path": "GOLDEN"}, "has no commitlog/"),
        ({"startingOffsets": '{"t": {"x": {"0": 1}}}'}, "names the store x, but path has basic"),
    ],
    ids=str,
)  # fmt: skip
def test_wrong_options(
    spark: SparkSession, golden: Path, no_job: None, options: dict[str, str], message: str
) -> None:
    from pyspark.errors import AnalysisException

    given = {"path": str(store_of(golden, "basic"))} | options
    if given["path"] == "GOLDEN":
        given["path"] = str(golden)
    with pytest.raises(AnalysisException) as caught:
        spark.read.format("rmqstore").options(**given).load()
    text = str(caught.value)
    assert message in text
    assert text.count("\n  File ") <= 2  # the calls inside the package are nobody's business
    path = given.pop("path")
    with pytest.raises((ValueError, OSError, NotAStoreError)) as caught_here:
        rmqcore.spark.read(spark, path, **given)
    assert message.partition("ValueError: ")[2] in str(caught_here.value)


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ("topic string, quue_id int", "table messages has no column quue_id; did you mean queue_id?"),
        ("topic string, queue_id bigint", "column queue_id is int, but the schema has bigint"),
        ("topic int, body string", (
            "column topic is string, but the schema has int; column body is binary, but the "
            "schema has string"
        )),
        ("topic string NOT NULL", "column topic is NOT NULL in the schema"),
        ("store_timestamp timestamp_ntz", "column store_timestamp is timestamp, but the schema has timestamp_ntz"),
    ],
    ids=str,
)  # fmt: skip
def test_a_schema_that_does_not_fit(
    spark: SparkSession, golden: Path, no_job: None, schema: str, message: str
) -> None:
    from pyspark.errors import AnalysisException

    frame = spark.read.format("rmqstore").schema(schema).load(str(store_of(golden, "basic")))
    with pytest.raises(AnalysisException) as caught:
        frame.collect()
    assert message in str(caught.value)


def test_an_offset_that_was_cleaned_away(
    spark: SparkSession, store_copy: StoreCopy, no_job: None
) -> None:
    from pyspark.errors import AnalysisException

    root = store_copy("basic")
    min((root / "commitlog").iterdir()).unlink()
    frame = rmqcore.spark.read(spark, root, startingPhyOffset=5)
    with pytest.raises(AnalysisException) as caught:
        frame.collect()
    assert "CommitLog offset 5 cannot be read, the first one available is offset 131072" in str(
        caught.value
    )


def test_damage_fails_failfast_with_file_and_offset(spark: SparkSession, golden: Path) -> None:
    from pyspark.errors import PythonException

    root = golden / "crash_flipped" / "input"
    first = damage_rows(root)[0]
    with pytest.raises(PythonException) as caught:
        rmqcore.spark.read(spark, root, mode="FAILFAST").count()
    assert f"{first['path']}@{first['start_phy_offset']}: {first['field']} is" in str(caught.value)


def run_without_rmqcore(pickled: bytes, program: str) -> str:
    """Run a program in a Python where rmqcore cannot be imported; what Spark sent it comes on stdin."""
    head = (
        "import sys; sys.modules['rmqcore'] = None\nfrom pyspark import cloudpickle\n"
        "got = cloudpickle.loads(sys.stdin.buffer.read())\n"
    )
    done = subprocess.run([sys.executable, "-c", head + program], input=pickled, capture_output=True, check=False)  # fmt: skip
    return done.stderr.decode()


@pytest.mark.parametrize("way", ["reader", "map", "writer", "stream writer"])
def test_a_worker_without_the_package_says_so(golden: Path, way: str) -> None:
    """The worker failed with "No module named 'rmqcore'" from deep inside pickle, before a line of rmqcore ran."""
    from pyspark import cloudpickle
    from pyspark.sql.types import StructType

    from rmqcore.spark.runtime.shipping import part_reader, send_code_along
    from rmqcore.spark.sink.shipped import ShippedStreamWriter, ShippedWriter
    from rmqcore.spark.source.shipped import ShippedReader

    send_code_along("rmqcore.spark.source.shipped", "rmqcore.spark.sink.shipped")
    reader = ShippedReader(table_of(store_of(golden, "basic")))
    if way == "reader":
        sent = cloudpickle.dumps((reader, reader.partitions()[0]))  # type: ignore[no-untyped-call]
        error = run_without_rmqcore(sent, "list(got[0].read(got[1]))")
    elif way != "map":
        writer = ShippedWriter(None) if way == "writer" else ShippedStreamWriter(None, StructType())
        sent = cloudpickle.dumps(writer)  # type: ignore[no-untyped-call]
        error = run_without_rmqcore(sent, "got.write(iter(()))")
    else:
        sent = cloudpickle.dumps(part_reader(b""))  # type: ignore[no-untyped-call]
        error = run_without_rmqcore(
            sent, "import pyarrow as pa; list(got(iter([pa.record_batch([[b'']], ['part'])])))"
        )
    told = error.strip().splitlines()[-1]
    assert told.startswith(f"ImportError: the Python of Spark's workers on {gethostname()} (")
    assert "cannot import rmqcore. Install it there" in told


def test_workers_freeze_what_they_have_loaded(spark: SparkSession, golden: Path) -> None:
    def frozen(batches: Iterator[Any]) -> Iterator[Any]:
        import gc

        import pyarrow as pa

        for _ in batches:
            yield pa.record_batch([pa.array([gc.get_freeze_count()], pa.int64())], ["n"])

    def is_frozen() -> bool:
        """Look at the workers that have read; on a busy machine Spark gives the look to new ones."""
        rmqcore.spark.read(spark, store_of(golden, "basic"), maxPartitionBytes="1k").count()
        counts = spark.range(2).repartition(2).mapInArrow(frozen, "n bigint").collect()
        return any(row.n > 10_000 for row in counts)

    eventually(is_frozen)


def test_nothing_is_frozen_outside_a_worker(golden: Path) -> None:
    import gc

    frozen = gc.get_freeze_count()  # what the tests' own process has frozen
    read_table(store_of(golden, "delay"))
    assert gc.get_freeze_count() <= frozen  # some of it ends
