"""The CommitLog over its files: room ahead, rolling, flushing by range, and what a full or broken disk does to it."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from rmqcore import Message, MessageStoreConfig
from rmqcore._native.files.mapped_file import MappedFile
from rmqcore.disk.paths import StorePaths
from rmqcore.engine.log.commitlog import CommitLog
from rmqcore.errors import StoreFormatError
from rmqcore.vocabulary.status import PutMessageStatus as Status

SIZE = 4096


def open_log(root: Path, end_offset: int = 0, failures: list[OSError] | None = None) -> CommitLog:
    config = MessageStoreConfig(mapped_file_size_commit_log=SIZE, max_message_size=2000)
    on_failure = (failures if failures is not None else []).append
    log = CommitLog(StorePaths(root), config, on_failure=on_failure)
    log.load()
    log.begin(end_offset)
    return log


def names(root: Path) -> list[str]:
    return sorted(os.listdir(root / "commitlog"))


def test_a_new_log_makes_its_first_file_with_its_first_message(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    assert (log.min_offset, log.max_offset, log.flushed_offset) == (0, 0, 0)
    assert not (tmp_path / "commitlog").exists()
    result = log.appender.put(Message("t", b"abc"))
    assert names(tmp_path) == ["0" * 20]
    assert (tmp_path / "commitlog" / ("0" * 20)).stat().st_size == SIZE
    assert (log.max_offset, log.flushed_offset) == (result.msg_size, 0)
    view = log.view_at(0)
    assert view is not None and view.body == b"abc"
    assert log.view_at(1) is None and log.view_at(result.msg_size) is None
    assert log.store_time(0) == result.store_timestamp_ms and log.store_time(5) == -1


def test_rolling_flushing_and_going_on_in_the_last_file(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    offsets = [log.appender.put(Message("t", b"x" * 900)).phy_offset for _ in range(10)]
    assert [offset for offset in offsets if offset % SIZE == 0] == [0, SIZE, 2 * SIZE]
    end = log.max_offset
    assert log.flush(100) == 0, "fewer than 100 pages wait"
    assert log.flush() == log.flushed_offset == end == log.flush()
    log.close()
    again = open_log(tmp_path, end)
    assert again.appender.put(Message("t", b"y" * 900)).phy_offset in (end, 3 * SIZE)
    assert again.flush() == again.max_offset


def test_a_view_outlives_the_log_and_its_file(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    log.appender.put(Message("t", b"kept"))
    view = log.view_at(0)
    log.close()
    for name in names(tmp_path):
        (tmp_path / "commitlog" / name).unlink()
    assert view is not None and view.body == b"kept"


def test_the_file_made_ahead_goes_when_nothing_came_into_it(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    log.appender.put(Message("t", b"x" * 1500))
    while log.prepare_space():
        pass
    assert names(tmp_path) == ["0" * 20, f"{SIZE:020d}"]
    log.close()
    assert names(tmp_path) == ["0" * 20]


def test_room_is_asked_for_again_before_it_is_used_up(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    log.appender.put(Message("t", b"x"))
    while log.prepare_space():
        pass
    rung: list[int] = []
    log.on_low_space(lambda: rung.append(log.max_offset))
    while not rung:
        assert log.appender.allocated_offset > log.max_offset or log.appender.has_next_file
        log.appender.put(Message("t", b"x" * 100))
    assert log.appender.allocated_offset > log.max_offset or log.appender.has_next_file


def test_a_disk_without_room_is_a_status_and_no_half_made_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failures: list[OSError] = []
    log = open_log(tmp_path, failures=failures)
    for _ in range(4):
        log.appender.put(Message("t", b"x" * 900))
    end, before = log.max_offset, names(tmp_path)

    def full(_descriptor: int, _length: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "ftruncate", full)
    results = [log.appender.put(Message("t", b"x" * 900)).status for _ in range(2)]
    assert results == [Status.CREATE_MAPPED_FILE_FAILED] * 2
    assert failures[0].errno == errno.ENOSPC
    assert names(tmp_path) == before and log.max_offset == end


def test_files_that_do_not_fit_the_configuration_are_named(tmp_path: Path) -> None:
    folder = tmp_path / "commitlog"
    folder.mkdir()
    (folder / ("0" * 20)).write_bytes(b"x" * 100)
    with pytest.raises(StoreFormatError, match=f"{'0' * 20}: file size is 100, expected {SIZE}"):
        open_log(tmp_path)


def test_an_empty_last_file_and_other_names_are_none_of_the_log(tmp_path: Path) -> None:
    folder = tmp_path / "commitlog"
    folder.mkdir()
    (folder / ("0" * 20)).write_bytes(bytes(SIZE))
    (folder / f"{SIZE:020d}").touch()
    (folder / "README").write_text("not a log file")
    log = CommitLog(
        StorePaths(tmp_path),
        MessageStoreConfig(mapped_file_size_commit_log=SIZE),
        on_failure=lambda _error: None,
    )
    log.load()
    assert log.file_starts() == [0]


def test_a_file_that_is_only_read_cannot_be_written(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(SIZE))
    file = MappedFile(str(path), SIZE)
    assert memoryview(file).readonly
    for call in (file.allocate, file.flush, file.write_zeros):
        with pytest.raises(ValueError, match="mapped for reading"):
            call(0, 1)
    with pytest.raises(ValueError, match="not in a file of 4096 bytes"):
        file.read_ahead(0, SIZE + 1)


def test_descriptors_of_full_files_are_closed_when_they_are_on_disk(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    before = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    for _ in range(200):
        log.appender.put(Message("t", b"x" * 900))
        log.flush()
    after = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    assert len(log.file_starts()) > 40
    assert after - before <= 2
