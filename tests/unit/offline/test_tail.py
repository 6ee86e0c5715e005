"""The tail of a log that grows, rolls, is cleaned and is half written while it is read."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.stores.live_log import LiveLog

import rmqcore
from rmqcore import Message
from rmqcore.offline.log import damage
from rmqcore.offline.reader import StoreReader
from rmqcore.offline.tail import MAX_SKIPPED_POLLS, LogTail


@pytest.fixture
def log(tmp_path: Path) -> LiveLog:
    return LiveLog(tmp_path / "store", file_size=2048)


def tail_of(log: LiveLog) -> LogTail:
    return LogTail(StoreReader(log.root))


def offsets(tail: LogTail, polls: int = 1) -> list[int]:
    return [view.phy_offset for _ in range(polls) for view in tail.poll()]


@pytest.mark.parametrize("count", [0, 1, 3, 30, 60, 100])
def test_newest_are_the_last_of_all(log: LiveLog, count: int) -> None:
    placed = [log.append() for _ in range(60)]
    assert len(list((log.root / "commitlog").iterdir())) > 2
    tail = tail_of(log)
    newest = tail.newest(count)
    assert [view.phy_offset for view in newest] == placed[max(0, 60 - count) :]
    assert tail.next_phy_offset == log.end
    assert not tail.damage


def test_newest_counts_what_matches(log: LiveLog) -> None:
    placed = [log.append("Rare" if number % 20 == 0 else "Orders") for number in range(100)]
    tail = LogTail(StoreReader(log.root), topics=["Rare"])
    assert [view.phy_offset for view in tail.newest(2)] == [placed[60], placed[80]]
    log.append("Orders")
    rare = log.append("Rare")
    assert offsets(tail) == [rare]


def test_a_condition_in_python_holds_as_those_in_c_do(log: LiveLog) -> None:
    placed = [log.append(body=b"rare" if number % 20 == 0 else b"often") for number in range(100)]
    tail = LogTail(
        StoreReader(log.root), topics=["Orders"], matches=lambda view: view.body == b"rare"
    )
    assert [view.phy_offset for view in tail.newest(2)] == [placed[60], placed[80]]
    assert tail.next_phy_offset == log.end
    log.append(body=b"often")
    log.append("Other", body=b"rare")
    rare = log.append(body=b"rare")
    assert offsets(tail) == [rare]
    assert offsets(tail) == []


def test_nothing_that_matches_yet(log: LiveLog) -> None:
    log.append("Orders")
    tail = LogTail(StoreReader(log.root), topics=["Rare"])
    assert tail.newest(5) == []
    assert offsets(tail) == []
    assert offsets(tail) == [] and log.append("Rare") in offsets(tail)


@pytest.mark.parametrize("ahead", [False, True], ids=["on_demand", "allocated_ahead"])
def test_every_message_once_over_many_files(log: LiveLog, *, ahead: bool) -> None:
    """A broker makes the next file ahead of need: an empty file after the one in use is not where the log goes on."""
    placed = [log.append()]
    tail = tail_of(log)
    if ahead:
        log.allocate(log.end + log.file_size)
    seen = [view.phy_offset for view in tail.newest(10)]
    for number in range(150):
        placed.append(log.append())
        if ahead:
            log.allocate(log.end + log.file_size)
        if number % 7 == 0:
            seen += offsets(tail)
    seen += offsets(tail)
    assert seen == placed
    assert log.end > 3 * log.file_size
    assert not tail.damage


def test_an_empty_store_that_begins(log: LiveLog) -> None:
    tail = tail_of(log)
    assert tail.newest(10) == []
    assert offsets(tail) == []
    assert log.append() in offsets(tail)


@pytest.mark.parametrize("written", [1, 4, 8, 60, -1])
def test_a_record_that_is_being_written_is_waited_for(log: LiveLog, written: int) -> None:
    log.append()
    tail = tail_of(log)
    tail.newest(10)
    raw = log.record(body=b"x" * 200, tags="TagA")
    log.write(log.end, raw[:written])
    assert offsets(tail, polls=5) == []
    assert tail.next_phy_offset == log.end
    log.write(log.end, raw)
    at = log.finish(raw)
    assert offsets(tail, polls=MAX_SKIPPED_POLLS + 1) == [at]
    assert not tail.damage


def test_a_record_damaged_for_good_is_reported_when_another_follows(log: LiveLog) -> None:
    log.append()
    tail = tail_of(log)
    tail.newest(10)
    bad = log.append(body=b"y" * 100)
    log.write(bad + 100, b"Z")
    assert offsets(tail, polls=3) == []
    assert not tail.damage
    good = log.append()
    assert offsets(tail, polls=MAX_SKIPPED_POLLS + 1) == [bad, good]
    assert [(found.kind, found.start_phy_offset) for found in tail.damage] == [("crc", bad)]


def test_damage_is_counted_when_it_is_much(log: LiveLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who follows a log for months keeps the damage of all that time: the list had no end."""
    monkeypatch.setattr(damage, "MAX_RANGES", 2)
    log.append()
    tail = tail_of(log)
    tail.newest(10)
    for count in (3, 4):
        for _ in range(count):
            bad = log.append(body=b"y" * 100)
            log.write(bad + 100, b"Z")
        log.append()
        assert len(offsets(tail, polls=MAX_SKIPPED_POLLS + 1)) == count + 1
    assert [found.kind for found in tail.damage] == ["crc", "crc", "more"]
    assert sum(found.range_count for found in tail.damage) == 7


def test_files_deleted_before_they_were_read_are_a_gap(log: LiveLog) -> None:
    log.append()
    tail = tail_of(log)
    tail.newest(10)
    start = tail.next_phy_offset
    placed = [log.append() for _ in range(120)]
    for file_start in (0, log.file_size):
        log.path(file_start).unlink()
    assert offsets(tail) == [at for at in placed if at >= 2 * log.file_size]
    assert [
        (found.kind, found.start_phy_offset, found.end_phy_offset) for found in tail.damage
    ] == [("missing_file", start, 2 * log.file_size)]


def test_a_log_that_is_cut_back_goes_on_from_its_new_end(log: LiveLog) -> None:
    while log.end < 2 * log.file_size:
        log.append()
    tail = tail_of(log)
    tail.newest(1)
    log.path(2 * log.file_size).unlink()
    log.path(log.file_size).unlink()
    assert offsets(tail) == []
    assert [found.kind for found in tail.damage] == ["missing_file"]
    log.end = tail.next_phy_offset
    assert log.end < log.file_size
    assert log.append() in offsets(tail)


@pytest.mark.parametrize("bytes_lost", [500, 5000, 16 << 10])
def test_damage_at_the_start_of_the_log_is_reported(tmp_path: Path, bytes_lost: int) -> None:
    """The walk began at the first sound message: with more messages asked for than there are, nothing showed the others."""
    with rmqcore.open(tmp_path, services=False, mapped_file_size_commit_log=16 << 10) as store:
        for _ in range(40):
            store.put(Message("T", b"x" * 900)).raise_for_status()
    with (tmp_path / "commitlog" / f"{0:020}").open("r+b") as file:
        file.write(bytes(bytes_lost))
    reader = rmqcore.read(tmp_path)
    tail = LogTail(reader)
    assert len(tail.newest(10)) == 10
    assert tail.damage == []
    count = len(list(reader.messages()))
    tail = LogTail(reader)
    assert len(tail.newest(count)) == count
    assert tail.damage == []
    tail = LogTail(reader)
    assert len(tail.newest(count + 1)) == count
    assert tail.damage == reader.damage != []
    assert list(tail.poll()) == []
    assert tail.damage == reader.damage


def test_a_topic_without_a_message_reports_damage_too(tmp_path: Path) -> None:
    with rmqcore.open(tmp_path, services=False) as store:
        for _ in range(4):
            store.put(Message("T", b"x" * 900)).raise_for_status()
    with (tmp_path / "commitlog" / f"{0:020}").open("r+b") as file:
        file.write(bytes(500))
    tail = LogTail(rmqcore.read(tmp_path), topics=["U"])
    assert tail.newest(1) == []
    assert [one.start_phy_offset for one in tail.damage] == [0]
