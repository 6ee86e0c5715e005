"""How fast a log grows, by the store times of its records: which window is taken, and what odd clocks do to it."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import pytest
from support.stores.many_files import NOON, fill
from support.stores.many_files import settings as store_settings
from support.stores.sick_stores import STORE_TIMESTAMP

import rmqcore
from rmqcore import MessageView
from rmqcore.maintenance.retention.retention import retention
from rmqcore.maintenance.retention.write_rate import CLOSE_ENOUGH

FILE_SIZE = 256 << 10
MINUTE_MS, HOUR_MS, DAY_MS = 60_000, 3_600_000, 86_400_000


@pytest.fixture
def store(tmp_path: Path) -> Path:
    with rmqcore.open(tmp_path / "store", **store_settings(FILE_SIZE)) as opened:
        fill(opened, 4)
    return tmp_path / "store"


def stamp(root: Path, when: Callable[[int], int]) -> list[MessageView]:
    """Give the record of each number another store time."""
    messages = list(rmqcore.read(root).messages())
    for number, view in enumerate(messages):
        start = view.phy_offset // FILE_SIZE * FILE_SIZE
        with (root / "commitlog" / f"{start:020}").open("r+b") as file:
            file.seek(view.phy_offset - start + STORE_TIMESTAMP)
            file.write(struct.pack(">q", when(number)))
    return messages


def test_a_log_of_days_has_the_rate_of_its_last_day(store: Path) -> None:
    """Two thirds of it were written on the last of three days, as after a shop has opened."""
    count = len(list(rmqcore.read(store).messages()))
    quiet = count // 3

    def when(number: int) -> int:
        if number < quiet:
            return NOON - 3 * DAY_MS + number * 2 * DAY_MS // quiet
        return NOON - (count - 1 - number) * DAY_MS // (count - quiet)

    messages = stamp(store, when)
    report = retention(store, now_ms=NOON + MINUTE_MS)
    begin = messages[quiet].phy_offset
    expected = (report.max_phy_offset - begin) / (DAY_MS / 1000)
    near = pytest.approx(expected, abs=CLOSE_ENOUGH / (DAY_MS / 1000))
    assert report.rate.bytes_per_second == report.rate.last_day == near
    hour = (count - quiet) / 24 * messages[0].msg_size / 3600
    assert report.rate.last_hour == pytest.approx(hour, abs=CLOSE_ENOUGH / 3600)
    assert "last day" in report.rate.source
    assert not any("decrease" in note for note in report.notes)


def test_a_younger_log_has_the_rate_of_all_of_it(store: Path) -> None:
    count = len(list(rmqcore.read(store).messages()))
    stamp(store, lambda number: NOON - 5 * HOUR_MS + number * 5 * HOUR_MS // (count - 1))
    report = retention(store, now_ms=NOON)
    assert report.rate.bytes_per_second == pytest.approx(
        report.max_phy_offset / (5 * 3600), rel=0.01
    )
    assert report.rate.last_day is None
    assert report.rate.last_hour == pytest.approx(report.rate.bytes_per_second, rel=0.4)
    assert "less than a day" in report.rate.source


def test_the_rate_of_a_copy_is_what_the_store_had(store: Path) -> None:
    """Not zero, because nothing was written since."""
    count = len(list(rmqcore.read(store).messages()))
    stamp(store, lambda number: NOON - 2 * DAY_MS + number * 2 * DAY_MS // (count - 1))
    copied = retention(store, now_ms=NOON + 30 * DAY_MS)
    assert copied.rate == retention(store, now_ms=NOON).rate
    assert copied.rate.bytes_per_second > 0
    assert any("the newest message is 720 hours old" in note for note in copied.notes)


def test_a_clock_that_steps_back(store: Path) -> None:
    """In the middle of the log by a day: a rate is found all the same, and it is told that it may be wrong."""
    count = len(list(rmqcore.read(store).messages()))
    step = count // 2

    def when(number: int) -> int:
        at = NOON - 2 * DAY_MS + number * 2 * DAY_MS // count
        return at - DAY_MS if number >= step else at

    stamp(store, when)
    report = retention(store, now_ms=NOON)
    assert report.rate.bytes_per_second >= 0
    assert any("store times decrease" in note for note in report.notes)


@pytest.mark.parametrize("odd", [-(1 << 63), 0, (1 << 63) - 1])
def test_times_that_no_calendar_has(store: Path, odd: int) -> None:
    for others in (odd, NOON):
        stamp(store, lambda number, others=others: odd if number % 2 else others)  # type: ignore[misc]
        report = retention(store, now_ms=NOON)
        assert report.rate.bytes_per_second >= 0
        assert len(report.present.files) == 4
