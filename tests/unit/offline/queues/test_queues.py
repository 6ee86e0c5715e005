"""Queues: which files count, and where a queue begins and ends, against Java's answers and by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Protocol

import pytest
from support.stores.golden_stores import CLEAN, CRASHED

from rmqcore.codec import pack_cq
from rmqcore.disk.paths import StorePaths, file_name
from rmqcore.offline.queues.queues import (
    QueueFiles,
    find_queues,
    list_queues,
    max_offset,
    min_offset,
)

FILLER = (0, 0x7FFFFFFF, 0)
NONE = (0, 0, 0)


class Store(Protocol):
    paths: StorePaths

    def write_queue(
        self,
        entries: list[tuple[int, int, int]],
        topic: str = "T",
        queue_id: int = 0,
        first: int = 0,
    ) -> Path: ...


def entries(*phy_offsets: int) -> list[tuple[int, int, int]]:
    return [(phy_offset, 10, 0) for phy_offset in phy_offsets]


def bounds(queue: QueueFiles, log_min: int = 0, log_end: int | None = None) -> tuple[int, int]:
    end = max_offset(queue, log_end)
    return min_offset(queue, log_min, end), end


@pytest.mark.parametrize("case", [*CLEAN, *CRASHED])
def test_golden_queues_begin_and_end_where_java_says(golden: Path, case: str) -> None:
    manifest = json.loads((golden / case / "manifest.json").read_text())
    # Java's answers after it opened the very same files once more.
    answers = {**manifest, **manifest.get("afterReopen", {})}
    paths = StorePaths(golden / case / manifest.get("recoveredDir", manifest["storeDir"]))
    found = list_queues(paths, answers["minPhyOffset"], answers["maxPhyOffset"])
    assert [(q.topic, q.queue_id, q.min_offset, q.max_offset, q.max_phy_offset) for q in found] == [
        (q["topic"], q["queueId"], q["minOffset"], q["maxOffset"], q["maxPhysicOffset"])
        for q in sorted(answers["queues"], key=lambda q: (q["topic"], q["queueId"]))
    ]
    assert all(queue.disk_bytes > 0 and queue.file_count > 0 for queue in found)


def test_no_directory_no_queues(tmp_path: Path) -> None:
    assert find_queues(StorePaths(tmp_path)) == []
    queue = QueueFiles("T", 0, tmp_path / "none")
    assert (queue.files, bounds(queue), len(queue.entries(0, 10))) == ([], (0, 0), 0)


def test_only_queue_directories_count(small_store: Store) -> None:
    small_store.write_queue(entries(0), "B", 2)
    small_store.write_queue(entries(0), "B", 10)
    small_store.write_queue(entries(0), "%LMQ%light", 0)
    root = small_store.paths.consumequeue
    for name in ("007", "-1", "x", "2147483648", "٣"):
        (root / "B" / name).mkdir()
    (root / "B" / "3").write_bytes(b"a file")
    (root / "stray").write_bytes(b"a file")
    (small_store.paths.batchconsumequeue / "Batch" / "0").mkdir(parents=True)
    (small_store.paths.consumequeue_ext / "B" / "2").mkdir(parents=True)
    found = [(queue.topic, queue.queue_id) for queue in find_queues(small_store.paths)]
    assert found == [("%LMQ%light", 0), ("B", 2), ("B", 10)]


def test_files_that_are_none_count_as_missing(small_store: Store) -> None:
    directory = small_store.write_queue(entries(*range(10, 60, 10)))
    (directory / file_name(7)).write_bytes(bytes(80))
    (directory / file_name(160)).write_bytes(b"")
    (directory / file_name(240)).write_bytes(bytes(19))
    (directory / file_name(320)).mkdir()
    (directory / "80").write_bytes(bytes(80))
    (directory / f"{file_name(80)}.bak").write_bytes(bytes(80))
    queue = QueueFiles("T", 0, directory)
    assert [file.file_from_offset for file in queue.files] == [0, 80]
    assert bounds(queue) == (0, 5)


def test_a_torn_file_gives_its_whole_entries(small_store: Store) -> None:
    directory = small_store.write_queue(entries(10, 20, 30))
    (directory / file_name(0)).write_bytes((directory / file_name(0)).read_bytes()[:59])
    queue = QueueFiles("T", 0, directory)
    assert bounds(queue) == (0, 2)
    assert queue.entries(0, 100)["phy_offset"].tolist() == [10, 20]


def test_entries_run_over_files_and_stop_at_a_gap(small_store: Store) -> None:
    directory = small_store.write_queue(entries(*range(12)))
    queue = QueueFiles("T", 0, directory)
    assert queue.entries(3, 6)["phy_offset"].tolist() == [3, 4, 5, 6, 7, 8]
    (directory / file_name(80)).unlink()
    assert queue.entries(3, 6)["phy_offset"].tolist() == [3]  # gone since it was listed
    queue.refresh()
    assert queue.entries(3, 6)["phy_offset"].tolist() == [3]
    assert queue.file_of(4) is None
    assert bounds(queue) == (0, 12)
    assert [len(queue.entries(start, 1)) for start in (-1, 4, 8, 12)] == [0, 0, 1, 0]


def test_a_file_longer_than_the_way_to_the_next_ends_there(small_store: Store) -> None:
    directory = small_store.write_queue(entries(*range(8)))
    (directory / file_name(0)).write_bytes(b"".join(pack_cq(900 + i, 10, 0) for i in range(50)))
    queue = QueueFiles("T", 0, directory)
    assert queue.entries(0, 8)["phy_offset"].tolist() == [900, 901, 902, 903, 4, 5, 6, 7]


def test_the_end_is_the_first_invalid_entry_of_the_last_three_files(small_store: Store) -> None:
    """Java's recovery of a queue does not look at older files, and a file that is zeros ends the queue at its start."""
    in_the_last_three = [
        *entries(1, 2, 3, 4),
        *entries(5, 6),
        NONE,
        *entries(8),
        *entries(9, 10, 11, 12),
    ]
    directory = small_store.write_queue(in_the_last_three)
    assert bounds(QueueFiles("T", 0, directory)) == (0, 6)
    before_them = [*entries(1), NONE, *entries(3, 4), *entries(*range(5, 17))]
    directory = small_store.write_queue(before_them, queue_id=1)
    assert bounds(QueueFiles("T", 1, directory)) == (0, 16)
    directory = small_store.write_queue([*entries(1, 2, 3, 4), NONE], queue_id=2)
    assert bounds(QueueFiles("T", 2, directory)) == (0, 4)


@pytest.mark.parametrize(
    ("log_end", "end"),
    [(None, 8), (90, 8), (81, 8), (80, 7), (61, 6), (51, 5), (50, 4), (11, 1), (10, 0), (0, 0)],
)
def test_entries_past_the_end_of_the_log_do_not_count(
    small_store: Store, log_end: int | None, end: int
) -> None:
    directory = small_store.write_queue(entries(*range(10, 90, 10)))
    assert max_offset(QueueFiles("T", 0, directory), log_end) == end


def test_an_empty_last_file_does_not_hide_entries_past_the_log(small_store: Store) -> None:
    directory = small_store.write_queue([*entries(10, 20, 30, 40), NONE])
    assert max_offset(QueueFiles("T", 0, directory), 30) == 2


@pytest.mark.parametrize(
    ("log_min", "start"), [(0, 0), (10, 0), (11, 1), (30, 2), (40, 3), (81, 8), (200, 8)]
)
def test_the_minimum_is_the_first_entry_of_the_log(
    small_store: Store, log_min: int, start: int
) -> None:
    directory = small_store.write_queue(entries(*range(10, 90, 10)))
    assert bounds(QueueFiles("T", 0, directory), log_min) == (start, 8)


@pytest.mark.parametrize("log_min", [41, 60, 80])
def test_the_minimum_stays_when_the_whole_first_file_has_expired(
    small_store: Store, log_min: int
) -> None:
    directory = small_store.write_queue(entries(*range(10, 90, 10)))
    assert bounds(QueueFiles("T", 0, directory), log_min) == (0, 8)


@pytest.mark.parametrize(("log_min", "start"), [(0, 5), (1, 7), (71, 0)])
def test_the_minimum_among_fillers(small_store: Store, log_min: int, start: int) -> None:
    """Before a rebuilt queue that begins in mid-file lie fillers, which name offset 0: a log that begins later lacks it."""
    directory = small_store.write_queue([FILLER, FILLER, FILLER, *entries(70, 80)], first=4)
    assert bounds(QueueFiles("T", 0, directory), log_min) == (start, 9)


def test_a_growing_queue_is_followed(small_store: Store) -> None:
    directory = small_store.write_queue(entries(10, 20, 30))
    queue = QueueFiles("T", 0, directory)
    assert max_offset(queue) == 3
    small_store.write_queue(entries(*range(10, 160, 10)))
    assert max_offset(queue) == 4  # the files known so far
    queue.refresh()
    assert max_offset(queue) == 15


def test_info_of_an_empty_queue(small_store: Store) -> None:
    small_store.write_queue([NONE])
    (info,) = list_queues(small_store.paths, 0)
    assert (info.min_offset, info.max_offset, info.min_phy_offset, info.max_phy_offset) == (
        0,
        0,
        None,
        None,
    )
    assert info.as_dict()["topic"] == "T"
