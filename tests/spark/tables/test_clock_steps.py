"""A broker's clock that was set back, or forward and back: a time range gives the rows that a plain read gives."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pyspark.sql import datasource as ds
from support.doses import examples
from support.spark.spark_rows import time_of
from support.spark.spark_tables import read_table, rows_of, table_of

import rmqcore
from rmqcore import Message
from rmqcore.spark.runtime.versions import PUSH_FILTERS, pyspark_version

START_MS = 1_700_000_000_000
HOUR_MS = 3_600_000
STEPS = st.lists(
    st.tuples(st.integers(-5 * HOUR_MS, 5 * HOUR_MS), st.integers(1, 60)), min_size=1, max_size=5
)


def write(root: Path, steps: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Put messages a minute apart, by a clock that is set anew before each run; answer offsets and times."""
    now_ms = START_MS
    with rmqcore.open(
        root, services=False, clock=lambda: now_ms, mapped_file_size_commit_log=4096
    ) as store:
        for step_ms, count in steps:
            now_ms += step_ms
            for _ in range(count):
                now_ms += 60_000
                store.put(Message("T", bytes(300))).raise_for_status()
    with rmqcore.read(root) as reader:
        return [(view.phy_offset, view.store_timestamp_ms) for view in reader.messages()]


@examples(0.25)
@example(steps=[(0, 60), (3 * HOUR_MS, 60), (-3 * HOUR_MS, 60)], ends=(0.0, 0.5))
@given(steps=STEPS, ends=st.tuples(st.floats(0, 1), st.floats(0, 1)))
def test_any_steps_and_any_range(
    tmp_path_factory: pytest.TempPathFactory,
    steps: list[tuple[int, int]],
    ends: tuple[float, float],
) -> None:
    """A clock three hours ahead for a while: a plain WHERE gave 0 of 2,000 rows, because an hour was taken for the most."""
    root = tmp_path_factory.mktemp("clock") / "store"
    told = write(root, steps)
    low, high = min(ms for _, ms in told), max(ms for _, ms in told)
    since, until = (int(low + part * (high - low)) for part in sorted(ends))
    wanted = [offset for offset, ms in told if since <= ms < until]
    rows = read_table(root, startingTimestamp=since, endingTimestamp=until, columns="phy_offset")
    assert [row["phy_offset"] for row in rows] == wanted
    if pyspark_version() >= PUSH_FILTERS:
        table = table_of(root, columns="phy_offset,store_timestamp")
        conditions: list[ds.Filter] = [
            ds.GreaterThanOrEqual(("store_timestamp",), time_of(since)),
            ds.LessThan(("store_timestamp",), time_of(until)),
        ]
        assert list(table.push_filters(conditions)) == []
        assert [row["phy_offset"] for row in rows_of(table)] == wanted
