"""The tables of a DLedger store: its messages, without damage, from several tasks."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support.stores.dledger_store import REAL_MESSAGES, unpack_real

import rmqcore
from rmqcore.spark.jobs.audit import run_audit

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpack_real(tmp_path_factory.mktemp("dledger"))


def test_messages_come_from_several_splits_and_none_is_damage(
    spark: SparkSession, real: Path
) -> None:
    options = {"splitMode": "walk", "maxPartitionBytes": "3000"}
    frame = spark.read.format("rmqstore").options(**options).load(str(real))
    assert frame.rdd.getNumPartitions() > 8
    with rmqcore.read(real) as reader:
        expected = {view.phy_offset: bytes(view.body) for view in reader.messages()}
    rows = frame.select("phy_offset", "body").collect()
    assert {row.phy_offset: bytes(row.body) for row in rows} == expected
    assert len(rows) == REAL_MESSAGES
    damage = spark.read.format("rmqstore").option("table", "corrupt").load(str(real))
    assert damage.count() == 0


def test_an_audit_finds_all_messages_and_no_damage(spark: SparkSession, real: Path) -> None:
    report = run_audit(spark, real)
    assert report.exit_code == 0, report
    assert report.records == REAL_MESSAGES
