"""The Python of README.md, docs/spark.md and docs/spark-sink.md that is about Spark, run as it stands but for the paths."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from support.places import ROOT

import rmqcore
from rmqcore.spark.runtime.versions import pyspark_version

pytest.importorskip("pyspark")
pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def blocks(page: str, mark: str) -> list[str]:
    text = (ROOT / page).read_text(encoding="utf-8")
    return [code for code in re.findall(r"```python\n(.*?)```", text, re.DOTALL) if mark in code]


def run(code: str, paths: dict[str, str], **names: Any) -> None:
    for shown, real in paths.items():
        assert shown in code
        code = code.replace(shown, real)
    code = (
        code.replace('"Orders"', '"TopicBasicA"')
        .replace("'Orders'", "'TopicBasicA'")
        .replace('"ORDER_1"', '"key-0-0"')
    )
    exec(compile(code, "<page>", "exec"), names)


def test_the_readme(spark: SparkSession, golden: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (code,) = blocks("README.md", "rmqcore.spark")
    store = str(golden / "basic" / "store")
    run(code, {"/data/broker-*": f"{golden}/bas*/store", "s3://backup/broker-a": store})
    shown = capsys.readouterr().out
    assert "latency_p99_ms" in shown
    assert re.search(r"TopicBasicA\| +\d+", shown)


def test_the_first_minute(
    spark: SparkSession, golden: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = str(golden / "basic" / "store")
    first, then = blocks("docs/spark.md", "rmqcore.spark")[:2]
    names: dict[str, Any] = {"rmqcore": rmqcore, "spark": spark}
    paths = {"/data/store": store, '"/data/a", "/data/b"': f'"{store}"'}
    run(first, paths)
    assert re.search(r"TopicBasicB\| +668", capsys.readouterr().out)
    run(then, {"/data/store": store}, **names)
    assert re.search(r"sum\(msg_size\)", capsys.readouterr().out)


def test_writing_stores(spark: SparkSession, golden: Path, tmp_path: Path) -> None:
    written, replayed = blocks("docs/spark-sink.md", "rmqstore")
    spark.range(100).selectExpr("id", "id * 2 as price").write.parquet(str(tmp_path / "orders"))
    names: dict[str, Any] = {"rmqcore": rmqcore, "spark": spark}
    out, new = str(tmp_path / "out"), str(tmp_path / "new")
    run(written, {"/data/orders": str(tmp_path / "orders"), "/data/out": out}, **names)
    assert spark.read.format("rmqstore").load(out).where("topic = 'TopicBasicA'").count() == 100
    paths = {"/data/old": str(golden / "basic" / "store"), "/data/export": str(tmp_path / "export")}
    run(replayed, paths | {"/data/new": new}, **names)
    rows = spark.read.format("rmqstore").load(new).select("topic", "broker").collect()
    assert [tuple(row) for row in rows] == [("TopicBasicA", "new.part-000000-00000")] * 658


@pytest.mark.skipif(pyspark_version() < (4, 1), reason="UDFs through pandas give a struct of nulls")
def test_the_udfs(spark: SparkSession, golden: Path, tmp_path: Path) -> None:
    with rmqcore.read(golden / "basic" / "store") as reader:
        raw = [message.raw for message in reader.messages(topics=["TopicBasicA"])]
    pq.write_table(
        pa.table({"raw": pa.array([*raw, b"bad"], pa.binary())}), tmp_path / "raw.parquet"
    )
    (code,) = blocks("docs/spark.md", "from rmqcore.spark import udf")
    code = code.replace("decoded.where(", "malformed = decoded.where(")
    code = (
        code.replace("spark.sql(", "counted = spark.sql(")
        + "\nfound = malformed, counted.collect()"
    )
    seen: dict[str, Any] = {"spark": spark}
    exec(compile(code.replace("/data/raw", str(tmp_path)), "<page>", "exec"), seen)
    assert seen["found"][0] == 1
    assert {tuple(row) for row in seen["found"][1]} == {("TopicBasicA", len(raw)), (None, 1)}


def test_the_options_of_a_filesystem() -> None:
    from rmqcore.offline.remote.filesystem_options import PARAMETERS

    (code,) = blocks("docs/spark.md", "storage.")
    for name in re.findall(r"storage\.(\w+)", code):
        assert name in PARAMETERS["s3"]
