"""Runs of packed entries, as a rebuild gives them to the table that an open store has too: one rule for both."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.doses import examples
from support.stores.index_batches import quick_folder
from support.stores.queue_batches import open_queues, put_records, queue_files, record

from rmqcore._native.format.cq_arrays import CQ_DTYPE
from rmqcore._native.queues.queue_table import QueueTable, most_queue_offset

FILLER = (0, 0x7FFFFFFF, 0)
LARGE_GAP = 100_000
"""Places of missing messages that one step does not fill."""


def run(first: int, count: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.void]]:
    offsets = np.arange(first, first + count)
    return offsets, np.array([(100 * at, 91, at) for at in offsets], CQ_DTYPE)


def test_runs_follow_one_another_and_leave_room_for_what_is_missing(tmp_path: Path) -> None:
    table = QueueTable(str(tmp_path), 80, 4)
    assert table.put_run("T", 0, *run(5, 3)) == 3
    assert table.put_run("T", 0, *run(10, 2)) == 2
    assert table.put_run("T", 0, *run(9, 3)) == 0  # 9 has a filler, for good
    queue = table.find("T", 0)
    assert queue is not None
    assert (queue.first_file, queue.last_file, queue.max_offset) == (80, 160, 12)
    found = queue.entries(4, 8).tolist()
    assert [entry[0] for entry in found] == [0, 500, 600, 700, 0, 0, 1000, 1100]
    assert found[0] == found[4] == found[5] == FILLER
    assert queue.max_phy_offset == 1191
    assert (table.gaps, table.refused, table.repeats) == (2, 0, 3)


def test_a_large_gap(tmp_path: Path) -> None:
    """It is filled in steps: memory stays small."""
    table = QueueTable(str(tmp_path), 20 * 30_000, 4)
    table.put_run("T", 0, *run(0, 3))
    offsets, entries = run(LARGE_GAP, 3)
    assert table.put_run("T", 0, offsets, entries) == 3
    queue = table.find("T", 0)
    assert queue is not None
    assert queue.max_offset == LARGE_GAP + 3
    assert queue.entries(0, 3).tolist() == run(0, 3)[1].tolist()
    assert all(
        np.all(queue.entries(start, 30_000)["msg_size"][:count] == FILLER[1])
        for start, count in [(3, 29_997), (30_000, 30_000), (60_000, 30_000), (90_000, 10_000)]
    )
    assert queue.entries(LARGE_GAP, 9).tolist() == entries.tolist()
    assert table.gaps == LARGE_GAP - 3


def test_what_is_refused(tmp_path: Path) -> None:
    table = QueueTable(str(tmp_path), 80, 4)
    offsets, entries = run(0, 3)
    with pytest.raises(ValueError, match="2 queue offsets for 3 entries"):
        table.put_run("T", 0, offsets[:2], entries)
    with pytest.raises(ValueError, match="no name for a directory"):
        table.put_run("a/b", 0, offsets, entries)
    assert table.put_run("T", 0, np.array([-1, most_queue_offset(80) + 1]), entries[:2]) == 0
    assert table.refused == 2
    no_entries = np.array([(-1, 91, 0), (0, 0, 0), (0, -1, 0)], CQ_DTYPE)
    assert table.put_run("T", 0, offsets, no_entries) == 0
    assert not any(path.is_file() for path in tmp_path.rglob("*"))


@given(
    steps=st.lists(
        st.tuples(st.sampled_from([1] * 6 + [0, -2, 2, 3, 9, 300, 1 << 40]), st.integers(0, 200)),
        min_size=1,
        max_size=30,
    ),
    first=st.sampled_from([0, 0, 3, 4, 11]),
    cuts=st.lists(st.integers(0, 30), max_size=3),
    topic=st.sampled_from(["T", "%LMQ%a"]),
)
@examples(1.5)
def test_a_run_and_batches_of_the_same_records_make_the_same_files(
    steps: list[tuple[int, int]], first: int, cuts: list[int], topic: str
) -> None:
    records, queue_offset, phy_offset = [], first, 0
    for step, size in steps:
        records.append(record(topic, 0, queue_offset, phy_offset, body=bytes(size)))
        queue_offset = max(0, queue_offset + step)
        phy_offset += 100 + size
    offsets = np.array([row.queue_offset for row in records])
    sizes = [91 + len(row.topic) + len(row.body) for row in records]
    entries = np.array(
        [(row.phy_offset, size, 0) for row, size in zip(records, sizes, strict=True)], CQ_DTYPE
    )
    with quick_folder() as one, quick_folder() as other:
        queues = open_queues(Path(one), 8)
        table = QueueTable(str(Path(other) / "consumequeue"), 160, 4)
        for begin, end in pairwise(
            sorted({0, len(records), *(min(c, len(records)) for c in cuts)})
        ):
            put_records(queues, records[begin:end])
            table.put_run(topic, 0, offsets[begin:end], entries[begin:end])
        assert queue_files(Path(one)) == queue_files(Path(other))
        counts = queues.gaps, queues.refused, queues._table.repeats
        assert counts == (table.gaps, table.refused, table.repeats)
