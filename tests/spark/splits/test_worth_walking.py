"""``auto`` walks files on the driver where that takes less time than it saves the tasks.

The planner walked newest files up to 4 GiB and small stores up to 512 MiB: of 20 stores in 16 tasks it read 2 GiB alone while all
tasks waited, and no task had less to read for it.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqcore.offline.log.log_files import LogFile
from rmqcore.spark.splits.sizing import MIB, Sizing
from rmqcore.spark.splits.worth_walking import TASK_PER_WALK, WalkableFile, worth_walking

GIB = 1024 * MIB


def newest(*sizes: int) -> list[WalkableFile]:
    return [
        WalkableFile(LogFile(Path(f"/{number}/commitlog/{0:020}"), 0, size), size, size)
        for number, size in enumerate(sizes)
    ]


def count(files: list[WalkableFile], tasks: int) -> int:
    """Files that are walked when these are all that is read."""
    most = Sizing(parallelism=tasks).for_bytes(sum(one.uncut_bytes for one in files))
    return len(worth_walking(files, most.max_partition_bytes, tasks))


@pytest.mark.parametrize(
    ("stores", "tasks", "walked"),
    [(1, 1, 0), (1, 2, 1), (1, 16, 1), (3, 16, 3), (3, 3, 0), (20, 16, 0), (1000, 16, 0)],
)
def test_newest_files_of_one_gib(stores: int, tasks: int, walked: int) -> None:
    """With one task at once nothing is gained, and with as many files as tasks little."""
    if tasks == 1:
        assert not worth_walking(newest(*[GIB] * stores), GIB, tasks)
    else:
        assert count(newest(*[GIB] * stores), tasks) == walked


def test_a_file_much_larger_than_the_others_is_walked_alone() -> None:
    files = newest(200 * MIB, 1024 * MIB, 190 * MIB, *[195 * MIB] * 40)
    assert worth_walking(files, 128 * MIB, 64) == {files[1].file.location}


def test_the_end_of_a_sealed_file_is_not_worth_a_walk_over_all_of_it() -> None:
    """The rule leaves 66 MiB in one part, and a walk reads 1 GiB."""
    file = LogFile(Path(f"/a/commitlog/{0:020}"), 0, GIB)
    assert not worth_walking([WalkableFile(file, GIB, 66 * MIB)], 32 * MIB, 16)


@given(
    sizes=st.lists(st.integers(1, 1000), max_size=12),
    most=st.integers(1, 300),
    tasks=st.integers(1, 20),
)
def test_no_choice_costs_less(sizes: list[int], most: int, tasks: int) -> None:
    files = newest(*sizes)
    chosen = worth_walking(files, most, tasks)

    def cost(walked: set[str]) -> int:
        left = [one.uncut_bytes for one in files if one.file.location not in walked]
        read = sum(one.walked_bytes for one in files if one.file.location in walked)
        return read + TASK_PER_WALK * max([most, *left])

    large = [one for one in files if one.uncut_bytes > most]
    if len(large) >= tasks > 1:
        assert not chosen
        return
    by_size = sorted(large, key=lambda one: -one.uncut_bytes)
    for number in range(len(by_size) + 1):
        assert cost(set(chosen)) <= cost({one.file.location for one in by_size[:number]})
