"""Disks that fill as a log grows: several of them, shared ones, and what the rules see."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.stores.many_files import NOON

from rmqcore.config import MessageStoreConfig
from rmqcore.disk.used_space import DiskSpace
from rmqcore.engine.clean.rules import CleanRules
from rmqcore.maintenance.retention.growing_disks import (
    ELSEWHERE,
    SPREAD,
    GrowingDisk,
    GrowingDisks,
    SharedPart,
)
from rmqcore.maintenance.retention.simulation import SimulatedFile, Simulation

MIB = 1 << 20
HOUR_MS = 3_600_000


def disk(used: int, free: int, log_part: float, beside_part: float) -> GrowingDisk:
    return GrowingDisk(Path("/"), DiskSpace(used, free), log_part, beside_part)


def test_the_emptiest_disk_of_the_log_counts_and_that_of_the_queues_beside_it() -> None:
    disks = GrowingDisks([disk(80, 20, 0.5, 0), disk(40, 60, 0.5, 0), disk(70, 30, 0, 1)], 2, 0.1)
    assert (disks.use().log, disks.use().queues, disks.percent) == (0.40, 0.70, 70)
    disks.grow(20)
    assert [one.used for one in disks.disks] == [90, 50, 72]
    disks.free(0, 20)
    assert [one.used for one in disks.disks] == [70, 50, 70]
    disks.free(SPREAD, 20)
    assert [one.used for one in disks.disks] == [60, 40, 68]
    disks.free(ELSEWHERE, 10)
    assert [one.used for one in disks.disks] == [60, 40, 67]


@pytest.mark.parametrize("used", [0, 1, 499, 500, 501, 990, 999])
def test_bytes_until_the_next_percentage(used: int) -> None:
    """One byte less is the same percentage."""
    one = disk(used, 1000 - used, 1, 0)
    room = one.room_until_next()
    assert room == int(room) >= 1
    before = one.percent
    one.added = room - 1
    assert one.percent == before
    one.added = room
    assert one.percent > before or one.used == one.entire


def test_a_full_disk_stays_full() -> None:
    disks = GrowingDisks([disk(90, 10, 1, 1)], 0, 1.0)
    disks.grow(100)
    assert disks.full
    assert (disks.disks[0].used, disks.percent) == (100, 100)


def test_a_share_of_a_disk_counts_instead_of_the_disk() -> None:
    """Three stores on one disk: each has a third of it, and files are counted by their lengths."""
    config = MessageStoreConfig(replicas_per_disk_partition=3, clean_resource_interval=60_000)
    shared = SharedPart(10 * MIB, 7 * MIB)
    disks = GrowingDisks([disk(10 * MIB, 90 * MIB, 1, 0)], 0, 0.0, shared)
    files = [
        SimulatedFile(number * MIB, (number + 1) * MIB, NOON - HOUR_MS, MIB, 0)
        for number in range(6)
    ]
    files.append(SimulatedFile(6 * MIB, 7 * MIB, None, MIB // 2, 0))
    rate = MIB / 3600
    simulation = Simulation(
        files,
        6 * MIB + MIB // 2,
        disks,
        CleanRules(config),
        config.clean_resource_interval,
        rate,
        NOON,
    )
    simulation.run(NOON + 4 * HOUR_MS)
    # The eighth file makes it 80 %, more than 75; nothing is expired. The ninth makes it 90 %, above 80: all but the newest go.
    assert [one.file_from_offset for one in simulation.gone] == [
        number * MIB for number in range(8)
    ]
    assert {one.reason for one in simulation.gone} == {"forced"}
    (time_ms,) = {one.time_ms for one in simulation.gone}
    assert time_ms == pytest.approx(NOON + 1.5 * HOUR_MS, abs=60_000)
