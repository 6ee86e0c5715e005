"""When files are deleted: each of Java's conditions at its bound, and which of them counts where several hold."""

from __future__ import annotations

import os
import time
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from rmqcore.config import MessageStoreConfig
from rmqcore.engine.clean.rules import CleanRules, DiskUse, Trigger

ROOMY = DiskUse(0.5, 0.5)


def at(hour: int) -> int:
    """A moment of that hour, local time, in milliseconds."""
    return int(datetime(2026, 3, 10, hour, 30).timestamp() * 1000)  # noqa: DTZ001 the rules are about local time


def look(use: DiskUse = ROOMY, hour: int = 12, **config: Any) -> Trigger:
    return CleanRules(MessageStoreConfig(**config)).look(at(hour), use)


def test_nothing_is_deleted_at_another_hour_on_a_disk_with_room() -> None:
    trigger = look()
    assert not trigger.pulled and not trigger.at_once
    assert trigger.roomy and trigger.full is None


@pytest.mark.parametrize(
    ("delete_when", "hours"), [("04", {4}), ("4", {4}), ("00;23", {0, 23}), ("04;16;", {4, 16})]
)
def test_hours_are_those_of_the_local_time(
    delete_when: str, hours: set[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    for zone in ("UTC", "Asia/Shanghai", "America/New_York"):
        monkeypatch.setenv("TZ", zone)
        time.tzset()
        try:
            found = {hour for hour in range(24) if look(hour=hour, delete_when=delete_when).time}
        finally:
            monkeypatch.undo()
            time.tzset()
        assert found == hours


@pytest.mark.parametrize("queues", [False, True])
@pytest.mark.parametrize(
    ("ratio", "disk", "at_once", "full", "roomy"),
    [
        (0.75, False, False, False, True),
        (0.76, True, False, False, True),
        (0.85, True, False, False, True),
        (0.86, True, True, False, False),
        (0.90, True, True, False, False),
        (0.91, True, True, True, False),
    ],
)
def test_levels(
    queues: bool, ratio: float, disk: bool, at_once: bool, full: bool, roomy: bool
) -> None:
    use = DiskUse(0.1, ratio) if queues else DiskUse(ratio, 0.1)
    trigger = look(use)
    assert (trigger.disk, trigger.at_once, trigger.full is not None) == (disk, at_once, full)
    # Java looks at the queues' disk only where the log's has room, which takes the refusal of puts back first.
    assert trigger.roomy == (roomy or (queues and not full))


def test_what_is_full_is_named() -> None:
    assert look(DiskUse(0.95, 0.1)).full == (
        "the disk of the CommitLog is 95% full, more than 90% (disk_space_warning_level_ratio)"
    )
    assert "queues" in str(look(DiskUse(0.1, 0.97)).full)


def test_the_queues_disk_is_not_looked_at_while_the_logs_disk_is_too_full() -> None:
    trigger = look(DiskUse(0.87, 0.99))
    assert trigger.full is None and not trigger.roomy


@pytest.mark.parametrize("use", [DiskUse(-0.01, 0.1), DiskUse(0.1, -0.01)])
def test_a_disk_that_cannot_be_asked_counts_as_too_full(use: DiskUse) -> None:
    trigger = look(use)
    assert trigger.disk and not trigger.at_once and trigger.roomy


def test_files_that_are_not_expired_stay_where_the_setting_says_so() -> None:
    trigger = look(DiskUse(0.95, 0.1), clean_file_forcibly_enable=False)
    assert trigger.disk and trigger.full is not None and not trigger.at_once


@pytest.mark.parametrize(
    ("name", "value", "below", "above"),
    [
        ("disk_space_warning_level_ratio", 99, 0.90, 0.91),
        ("disk_space_warning_level_ratio", 1, 0.35, 0.36),
        ("disk_space_warning_level_ratio", 50, 0.50, 0.51),
    ],
)
def test_the_warning_level_has_bounds(name: str, value: int, below: float, above: float) -> None:
    ratios = {"disk_space_clean_forcibly_ratio": 30, name: value}
    assert look(DiskUse(below, 0.1), **ratios).full is None
    assert look(DiskUse(above, 0.1), **ratios).full is not None


@pytest.mark.parametrize(("value", "bound"), [(100, 0.95), (1, 0.10), (40, 0.40)])
def test_the_most_used_part_has_bounds(value: int, bound: float) -> None:
    rules = CleanRules(MessageStoreConfig(disk_max_used_space_ratio=value))
    assert rules.most_used == bound


@pytest.mark.parametrize(
    ("share", "disk", "at_once"), [(0.75, False, False), (0.76, True, False), (0.81, True, True)]
)
def test_a_share_of_a_disk_counts_instead_of_the_disk(
    share: float, disk: bool, at_once: bool
) -> None:
    trigger = look(DiskUse(0.84, 0.84, share), replicas_per_disk_partition=3)
    assert (trigger.disk, trigger.at_once) == (disk, at_once)


def test_a_full_disk_counts_whatever_the_share_is() -> None:
    assert look(DiskUse(0.88, 0.1, 0.01)).at_once


@pytest.mark.parametrize("hours", [0, 1, 72])
def test_a_file_is_expired_at_the_end_of_its_time(tmp_path: Path, hours: int) -> None:
    rules = CleanRules(MessageStoreConfig(file_reserved_time=hours))
    path, end = tmp_path / "file", 1_000_000 + hours * 3_600_000
    path.touch()
    for mtime_ms, expired in ((1_000_000, True), (1_000_001, False), (end + 5, False)):
        os.utime(path, ns=(0, mtime_ms * 1_000_000))
        assert rules.expired(str(path), end) == expired
    assert rules.expired(str(tmp_path / "gone"), 0)
