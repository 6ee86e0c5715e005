"""A forecast is what the engine does when the clock is really moved: the same files go in the same rounds for the same reason."""

from __future__ import annotations

import math
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st
from support.doses import examples
from support.stores.many_files import NOON, fill, settle
from support.stores.many_files import settings as store_settings

import rmqcore
from rmqcore import Message, MessageStore
from rmqcore.disk.used_space import DiskSpace
from rmqcore.engine.clean.rules import CleanRules
from rmqcore.maintenance.retention.growing_disks import GrowingDisk, GrowingDisks
from rmqcore.maintenance.retention.simulation import SimulatedFile, Simulation

FILE_SIZE = 16 << 10
STEP = FILE_SIZE // 4
"""What is written between two rounds is so many bytes, or a multiple of them."""
HOUR_MS = 3_600_000
LAST_MS = NOON + 48 * HOUR_MS


@dataclass(frozen=True)
class Case:
    """A store, its settings, and a disk that has the bytes of `others` files and room for `room` more."""

    ages_h: tuple[int, ...]
    hours: tuple[int, ...]
    reserved_h: int
    batch: int
    may_force: bool
    most: int
    forced: int
    warning: int
    others: int
    room: int
    steps: int


CASES = st.builds(
    Case,
    ages_h=st.lists(st.integers(-5, 40), min_size=2, max_size=6).map(tuple),
    hours=st.sets(st.integers(0, 23), min_size=1, max_size=3).map(tuple),
    reserved_h=st.integers(0, 40),
    batch=st.integers(1, 4),
    may_force=st.booleans(),
    most=st.sampled_from([40, 75, 90]),
    forced=st.sampled_from([50, 85]),
    warning=st.sampled_from([60, 90]),
    others=st.integers(0, 8),
    room=st.integers(1, 16),
    steps=st.sampled_from([0, 1, 3]),
)
EVERY_HOUR = tuple(range(24))
# One of each reason, and a disk that becomes so full that puts are refused.
BY_TIME = Case((40, 30, 1), EVERY_HOUR, 20, 4, True, 75, 85, 90, 0, 100, 1)
BY_DISK = Case((40, 40, 1), (), 20, 4, True, 40, 85, 90, 8, 8, 1)
BY_FORCE = Case((3, 2, 1), (), 40, 1, True, 75, 85, 90, 8, 4, 3)
REFUSED = Case((3, 2, 1), (), 40, 1, False, 75, 85, 90, 8, 4, 3)


def configuration(case: Case) -> dict[str, Any]:
    return {
        **store_settings(FILE_SIZE),
        "delete_when": ";".join(f"{hour:02}" for hour in case.hours) or "23",
        "file_reserved_time": case.reserved_h,
        "delete_file_batch_max": case.batch,
        "clean_file_forcibly_enable": case.may_force,
        "disk_max_used_space_ratio": case.most,
        "disk_space_clean_forcibly_ratio": case.forced,
        "disk_space_warning_level_ratio": case.warning,
        "clean_resource_interval": HOUR_MS,
    }


class Real:
    """The store, whose log is to end at `aim`, give or take half a record."""

    def __init__(self, store: MessageStore, case: Case) -> None:
        self.store, self.case = store, case
        fill(store, len(case.ages_h))
        while not STEP // 4 < store.max_phy_offset % STEP < STEP * 3 // 4:
            store.put(Message("T0", bytes(300))).raise_for_status()
        settle(store)
        for start, hours in zip(self.starts(), case.ages_h, strict=False):
            self.change(start, NOON - hours * HOUR_MS)
        self.aim = store.max_phy_offset
        self.entire = self.used + case.room * FILE_SIZE
        self.gone: dict[int, int] = {}
        self.reasons: dict[int, str | None] = {}

    def starts(self) -> list[int]:
        """Where the files begin that hold something."""
        names = os.listdir(self.store.paths.root / "commitlog")
        return sorted(start for start in map(int, names) if start < self.store.max_phy_offset)

    def change(self, start: int, mtime_ms: int) -> None:
        path = self.store.paths.root / "commitlog" / f"{start:020}"
        os.utime(path, ns=(mtime_ms * 1_000_000, mtime_ms * 1_000_000))

    @property
    def used(self) -> int:
        return self.case.others * FILE_SIZE + self.aim - self.starts()[0]

    def round(self, now_ms: int) -> None:
        before = self.starts()
        used = min(self.used, self.entire)
        percent = DiskSpace(used, self.entire - used).percent
        report = self.store.clean_once(
            now_ms=now_ms, disk_ratio=percent / 100, pause=lambda _: False
        )
        for start in set(before) - set(self.starts()):
            self.gone[start] = now_ms
            self.reasons[now_ms] = report.reason

    def write(self, now_ms: int) -> None:
        """Write for an hour, as long as the store takes puts and the disk has room."""
        if self.store.stats()["no_puts"] is not None or self.used >= self.entire:
            return
        before, self.aim = self.aim, self.aim + self.case.steps * STEP
        while self.store.max_phy_offset + 200 < self.aim:
            self.store.put(Message("T0", bytes(300))).raise_for_status()
        settle(self.store)
        for start in self.starts():
            end = start + FILE_SIZE
            if before < end <= self.aim:
                share = (end - before) / (self.aim - before)
                self.change(start, now_ms + math.floor(share * HOUR_MS))

    def simulation(self) -> Simulation:
        """The forecast, made now."""
        starts = self.starts()
        files = [
            SimulatedFile(
                start,
                start + FILE_SIZE,
                int(os.stat(self.store.paths.root / "commitlog" / f"{start:020}").st_mtime * 1000),
                FILE_SIZE,
                0,
            )
            for start in starts
        ]
        files[-1].mtime_ms = None
        files[-1].disk_bytes = self.aim - starts[-1]
        disk = GrowingDisk(Path("/"), DiskSpace(self.used, self.entire - self.used), 1.0, 1.0)
        return Simulation(
            files, self.aim, GrowingDisks([disk], 0, 0.0), CleanRules(self.store.config), HOUR_MS,
            self.case.steps * STEP / (HOUR_MS / 1000), NOON,
        )  # fmt: skip


@given(CASES)
@example(BY_TIME)
@example(BY_DISK)
@example(BY_FORCE)
@example(REFUSED)
@examples(0.5)  # each makes a store
def test_the_same_files_go_in_the_same_rounds(case: Case) -> None:
    with (
        tempfile.TemporaryDirectory() as folder,
        rmqcore.open(folder, **configuration(case)) as store,
    ):
        real = Real(store, case)
        simulation = real.simulation()
        simulation.run(LAST_MS)
        for now_ms in range(NOON, LAST_MS + 1, HOUR_MS):
            real.round(now_ms)
            real.write(now_ms)
        assert {one.file_from_offset: one.time_ms for one in simulation.gone} == real.gone
        # A round tells the reason of the last file that it deletes.
        assert {one.time_ms: one.reason for one in simulation.gone} == real.reasons
        refused = simulation.puts_refused_ms is not None
        if case in (BY_TIME, BY_DISK, BY_FORCE):
            assert set(real.reasons.values()) == {
                BY_TIME: {"time"}, BY_DISK: {"disk"}, BY_FORCE: {"forced"},
            }[case]  # fmt: skip
        assert refused or case != REFUSED


def test_rounds_in_which_nothing_can_change_are_passed_over() -> None:
    """A forecast of ten years has 31 million rounds, and is made in a moment."""
    disk = GrowingDisk(Path("/"), DiskSpace(0, 1 << 40), 1.0, 0.0)
    files = [SimulatedFile(0, 1 << 30, None, 1 << 20, 0)]
    simulation = Simulation(
        files, 1 << 20, GrowingDisks([disk], 0, 0.0), CleanRules(rmqcore.MessageStoreConfig()), 10_000,
        100_000.0, NOON,
    )  # fmt: skip
    simulation.run(NOON + 3650 * 24 * HOUR_MS)
    assert simulation.whole
    # The log of three days and a part of a fourth, and the file that is written.
    assert (
        72 * 3600 * 100_000 < max(size for _, size, _ in simulation.points) < 100 * 3600 * 100_000
    )
