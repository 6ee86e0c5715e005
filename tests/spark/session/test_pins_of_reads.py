"""`rmqcore.spark.read` finds where stores end in the process of its caller, once for all reads of a session."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from support.stores.live_log import LiveLog

import rmqcore.spark
from rmqcore.spark.reading import store_end
from rmqcore.spark.reading.store_end import find_end

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LONG_AGO = 1_700_000_000


def test_reads_of_a_store_at_rest_search_its_end_once(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every load searched again, in a new process; records that came since are seen although no time changed."""
    searched: list[int] = []

    def noted(*given: Any) -> Any:
        searched.append(given[0].file_from_offset)
        return find_end(*given)

    def settled() -> None:
        os.utime(log.path(0), (LONG_AGO, LONG_AGO))

    monkeypatch.setattr(store_end, "find_end", noted)
    log = LiveLog(tmp_path, file_size=65536)
    for _ in range(20):
        log.append()
    settled()
    frames = [rmqcore.spark.read(spark, tmp_path, columns=["phy_offset"]) for _ in range(3)]
    assert searched == [0]
    log.append()
    settled()
    later = rmqcore.spark.read(spark, tmp_path, columns=["phy_offset"])
    assert searched == [0, 0]
    assert [frame.count() for frame in (*frames, later)] == [20, 20, 20, 21]
