"""What a forecast says of real stores: rates, times, levels of the disk, groups, and odd input."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from support.stores.many_files import NOON, another_hour, fill, settle
from support.stores.many_files import settings as store_settings

import rmqcore
from rmqcore import Message
from rmqcore.disk.used_space import DiskSpace
from rmqcore.maintenance.retention import growing_disks
from rmqcore.maintenance.retention.report import RetentionReport
from rmqcore.maintenance.retention.retention import retention

FILE_SIZE = 64 << 10
HOUR_MS = 3_600_000
FILES = 5
CONFIG = rmqcore.MessageStoreConfig(delete_when=another_hour(), file_reserved_time=10)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Five files, changed 8, 6, 4, 2 and 0 hours before noon; the disk is another one for each test."""
    root = tmp_path / "store"
    with rmqcore.open(root, **store_settings(FILE_SIZE)) as opened:
        fill(opened, FILES)
    for number in range(FILES):
        age(root, number, 2 * (FILES - 1 - number))
    return root


def age(root: Path, number: int, hours: float) -> None:
    when = (NOON - hours * HOUR_MS) / 1000
    os.utime(root / "commitlog" / f"{number * FILE_SIZE:020}", (when, when))


@pytest.fixture(autouse=True)
def disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tenth of 10 GiB is used."""
    answer(monkeypatch, DiskSpace(1 << 30, 9 << 30))


def answer(monkeypatch: pytest.MonkeyPatch, space: DiskSpace | None) -> None:
    monkeypatch.setattr(growing_disks, "disk_space", lambda _: space)


def ask(root: Path, **more: Any) -> RetentionReport:
    return retention(root, **{"config": CONFIG, "now_ms": NOON, "bytes_per_second": 0.0, **more})


def gone(report: RetentionReport) -> dict[int, tuple[int, str]]:
    return {
        file.file_from_offset // FILE_SIZE: ((file.goes_at_ms - NOON) // HOUR_MS, str(file.reason))
        for file in report.present.files
        if file.goes_at_ms is not None
    }


def test_files_go_at_the_hour_when_their_time_is_over(store: Path) -> None:
    # The hour is twelve hours away: by then the first three are older than ten hours; the others go a day later.
    assert gone(ask(store)) == {0: (12, "time"), 1: (12, "time"), 2: (12, "time"), 3: (12, "time")}
    later = ask(store, config=CONFIG.changed(file_reserved_time=19))
    assert gone(later) == {0: (12, "time"), 1: (36, "time"), 2: (36, "time"), 3: (36, "time")}


def test_the_facts_of_a_file(store: Path) -> None:
    report = ask(store)
    messages = list(rmqcore.read(store).messages())
    for number, file in enumerate(report.present.files):
        own = [view for view in messages if view.phy_offset // FILE_SIZE == number]
        assert file.first_store_timestamp_ms == own[0].store_timestamp_ms
        assert file.last_store_timestamp_ms == own[-1].store_timestamp_ms
        assert file.mtime_ms == NOON - 2 * (FILES - 1 - number) * HOUR_MS
        assert (file.size, Path(file.path).name) == (FILE_SIZE, f"{number * FILE_SIZE:020}")
    assert report.max_phy_offset == messages[-1].phy_offset + messages[-1].msg_size
    assert json.loads(json.dumps(report.as_dict()))["present"]["files"][0]["reason"] == "time"
    assert "fileReservedTime" in report._repr_html_()


def test_a_log_that_settles_never_fills_the_disk(store: Path) -> None:
    rate = 1000.0
    report = ask(store, bytes_per_second=rate)
    assert all(level.never and level.reached_at_ms is None for level in report.present.levels)
    settles = report.present.settles_at_bytes
    assert settles is not None
    # Ten hours, up to a day until the hour comes, and what is written until the last batch of ten files has gone.
    assert 10 * 3600 * rate < settles < 36 * 3600 * rate


def test_days_until_each_ratio_and_until_the_disk_is_full(store: Path) -> None:
    """Files of queues and index grow beside the log; nothing goes for want of its time, and nothing is forced."""
    config = CONFIG.changed(file_reserved_time=100_000, clean_file_forcibly_enable=False)
    rate = 10_000.0
    report = ask(store, config=config, bytes_per_second=rate, horizon_days=1)
    growth = rate * (1 + report.rate.beside)
    levels = {level.name: level for level in report.present.levels}
    for name, percent in (
        ("diskMaxUsedSpaceRatio", 75),
        ("diskSpaceCleanForciblyRatio", 85),
        ("diskSpaceWarningLevelRatio", 90),
    ):
        level = levels[name]
        seconds = ((10 << 30) * percent / 100 - (1 << 30)) / growth
        assert level.percent == percent
        assert level.reached_at_ms == pytest.approx(NOON + seconds * 1000, abs=30_000)
    # Above the warning level no put is taken, and the log does not grow any more.
    assert report.present.refuses_puts_from_ms == levels["diskSpaceWarningLevelRatio"].reached_at_ms
    assert levels["full"].reached_at_ms is None


def test_a_disk_above_its_ratios_is_told_as_it_is_now(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer(monkeypatch, DiskSpace(88, 12))
    report = ask(store)
    reached = [level.reached_at_ms for level in report.present.levels]
    assert reached == [NOON, NOON, None, None]
    assert gone(report) == dict.fromkeys(range(4), (0, "forced"))


def test_a_disk_that_cannot_be_asked(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It counts as too full: what is expired goes at any hour."""
    answer(monkeypatch, None)
    report = ask(store, bytes_per_second=5.0)
    assert gone(report)[0] == (2, "disk")
    assert not any(level.never or level.reached_at_ms for level in report.present.levels)
    assert [disk.used_percent for disk in report.disks] == [-1]
    assert "cannot be measured" in " ".join(report.notes)


def test_what_if(store: Path) -> None:
    report = ask(store, what_if={"fileReservedTime": "3", "delete_when": "00;06;12;18"})
    assert report.what_if is not None
    assert report.what_if.settings["fileReservedTime"] == 3
    assert report.present.settings["fileReservedTime"] == 10
    first, other = report.present.files[0], report.what_if.files[0]
    assert (first.goes_at_ms or 0) > (other.goes_at_ms or 0) > 0


@pytest.mark.parametrize(
    ("what_if", "told"),
    [
        ({"fileReservTime": "3"}, "did you mean fileReservedTime"),
        ({"file_reserved_tim": "3"}, "did you mean file_reserved_time"),
        ({"flushDiskType": "SYNC_FLUSH"}, "no setting of this name affects cleaning"),
        ({"deleteWhen": "25"}, "^deleteWhen: expected hours of the day"),
        ({"delete_when": "25"}, "^delete_when: expected hours of the day"),
        ({"deleteWhen": "noon"}, "expected hours of the day"),
        ({"fileReservedTime": "a day"}, "^fileReservedTime: expected a whole number"),
        ({"diskMaxUsedSpaceRatio": "101"}, "^diskMaxUsedSpaceRatio: expected 0 to 100"),
        ({"fileReservedTime": "3", "file_reserved_time": 4}, "given twice"),
    ],
)
def test_a_what_if_that_is_none(store: Path, what_if: dict[str, object], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        ask(store, what_if=what_if)


@pytest.mark.parametrize(
    "wrong", [{"horizon_days": 0}, {"horizon_days": 1e9}, {"bytes_per_second": -1.0}]
)
def test_numbers_that_make_no_sense(store: Path, wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        ask(store, **wrong)


def test_ratios_out_of_order(store: Path) -> None:
    config = CONFIG.changed(disk_max_used_space_ratio=95, disk_space_warning_level_ratio=99)
    notes = ask(store, config=config).notes
    assert "diskSpaceWarningLevelRatio=99 counts as 90%, as in RocketMQ" in notes
    assert any(
        "diskMaxUsedSpaceRatio (95%) is above diskSpaceCleanForciblyRatio" in note for note in notes
    )


def test_mtimes_in_the_future_keep_all_files_behind_them(store: Path) -> None:
    age(store, 0, -50)
    report = ask(store, horizon_days=4)
    assert gone(report) == dict.fromkeys(range(4), (60, "time"))
    assert any(
        "1 files" in note and "modification time in the future" in note for note in report.notes
    )


def test_a_copy_without_its_times_is_told(store: Path) -> None:
    """The files look new, and nothing goes for three days."""
    messages = list(rmqcore.read(store).messages())
    stored = max(view.store_timestamp_ms for view in messages)
    for path in (store / "commitlog").iterdir():
        os.utime(path, (stored / 1000 + 2 * 86_400, stored / 1000 + 2 * 86_400))
    report = ask(store, now_ms=stored + 3 * 86_400_000)
    assert any("as in a copy" in note for note in report.notes)
    assert any("the newest message is 72 hours old" in note for note in report.notes)


def save(store: Path, table: dict[str, dict[str, int]], name: str = "consumerOffset.json") -> None:
    (store / "config").mkdir(exist_ok=True)
    (store / "config" / name).write_text(json.dumps({"offsetTable": table}))


def test_what_groups_lose_unread(store: Path) -> None:
    queues = {queue.topic: queue for queue in rmqcore.read(store).queues()}
    end = queues["T0"].max_offset
    save(
        store,
        {
            "T0@quick": {"0": end},
            "T0@slow": {"0": 3},
            "T1@half": {"0": end // 2},
            "Gone@slow": {"0": 5},
            "T0@odd": {"7": 1},
        },
    )
    report = ask(store)
    rows = {row.group: row for row in report.present.groups}
    assert set(rows) == {"slow", "half"}
    kept_from = report.present.deleted[-1].file_from_offset + FILE_SIZE
    for group, topic, start in (("slow", "T0", 3), ("half", "T1", end // 2)):
        row = rows[group]
        unread = [
            view.phy_offset
            for view in rmqcore.read(store).messages(topics=[topic])
            if view.queue_offset >= start
        ]
        assert (row.lost, row.unread, row.first_unread_phy_offset) == (0, len(unread), unread[0])
        assert row.loses == sum(phy_offset < kept_from for phy_offset in unread)
        first_file = report.present.files[unread[0] // FILE_SIZE]
        assert row.loses_from_ms == first_file.goes_at_ms
    assert report.present.groups[0].group == "slow"


def test_messages_that_are_lost_already(store: Path) -> None:
    with rmqcore.open(store, **store_settings(FILE_SIZE, file_reserved_time=5)) as opened:
        opened.clean_once(now_ms=NOON, disk_ratio=0.1, pause=lambda _: False)
        least = opened.min_offset("T0", 0)
    assert least > 0
    save(store, {"T0@slow": {"0": 1}})
    row = ask(store).present.groups[0]
    assert (row.lost, row.min_offset, row.unread) == (least - 1, least, row.max_offset - least)


def test_a_torn_file_of_offsets_has_a_backup(store: Path) -> None:
    save(store, {"T0@slow": {"0": 3}}, "consumerOffset.json.bak")
    (store / "config" / "consumerOffset.json").write_text('{"offsetTable":{"T0@sl')
    report = ask(store)
    assert [row.group for row in report.present.groups] == ["slow"]
    assert any("consumerOffset.json.bak was read instead" in note for note in report.notes)


def test_an_empty_store(tmp_path: Path) -> None:
    with rmqcore.open(tmp_path / "empty", **store_settings(FILE_SIZE)):
        pass
    report = ask(tmp_path / "empty", bytes_per_second=None)
    assert (report.present.files, report.rate.bytes_per_second) == ((), 0.0)
    assert "the log has no message" in report.rate.source


def test_a_log_that_grows_too_fast_is_looked_at_as_far_as_it_goes(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer(monkeypatch, DiskSpace(0, 1 << 60))
    report = ask(store, bytes_per_second=float(1 << 40))
    assert report.present.looked_to_ms < report.horizon_ms


def test_the_store_is_only_read(store: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in store.rglob("*")}
    ask(store)
    assert {path: path.stat().st_mtime_ns for path in store.rglob("*")} == before


def test_messages_put_meanwhile(store: Path) -> None:
    """A live store is read as it is at the moment."""
    with rmqcore.open(store, **store_settings(FILE_SIZE)) as opened:
        opened.put(Message("T0", b"x"))
        settle(opened)
        assert ask(store).max_phy_offset == opened.max_phy_offset
