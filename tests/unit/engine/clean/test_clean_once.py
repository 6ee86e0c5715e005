"""Rounds of cleaning on real stores, with a clock and a disk that the test names."""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from support.stores.many_files import NOON, another_hour, fill, settings, settle

import rmqcore
from rmqcore import Message, MessageStore
from rmqcore.disk import durable
from rmqcore.disk.durable import delete_file, sync_directory
from rmqcore.engine.clean import cleaner, disks
from rmqcore.errors import PutFailedError, StoreClosedError, StoreFailedError
from rmqcore.offline.fsck import fsck
from rmqcore.vocabulary.status import PutMessageStatus

FILE_SIZE = 64 << 10
HOUR_MS = 3_600_000
SETTINGS = settings(FILE_SIZE, file_reserved_time=10)
NEVER = {**SETTINGS, "delete_when": another_hour()}


def log_files(root: Path) -> list[int]:
    """Where the files of the log begin that hold something."""
    return [int(path.name) for path in sorted((root / "commitlog").iterdir())]


def age(root: Path, hours: dict[int, float], now_ms: int = NOON) -> None:
    """Let files have been changed so many hours ago."""
    for number, old in hours.items():
        when = (now_ms - old * HOUR_MS) / 1000
        os.utime(root / "commitlog" / f"{number * FILE_SIZE:020}", (when, when))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "store"


@pytest.fixture
def store(root: Path) -> Iterator[MessageStore]:
    with rmqcore.open(root, **SETTINGS) as opened:
        fill(opened, 6)
        age(root, dict.fromkeys(range(6), 1.0))
        yield opened


def no_pause(_: int) -> bool:
    return False


def test_expired_files_go_from_the_oldest_on(store: MessageStore, root: Path) -> None:
    age(root, {0: 30, 1: 10, 2: 9.99, 3: 50})
    report = store.clean_once(now_ms=NOON, disk_ratio=0.1, pause=no_pause)
    assert report.deleted[:2] == (f"commitlog/{0:020}", f"commitlog/{FILE_SIZE:020}")
    assert (report.reason, report.min_phy_offset, report.kept) == ("time", 2 * FILE_SIZE, None)
    assert log_files(root)[0] == store.min_phy_offset == 2 * FILE_SIZE
    assert report.freed_bytes >= 2 * FILE_SIZE
    assert json.loads(json.dumps(report.as_dict()))["reason"] == "time"


def test_queues_and_index_lose_what_is_below_the_log(store: MessageStore, root: Path) -> None:
    before = store.min_offset("T0", 0)
    queue_files = len(os.listdir(root / "consumequeue" / "T0" / "0"))
    index_files = len(os.listdir(root / "index"))
    age(root, {0: 30, 1: 30, 2: 30})
    report = store.clean_once(now_ms=NOON, disk_ratio=0.1, pause=no_pause)
    first = store.min_offset("T0", 0)
    assert first > before
    assert store.get("T0", 0, first, 1).messages[0].phy_offset >= store.min_phy_offset
    assert store.get("T0", 0, first - 1, 1).status.name == "OFFSET_TOO_SMALL"
    assert len(os.listdir(root / "consumequeue" / "T0" / "0")) < queue_files
    assert len(os.listdir(root / "index")) < index_files
    kinds = {name.split("/")[0] for name in report.deleted}
    assert kinds == {"commitlog", "consumequeue", "index"}
    assert not any((root / name).exists() for name in report.deleted)


def test_the_newest_file_stays(store: MessageStore, root: Path) -> None:
    age(root, dict.fromkeys(range(6), 1000.0))
    for _ in range(3):
        store.clean_once(now_ms=NOON, disk_ratio=0.99, pause=no_pause)
    assert store.min_phy_offset == 5 * FILE_SIZE
    assert store.put(Message("T0", b"x")).status is PutMessageStatus.SERVICE_NOT_AVAILABLE
    store.clean_once(now_ms=NOON, disk_ratio=0.1)
    assert store.put(Message("T0", b"x")).status is PutMessageStatus.PUT_OK


def test_a_round_has_a_most_and_pauses_in_between(root: Path) -> None:
    with rmqcore.open(root, **SETTINGS, delete_file_batch_max=3) as store:
        fill(store, 8)
        age(root, dict.fromkeys(range(8), 30.0))
        pauses: list[int] = []

        def noted(milliseconds: int) -> bool:
            pauses.append(milliseconds)
            return False

        report = store.clean_once(now_ms=NOON, disk_ratio=0.1, pause=noted)
        assert report.min_phy_offset == 3 * FILE_SIZE
        assert pauses[:2] == [100, 100]
        ended = store.clean_once(now_ms=NOON, disk_ratio=0.1, pause=lambda _: True)
        assert ended.min_phy_offset == 4 * FILE_SIZE, "a stop ends the round after a file"


def test_what_is_not_expired_goes_from_a_disk_that_is_too_full(root: Path) -> None:
    with rmqcore.open(root, **NEVER) as store:
        fill(store, 4)
        age(root, dict.fromkeys(range(4), 1.0))
        assert store.clean_once(now_ms=NOON, disk_ratio=0.85).deleted == ()
        report = store.clean_once(now_ms=NOON, disk_ratio=0.86, pause=no_pause)
        assert (report.reason, report.min_phy_offset) == ("forced", 3 * FILE_SIZE)


def test_what_is_expired_goes_from_a_full_disk_at_any_hour(root: Path) -> None:
    with rmqcore.open(root, **NEVER) as store:
        fill(store, 4)
        age(root, {0: 30, 1: 1, 2: 30})
        assert store.clean_once(now_ms=NOON, disk_ratio=0.75).deleted == ()
        report = store.clean_once(now_ms=NOON, disk_ratio=0.76, pause=no_pause)
        assert (report.reason, report.min_phy_offset) == ("disk", FILE_SIZE)


def test_by_hand_for_20_rounds(root: Path) -> None:
    with rmqcore.open(root, **NEVER) as store:
        fill(store, 3)
        store.execute_delete_files_manually()
        age(root, dict.fromkeys(range(3), 1.0))
        for _ in range(19):
            assert store.clean_once(now_ms=NOON, disk_ratio=0.1).deleted == ()
        age(root, {0: 30})
        assert store.clean_once(now_ms=NOON, disk_ratio=0.1).reason == "manual"
        age(root, {1: 30})
        assert store.clean_once(now_ms=NOON, disk_ratio=0.1).deleted == ()


def test_what_no_consumer_can_see_yet_stays(root: Path) -> None:
    """Java deletes it: a dispatch that is behind loses messages that nobody has read."""
    with rmqcore.open(root, **SETTINGS) as store:
        fill(store, 2)
        behind = store.max_phy_offset
        while store.max_phy_offset < 4 * FILE_SIZE:
            store.put(Message("T0", bytes(1000)))
        age(root, dict.fromkeys(range(4), 30.0))
        report = store.clean_once(now_ms=NOON, disk_ratio=0.1, pause=no_pause)
        assert report.min_phy_offset == behind // FILE_SIZE * FILE_SIZE
        assert "not yet on disk, or not yet in the queues" in str(report.kept)
        settle(store)
        report = store.clean_once(now_ms=NOON, disk_ratio=0.1, pause=no_pause)
        assert report.kept is None
        assert report.min_phy_offset == store.max_phy_offset // FILE_SIZE * FILE_SIZE


def test_a_view_of_a_deleted_file_stays_good(store: MessageStore, root: Path) -> None:
    result = store.get("T0", 0, 0, 1)
    view = result.messages[0]
    age(root, {0: 30, 1: 30})
    store.clean_once(now_ms=NOON, disk_ratio=0.1, pause=no_pause)
    assert view.body == bytes(1000)
    assert store.lookup(view.phy_offset) is None


def test_a_file_that_cannot_be_deleted_keeps_all_behind_it(
    store: MessageStore, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hole in the log would keep the next open from it."""
    age(root, dict.fromkeys(range(6), 30.0))
    refused = f"{FILE_SIZE:020}"

    def failing(path: Path) -> int:
        if path.name == refused and path.parent.name == "commitlog":
            raise OSError(errno.EPERM, "not permitted", str(path))
        return delete_file(path)

    monkeypatch.setattr(cleaner, "delete_file", failing)
    for _ in range(2):
        report = store.clean_once(now_ms=NOON, disk_ratio=0.1, pause=no_pause)
        assert log_files(root)[0] == FILE_SIZE
        assert refused in str(report.kept)
    monkeypatch.undo()
    monkeypatch.setattr(store._clean._cleaner.rules, "hours", ())
    report = store.clean_once(now_ms=NOON, disk_ratio=0.1, pause=no_pause)
    assert (report.deleted[0], report.reason) == (f"commitlog/{refused}", "time"), (
        "of the round before"
    )
    assert report.min_phy_offset == 2 * FILE_SIZE
    monkeypatch.undo()
    report = store.clean_once(now_ms=NOON, disk_ratio=0.1, pause=no_pause)
    assert report.min_phy_offset == 5 * FILE_SIZE
    assert not store.failed


@pytest.mark.parametrize("steps", range(5))
def test_a_crash_between_two_deletions_loses_nothing_that_is_kept(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, steps: int
) -> None:
    """The log begins later by then, and the queues still where it began."""
    image = tmp_path / "image"
    left = steps

    def synced(path: Path) -> None:
        nonlocal left
        if left == 0:
            shutil.copytree(root, image)
        left -= 1
        sync_directory(path)

    with rmqcore.open(root, **SETTINGS) as store:
        fill(store, 5)
        age(root, dict.fromkeys(range(5), 30.0))
        with monkeypatch.context() as patch:
            patch.setattr(durable, "sync_directory", synced)
            store.clean_once(now_ms=NOON, disk_ratio=0.1, pause=no_pause)
        end = store.max_phy_offset
        if not image.exists():
            shutil.copytree(root, image)
        wanted = {queue: store.max_offset(*queue) for queue in store.queues()}
    with rmqcore.open(image, **SETTINGS) as store:
        assert (store.min_phy_offset, store.max_phy_offset) == (min(steps + 1, 4) * FILE_SIZE, end)
        report = store.clean_once(now_ms=0, disk_ratio=0.1)  # of a time when nothing was expired
        assert not any(name.startswith("commitlog") for name in report.deleted)
        for queue, max_offset in wanted.items():
            first = store.min_offset(*queue)
            assert store.max_offset(*queue) == max_offset
            messages = store.get(*queue, first, 1000).messages
            assert messages[0].queue_offset == first
            assert messages[0].phy_offset < store.min_phy_offset + FILE_SIZE
    assert not fsck(image).findings


def test_puts_are_refused_above_the_warning_level(root: Path) -> None:
    with rmqcore.open(root, **NEVER) as store:
        fill(store, 1)
        message = Message("T0", b"x")
        store.clean_once(now_ms=NOON, disk_ratio=0.91)
        end = store.max_phy_offset
        assert store.put(message).status is PutMessageStatus.SERVICE_NOT_AVAILABLE
        assert store.put_batch([message]).status is PutMessageStatus.SERVICE_NOT_AVAILABLE
        many = store.put_many([message] * 3)
        assert list(many.statuses) == [PutMessageStatus.SERVICE_NOT_AVAILABLE] * 3
        with pytest.raises(PutFailedError, match="SERVICE_NOT_AVAILABLE"):
            store.put_arrow(pa.table({"topic": ["T0"], "body": [b"x"]}))
        assert store.max_phy_offset == end
        assert "91%" in store.stats()["no_puts"]
        assert store.get("T0", 0, 0, 1).messages  # reads go on
        # Between the two levels it stays as it is, as in Java.
        store.clean_once(now_ms=NOON, disk_ratio=0.88)
        assert store.put(message).status is PutMessageStatus.SERVICE_NOT_AVAILABLE
        store.clean_once(now_ms=NOON, disk_ratio=0.85)
        assert store.stats()["no_puts"] is None
        assert store.put(message).status is PutMessageStatus.PUT_OK
        store.clean_once(now_ms=NOON, disk_ratio=0.88)
        assert store.put(message).status is PutMessageStatus.PUT_OK


def test_a_failed_or_closed_store_says_so_though_puts_are_paused(root: Path) -> None:
    store = rmqcore.open(root, **NEVER)
    fill(store, 1)
    store.clean_once(now_ms=NOON, disk_ratio=0.95)
    store.fail(OSError("broken"))
    with pytest.raises(StoreFailedError, match="broken"):
        store.put(Message("T0", b"x"))
    with pytest.raises(StoreFailedError):
        store.clean_once(now_ms=NOON, disk_ratio=0.1)
    with pytest.raises(StoreFailedError):
        store.put(Message("T0", b"x"))
    store.close()
    with pytest.raises(StoreClosedError):
        store.put(Message("T0", b"x"))
    with pytest.raises(StoreClosedError):
        store.clean_once()


@pytest.mark.parametrize("ratio", [-0.1, 1.1, float("nan")])
def test_a_ratio_is_a_part_of_a_disk(store: MessageStore, ratio: float) -> None:
    with pytest.raises(ValueError, match="disk_ratio"):
        store.clean_once(disk_ratio=ratio)


def test_a_disk_that_cannot_be_asked(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with rmqcore.open(root, **NEVER) as store:
        fill(store, 3)
        age(root, dict.fromkeys(range(3), 30.0))
        monkeypatch.setattr(disks, "used_percent", lambda _: -1)
        report = store.clean_once(now_ms=NOON, pause=no_pause)
        assert (report.log_ratio, report.queues_ratio, report.reason) == (-1, -1, "disk")
        assert store.put(Message("T0", b"x")).stored


def test_the_real_clock_and_disk(store: MessageStore) -> None:
    report = store.clean_once()
    assert 0 <= report.log_ratio <= 1
    assert report.log_ratio == report.queues_ratio


@pytest.mark.parametrize("place", ["consumequeue/T0/0", "index"])
def test_a_queue_or_index_file_that_cannot_be_deleted_keeps_nothing_else(
    store: MessageStore, root: Path, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One file that somebody had made immutable failed the store: RocketMQ logs it and goes on."""
    age(root, dict.fromkeys(range(6), 30.0))
    refused = min((root / place).iterdir())

    def failing(path: Path) -> int:
        if path == refused:
            raise OSError(errno.EPERM, "not permitted", str(path))
        return delete_file(path)

    for module in ("queues.expired", "index.index_service"):
        monkeypatch.setattr(f"rmqcore.engine.{module}.delete_file", failing)
    for _ in range(2):
        report = store.clean_once(now_ms=NOON, disk_ratio=0.1, pause=no_pause)
        assert report.kept == f"{refused}: not permitted"
        assert refused.exists()
    assert store.min_phy_offset == 5 * FILE_SIZE and not store.failed
    others = {"consumequeue/T0/0", "consumequeue/T1/0", "index"} - {place}
    kept = {other: len(list((root / other).iterdir())) for other in sorted(others)}
    monkeypatch.undo()
    report = store.clean_once(now_ms=NOON, disk_ratio=0.1, pause=no_pause)
    assert report.kept is None
    assert report.deleted[0] == f"{place}/{refused.name}"
    assert {path.rpartition("/")[0] for path in report.deleted} == {place}
    assert {other: len(list((root / other).iterdir())) for other in sorted(others)} == kept


def test_a_clock_that_steps_back_over_a_deletion_only_keeps_more(
    store: MessageStore, root: Path
) -> None:
    age(root, dict.fromkeys(range(4), 30.0))
    first = store.clean_once(now_ms=NOON - 15 * HOUR_MS, disk_ratio=0.1, pause=no_pause)
    assert first.min_phy_offset == 4 * FILE_SIZE
    for hours in (40, 15, 0):
        back = store.clean_once(now_ms=NOON - hours * HOUR_MS, disk_ratio=0.1, pause=no_pause)
        assert (back.deleted, back.min_phy_offset) == ((), 4 * FILE_SIZE)
    assert store.put(Message("T0", b"later")).status is PutMessageStatus.PUT_OK


def test_an_mtime_in_the_future_keeps_the_file_and_all_behind_it(
    store: MessageStore, root: Path
) -> None:
    """A log must not have a hole: a younger file that is due waits for one that is not."""
    age(root, {0: 30.0, 1: -100.0, 2: 30.0, 3: 30.0})
    report = store.clean_once(now_ms=NOON, disk_ratio=0.1, pause=no_pause)
    assert (report.min_phy_offset, report.kept) == (FILE_SIZE, None)
    # A disk that is too full has the last word.
    report = store.clean_once(now_ms=NOON, disk_ratio=0.87, pause=no_pause)
    assert (report.min_phy_offset, report.reason) == (5 * FILE_SIZE, "forced")
