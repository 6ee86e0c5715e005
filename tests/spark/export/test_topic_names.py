"""Topic names come back as they are, whatever their folders had to do to them."""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.doses import examples
from support.stores.built_store import BuiltStore

import rmqcore
from rmqcore.spark.jobs.export import export_parquet

ds = pytest.importorskip("pyarrow.dataset")
pa = pytest.importorskip("pyarrow")

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NO_SPARK = cast("SparkSession", None)
ODD = [
    b"", b"__HIVE_DEFAULT_PARTITION__", b"T" * 241, b"T" * 242, "界".encode() * 90, b"/" * 300, b"a=b", b"a/b/../c", b"%41", b"A",
    b"Orders", b"orders", b"ORDERS", b"007", b"7", b"1e3", b"2024-01-01", b"null", b"true", b" x ", b".", b"..",
    b"_hidden", b".dot", b"a\0b", b"\xff\xfe", b"\xc3", b"\xed\xa0\x80", b"new\nline", b"topic_dir=x", b"*?[1]{2}",
    "é".encode(), "e\u0301".encode(),
]  # fmt: skip


def store_of(root: Path, topics: list[bytes]) -> Path:
    store = BuiltStore(root, log_file_size=1 << 16)
    for number, topic in enumerate(topics):
        store.put(topic, body=b"%d" % number)
    store.write_log()
    return root


def names_and_bodies(store: Path) -> Counter[tuple[str, bytes]]:
    return Counter((message.topic, message.body) for message in rmqcore.read(store).messages())


@settings(examples(0.25), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    topics=st.lists(
        st.binary(max_size=300) | st.text(max_size=100).map(lambda text: text.encode("utf-8", "replace")) | st.sampled_from(ODD),
        min_size=1, max_size=30,
    )
)  # fmt: skip
def test_any_name_comes_back(in_process: None, topics: list[bytes]) -> None:
    """Folders cut long names, took an empty one for null, and readers guessed numbers: 007 came back as 7."""
    with tempfile.TemporaryDirectory() as folder:
        store = store_of(Path(folder) / "store", topics)
        export_parquet(NO_SPARK, store, Path(folder) / "out")
        table = ds.dataset(Path(folder) / "out", partitioning="hive").to_table()
        found = Counter(zip(table["topic"].to_pylist(), table["body"].to_pylist(), strict=True))
        assert found == names_and_bodies(store)


def test_spark_and_duckdb_read_odd_names(spark: SparkSession, tmp_path: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    store = store_of(tmp_path / "store", ODD)
    report = export_parquet(spark, store, tmp_path / "out")
    assert report.rows == len(ODD)
    expected = names_and_bodies(store)
    rows = spark.read.parquet(str(tmp_path / "out")).select("topic", "body").collect()
    assert Counter((row["topic"], bytes(row["body"])) for row in rows) == expected
    found = duckdb.sql(
        f"select topic, body from read_parquet('{tmp_path}/out/*/*/*.parquet')"
    ).fetchall()
    assert Counter(found) == expected


def test_names_that_are_all_numbers_stay_texts(spark: SparkSession, tmp_path: Path) -> None:
    export_parquet(spark, store_of(tmp_path / "store", [b"007", b"08", b"1e3"]), tmp_path / "out")
    rows = spark.read.parquet(str(tmp_path / "out")).select("topic").collect()
    assert sorted(row["topic"] for row in rows) == ["007", "08", "1e3"]
