"""What `diff` tells beside the ranges: records, queues, files that go meanwhile; and its memory."""

from __future__ import annotations

import errno
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import rmqcore
from rmqcore.offline.diff import logs
from rmqcore.offline.diff.diff import diff
from rmqcore.offline.diff.pieces import BytesTask, Range, differing_pieces
from rmqcore.offline.diff.report import QueueDifference
from rmqcore.testing.crash_check import TINY, drain, make_message, put

TOTAL = 600


@pytest.fixture
def master(tmp_path: Path) -> Path:
    with rmqcore.open(tmp_path / "master", services=False, **TINY) as store:
        for number in range(TOTAL):
            put(store, number)
        drain(store)
    return tmp_path / "master"


def behind(master: Path, slave: Path, messages: int) -> int:
    """A slave with the first messages of its master; answers where its log ends."""
    shutil.copytree(master, slave)
    shutil.rmtree(slave / "consumequeue")
    shutil.rmtree(slave / "index")
    end = [view.phy_offset for view in rmqcore.read(master).messages()][messages]
    size = TINY["mapped_file_size_commit_log"]
    for file in (slave / "commitlog").iterdir():
        start = int(file.name)
        if start > end:
            file.unlink()
        elif start + size > end:
            file.write_bytes(file.read_bytes()[: end - start].ljust(size, b"\0"))
    (slave / "checkpoint").unlink()
    (slave / "abort").touch()
    with rmqcore.open(slave, services=False, **TINY) as store:
        drain(store)
        assert store.max_phy_offset == end
    return end


def test_a_slave_that_is_behind(master: Path, tmp_path: Path) -> None:
    """The end of the log is the master's alone, and each queue says how many messages a failover would cost."""
    slave = tmp_path / "slave"
    end = behind(master, slave, TOTAL - 10)
    report = diff(master, slave)
    (found,) = report.differences
    assert (found.start_phy_offset, found.kind, report.exit_code) == (end, "only_a", 2)
    first = make_message(TOTAL - 10)
    assert found.first_a is not None and found.first_b is None
    assert (found.first_a.topic, found.first_a.queue_id) == (first.topic, first.queue_id)
    assert (report.only_a, report.only_b) == (10, 0)
    assert sum(queue.only_a for queue in report.queues) == 10
    assert all(queue.differing_entries == 0 for queue in report.queues)
    other = diff(slave, master)
    assert (other.only_a, other.only_b, other.differences[0].kind) == (0, 10, "only_b")
    assert diff(slave, master, queues=False).queues == []


def test_a_queue_that_only_one_has_and_one_that_is_wrong(master: Path, tmp_path: Path) -> None:
    other = Path(shutil.copytree(master, tmp_path / "other"))
    shutil.rmtree(other / "consumequeue" / "T0" / "1")
    path = other / "consumequeue" / "T1" / "0" / f"{0:020}"
    data = bytearray(path.read_bytes())
    data[20 * 7] ^= 1
    data[20 * 9 + 3] ^= 1
    path.write_bytes(data)
    report = diff(master, other)
    assert report.differences == [] and report.exit_code == 2
    assert report.queues == [
        QueueDifference("T0", 1, 0, 150, 0, 0, 0, None, 150, 0),
        QueueDifference("T1", 0, 0, 150, 0, 150, 2, 7, 0, 0),
    ]
    assert report.compared_queues == 4 and report.compared_entries == 450


def test_a_queue_that_begins_later_is_no_difference(master: Path, tmp_path: Path) -> None:
    other = Path(shutil.copytree(master, tmp_path / "other"))
    for path in (other / "consumequeue").glob(f"*/*/{0:020}"):
        path.unlink()
    report = diff(master, other)
    assert report.queues == []


def test_an_open_store_and_its_copy(master: Path, tmp_path: Path) -> None:
    """What is appended meanwhile counts for neither: rooms ahead, entries behind the end of the log."""
    copy = Path(shutil.copytree(master, tmp_path / "copy"))
    with rmqcore.open(master, **TINY):
        assert diff(master, copy).exit_code == 0


def test_a_file_that_is_cleaned_meanwhile_is_told(
    master: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = Path(shutil.copytree(master, tmp_path / "copy"))

    def pieces(task: BytesTask) -> list[Range]:
        if task.start == 0:
            raise FileNotFoundError(errno.ENOENT, "gone", str(task.left.path))
        return differing_pieces(task)

    monkeypatch.setattr(logs, "differing_pieces", pieces)
    report = diff(master, copy)
    assert report.deleted_meanwhile == [str(master / "commitlog" / f"{0:020}")]


def test_many_ranges_are_counted_and_some_are_kept(
    master: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = Path(shutil.copytree(master, tmp_path / "copy"))
    places = [view.phy_offset for view in rmqcore.read(master).messages()]
    size = TINY["mapped_file_size_commit_log"]
    for place in places[::3]:
        path = copy / "commitlog" / f"{place // size * size:020}"
        data = bytearray(path.read_bytes())
        data[place % size + 16] ^= 1  # FLAG, which no CRC covers
        path.write_bytes(data)
    whole = diff(master, copy)
    assert whole.difference_count == len(whole.differences) == TOTAL / 3
    assert {one.kind for one in whole.differences} == {"different"}
    monkeypatch.setattr(logs, "MOST_RANGES", 50)
    some = diff(master, copy)
    assert (some.difference_count, some.differing_bytes) == (TOTAL / 3, whole.differing_bytes)
    assert some.differences == whole.differences[:50]


def test_the_report_shows_itself(master: Path, tmp_path: Path) -> None:
    behind(master, tmp_path / "slave", 500)
    report = diff(master, tmp_path / "slave")
    plain: dict[str, Any] = json.loads(json.dumps(report.as_dict()))
    assert plain["differences"][0]["first_a"]["topic"] == "T0"
    assert "differences" in report._repr_html_()


def test_several_directories_and_empty_logs(master: Path, tmp_path: Path) -> None:
    dirs = [tmp_path / "one", tmp_path / "two"]
    for folder in dirs:
        folder.mkdir()
    for number, path in enumerate(sorted((master / "commitlog").iterdir())):
        shutil.copy(path, dirs[number % 2])
    (tmp_path / "other").mkdir()
    assert diff(master, tmp_path / "other", commitlog_b=dirs, queues=False).exit_code == 0
    (tmp_path / "empty" / "commitlog").mkdir(parents=True)
    report = diff(master, tmp_path / "empty")
    assert [one.kind for one in report.differences] == ["only_a"]
    assert diff(tmp_path / "empty", tmp_path / "empty").exit_code == 0
