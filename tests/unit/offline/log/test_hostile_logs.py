"""Logs that were made up to cost time: how much a walk over each reads and hashes, counted.

Forged headers every 44 bytes that all reached to the end of the file made a read quadratic: 26 s for 8 MiB, and 23 s for 12 KiB
on the disk in 2 GiB of hole.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from support.stores import hostile_logs
from support.stores.hostile_logs import HOLE, SHAPES, write_log, write_sparse_log

import rmqcore
from rmqcore.cli.verbs.info import info
from rmqcore.disk import log_window
from rmqcore.disk.log_window import WINDOW, LogWindow
from rmqcore.vocabulary.units import PAGE

SIZE = 3 << 20
FREE = 1 << 20


class Work:
    """What windows and provers have read and hashed."""

    def __init__(self) -> None:
        self.bytes_read = 0
        self.reads = 0
        self.windows: list[LogWindow] = []

    @property
    def bytes_in_vain(self) -> int:
        return sum(window.bytes_in_vain for window in self.windows)


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch) -> Work:
    done = Work()
    preadv = os.preadv
    init = LogWindow.__init__

    def counted(fd: int, buffers: list[memoryview], pos: int) -> int:
        got = preadv(fd, buffers, pos)
        done.bytes_read += got
        done.reads += 1
        return got

    def noted(self: LogWindow, *args: object, **options: object) -> None:
        init(self, *args, **options)  # type: ignore[arg-type]
        done.windows.append(self)

    monkeypatch.setattr(os, "preadv", counted)
    monkeypatch.setattr(LogWindow, "__init__", noted)
    monkeypatch.setattr(log_window, "FREE_BYTES", FREE)
    return done


@pytest.mark.parametrize("shape", SHAPES)
def test_work_follows_the_bytes_that_are_there(tmp_path: Path, work: Work, shape: str) -> None:
    write_log(tmp_path, SHAPES[shape](SIZE))
    reader = rmqcore.read(tmp_path)
    count = sum(1 for _ in reader.messages())
    assert count or reader.damage
    assert work.bytes_in_vain <= FREE + SIZE
    # The file, once more for the states, what was spent in vain, and for each damage or candidate a page or three.
    small = 3 * PAGE * (len(reader.damage) + SIZE // hostile_logs.STEP)
    assert work.bytes_read <= 4 * SIZE + 2 * WINDOW + FREE + small
    assert work.reads <= 1000 + 4 * len(reader.damage) + 2 * SIZE // hostile_logs.STEP
    assert all(len(window.buf) <= 2 * WINDOW for window in work.windows)


@pytest.mark.parametrize("shape", ["to_the_end", "past_the_window", "one_giant"])
def test_claims_cost_no_reads_where_they_agree(tmp_path: Path, work: Work, shape: str) -> None:
    write_log(tmp_path, SHAPES[shape](SIZE))
    reader = rmqcore.read(tmp_path)
    assert list(reader.messages()) or reader.damage
    assert work.reads <= 1000 + 4 * len(reader.damage) + SIZE // PAGE


def test_holes_are_not_read(tmp_path: Path, work: Work) -> None:
    path = write_sparse_log(tmp_path, 64 * PAGE)
    with path.open("rb") as file:
        if not hasattr(os, "SEEK_DATA") or os.lseek(file.fileno(), PAGE, os.SEEK_DATA) == PAGE:
            pytest.skip("this file system tells of no holes")
    reader = rmqcore.read(tmp_path)
    assert [view.phy_offset for view in reader.messages()] == list(range(0, 64 * HOLE, HOLE))
    assert len(reader.damage) == 63
    assert work.bytes_read <= 3 * WINDOW + 64 * 4 * PAGE  # two windows before the first damage


def test_a_claim_asks_for_no_memory_before_it_is_proven(tmp_path: Path, work: Work) -> None:
    """A header behind damage whose lengths agree made the window as large as it said."""
    size = 64 << 20
    data = b"\xff" + bytes(200)
    giant = hostile_logs.header(len(data), size - len(data)) + bytes(44)
    giant += (size - len(data) - 91).to_bytes(4, "big")
    path = write_log(tmp_path, data + giant)
    os.truncate(path, size)
    reader = rmqcore.read(tmp_path)
    assert not list(reader.messages())
    assert [found.kind for found in reader.damage] == ["torn_tail"]
    assert all(len(window.buf) <= 2 * WINDOW for window in work.windows)


def test_a_bad_sector_is_told_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The states are made of bytes that the walk reads later, and tells of then."""
    data = bytearray(SHAPES["to_the_end"](SIZE))
    path = write_log(tmp_path, bytes(data))
    monkeypatch.setattr(log_window, "FREE_BYTES", 0)
    preadv = os.preadv
    bad = 2 * PAGE

    def failing(fd: int, buffers: list[memoryview], pos: int) -> int:
        end = pos + sum(map(len, buffers))
        if pos < bad + PAGE and end > bad and os.fstat(fd).st_ino == path.stat().st_ino:
            raise OSError(5, "bad sector")
        return preadv(fd, buffers, pos)

    monkeypatch.setattr(os, "preadv", failing)
    reader = rmqcore.read(tmp_path)
    assert not list(reader.messages())
    unreadable = [found for found in reader.damage if found.kind == "unreadable"]
    assert [found.start_phy_offset for found in unreadable] == [bad]


def test_a_file_with_two_names_is_read_under_its_own(tmp_path: Path, work: Work) -> None:
    """A second name doubled the time, and gave a file in which nothing was sound."""
    first = write_log(tmp_path, hostile_logs.sound(1 << 20))
    for number in (1, 2, 3):
        os.link(first, first.with_name(f"{number << 20:020}"))
    reader = rmqcore.read(tmp_path)
    last = max(view.phy_offset for view in reader.messages())
    assert last < 1 << 20
    assert [
        (found.kind, found.start_phy_offset, found.end_phy_offset) for found in reader.damage
    ] == [("missing_file", number << 20, (number + 1) << 20) for number in (1, 2, 3)]
    assert str(reader.damage[0]).endswith(
        f"file is another name of commitlog/{first.name}, expected one of its own"
    )
    assert work.bytes_read <= 2 << 20


def test_the_own_name_of_a_file_is_what_its_first_record_says(tmp_path: Path) -> None:
    record = hostile_logs.record(1 << 20, b"body")
    path = write_log(tmp_path, record.ljust(1 << 20, b"\0"))
    os.link(path, path.with_name(f"{1 << 20:020}"))
    reader = rmqcore.read(tmp_path)
    assert [view.phy_offset for view in reader.messages()] == [1 << 20]
    assert [(found.start_phy_offset, found.end_phy_offset) for found in reader.damage] == [
        (0, 1 << 20)
    ]


def test_info_walks_over_a_file_once_and_hashes_nothing(tmp_path: Path, work: Work) -> None:
    """`info` looked for the log's end three times, each with all CRCs, and took three times as long as `cat`."""
    size = 4 << 20
    data = bytearray(hostile_logs.sound(size))
    data[-100:] = bytes(100)
    path = write_log(tmp_path, bytes(data))
    found = rmqcore.read(tmp_path).info()
    assert (found.first_store_timestamp_ms, found.last_store_timestamp_ms) == (1, 1)
    assert size - 3000 < found.max_phy_offset <= size
    assert work.bytes_read <= 2 * path.stat().st_size
    work.bytes_read = 0
    assert info(str(tmp_path), json=True) == 0
    assert work.bytes_read <= 2 * path.stat().st_size


@pytest.mark.parametrize("half", ["header", "body"])
def test_a_record_that_is_being_written_among_damage_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, half: str
) -> None:
    """A scan that steps over damage by itself looks at bytes of a live file once; a walk looks at each damaged place twice."""
    data = bytearray(hostile_logs.bad_bytes(20_000).rstrip(b"\0"))
    data += hostile_logs.record(len(data))
    at = len(data)  # behind a sound one
    data += hostile_logs.record(at, b"body")
    for _ in range(100):
        data += hostile_logs.record(len(data)) + b"\xff"
    path = write_log(tmp_path, bytes(data))
    before = rmqcore.read(tmp_path)
    places = [view.phy_offset for view in before.messages()]
    assert at in places
    preadv = os.preadv
    reads: list[int] = []

    def early(fd: int, buffers: list[memoryview], pos: int) -> int:
        got = preadv(fd, buffers, pos)
        if os.fstat(fd).st_ino == path.stat().st_ino and len(buffers[0]) > PAGE and not reads:
            reads.append(pos)
            buffers[0][at + (4 if half == "header" else hostile_logs.BODY_POS) - pos] ^= 1
        return got

    monkeypatch.setattr(os, "preadv", early)
    reader = rmqcore.read(tmp_path)
    assert [view.phy_offset for view in reader.messages()] == places
    assert reads
    assert reader.damage == before.damage
