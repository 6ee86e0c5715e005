"""Each kind of damage that docs/reading-damaged-stores.md tells of is made here, and must end as the page promises."""

from __future__ import annotations

import errno
import json
import os
import re
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from support.oracle import records as oracle
from support.places import ROOT

import rmqcore
from rmqcore.offline.fsck import fsck
from rmqcore.offline.fsck.findings import KINDS
from rmqcore.offline.log.damage import DamageRange

PAGE = ROOT / "docs" / "reading-damaged-stores.md"
FILE_SIZE = 8192


@dataclass
class Log:
    """A sound log of three files, the last of them half full, and where its records lie."""

    root: Path
    starts: list[int] = field(default_factory=list)
    end: int = 0

    def __post_init__(self) -> None:
        (self.root / "commitlog").mkdir(parents=True)
        content, pos = b"", 0
        for number in range(50):
            record = self._record(number, pos)
            room = FILE_SIZE - pos % FILE_SIZE
            if len(record) + 8 > room:
                content += oracle.blank(room).ljust(room, b"\0")
                pos += room
                record = self._record(number, pos)
            self.starts.append(pos)
            content += record
            pos += len(record)
        self.end = pos
        for start in range(0, len(content), FILE_SIZE):
            part = content[start : start + FILE_SIZE].ljust(FILE_SIZE, b"\0")
            self.file(start).write_bytes(part)

    @staticmethod
    def _record(number: int, pos: int) -> bytes:
        body = b"%03d" % number * 100
        return oracle.encode_record(
            oracle.Record(b"T", body, b"", phy_offset=pos, queue_offset=number)
        )

    def file(self, phy_offset: int) -> Path:
        return self.root / "commitlog" / f"{phy_offset // FILE_SIZE * FILE_SIZE:020d}"

    def write(self, phy_offset: int, data: bytes) -> None:
        with self.file(phy_offset).open("r+b") as file:
            file.seek(phy_offset % FILE_SIZE)
            file.write(data)

    def in_file(self, number: int) -> list[int]:
        return [start for start in self.starts if start // FILE_SIZE == number]


@dataclass(frozen=True)
class Promise:
    """What must come out: the records that are missing, and the ranges."""

    lost: list[int]
    ranges: list[tuple[str, int, int]]


def flip_a_body(log: Log) -> Promise:
    log.write(log.starts[5] + 100, b"\xff")
    return Promise([], [("crc", log.starts[5], log.starts[6])])


def overwrite_a_header(log: Log) -> Promise:
    log.write(log.starts[5], b"\xee" * 60)
    return Promise([log.starts[5]], [("record", log.starts[5], log.starts[6])])


def zero_the_middle(log: Log) -> Promise:
    log.write(log.starts[5], bytes(log.starts[7] - log.starts[5]))
    return Promise(log.starts[5:7], [("record", log.starts[5], log.starts[7])])


def huge_total_size(log: Log) -> Promise:
    log.write(log.starts[5], struct.pack(">i", 0x7FFFFFFF))
    return Promise([log.starts[5]], [("record", log.starts[5], log.starts[6])])


def record_of_another_place(log: Log) -> Promise:
    log.write(log.starts[5] + 28, struct.pack(">q", 7))
    return Promise([log.starts[5]], [("record", log.starts[5], log.starts[6])])


def tear_the_tail(log: Log) -> Promise:
    log.write(log.starts[-1] + 150, bytes(log.end - log.starts[-1] - 150))
    return Promise([log.starts[-1]], [("torn_tail", log.starts[-1], log.starts[-1] + 150)])


def rubbish_behind_the_tail(log: Log) -> Promise:
    log.write(log.end, b"\xee" * 50)
    return Promise([], [("torn_tail", log.end, log.end + 50)])


def stale_record_behind_the_tail(log: Log) -> Promise:
    with log.file(0).open("rb") as file:
        stale = file.read(log.starts[1])
    log.write(log.end, stale)
    return Promise([], [("torn_tail", log.end, log.end + len(stale.rstrip(b"\0")))])


def wrong_blank_size(log: Log) -> Promise:
    blank = log.in_file(0)[-1] + log.starts[1]
    log.write(blank, struct.pack(">i", FILE_SIZE))
    return Promise([], [("blank", blank, FILE_SIZE)])


def shorten_a_file(log: Log) -> Promise:
    cut = log.in_file(1)[-1]
    os.truncate(log.file(FILE_SIZE), cut % FILE_SIZE)
    return Promise([cut], [("short_file", cut, 2 * FILE_SIZE)])


def remove_a_file(log: Log) -> Promise:
    log.file(FILE_SIZE).unlink()
    return Promise(log.in_file(1), [("missing_file", FILE_SIZE, 2 * FILE_SIZE)])


DAMAGES: list[Callable[[Log], Promise]] = [
    flip_a_body,
    overwrite_a_header,
    zero_the_middle,
    huge_total_size,
    record_of_another_place,
    tear_the_tail,
    rubbish_behind_the_tail,
    stale_record_behind_the_tail,
    wrong_blank_size,
    shorten_a_file,
    remove_a_file,
]


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return Log(tmp_path / "store")


def walk(log: Log, **options: Any) -> tuple[list[int], list[tuple[str, int, int]]]:
    with rmqcore.read(log.root) as reader:
        starts = [message.phy_offset for message in reader.messages(**options)]
        return starts, [(r.kind, r.start_phy_offset, r.end_phy_offset) for r in reader.damage]


def rows_of(heading: str) -> list[str]:
    """First cells of the table under a heading of the page."""
    section = PAGE.read_text().split(f"## {heading}\n")[1].split("\n## ")[0]
    return re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE)


def test_the_page_names_the_kinds_that_there_are() -> None:
    told = rows_of("What each kind of damage looks like")
    assert set(told) - {"kind"} == set(re.findall(r"``(\w+)``:", DamageRange.__doc__ or ""))


def test_the_page_explains_the_findings_of_fsck() -> None:
    assert rows_of("What fsck finds") == list(KINDS)
    assert all(f"| `{kind}` | {meaning} |" in PAGE.read_text() for kind, meaning in KINDS.items())


def test_a_sound_log_has_no_damage(log: Log) -> None:
    assert len({start // FILE_SIZE for start in log.starts}) == 3
    assert walk(log) == (log.starts, [])


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_each_kind_ends_as_promised(log: Log, damage: Callable[[Log], Promise]) -> None:
    promise = damage(log)
    starts, ranges = walk(log)
    assert starts == [start for start in log.starts if start not in promise.lost]
    assert ranges == promise.ranges


def test_verify_crc_leaves_out_what_fails(log: Log) -> None:
    promise = flip_a_body(log)
    assert walk(log, verify_crc=True) == (
        [start for start in log.starts if start != log.starts[5]],
        promise.ranges,
    )


def test_a_forged_record_in_a_damaged_body_is_not_believed(log: Log) -> None:
    """A body may hold a whole record that says the very place where it lies; the walk tries only its outer record's ends."""
    inner = oracle.encode_record(oracle.Record(b"T", b"forged", b"", phy_offset=log.starts[5] + 88))
    log.write(log.starts[5] + 88, inner)
    log.write(log.starts[5], struct.pack(">i", 0x7FFFFFFF))
    starts, ranges = walk(log)
    assert starts == [start for start in log.starts if start != log.starts[5]]
    assert ranges == [("record", log.starts[5], log.starts[6])]


def test_a_bad_disk_page_is_reported(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    preadv = os.preadv

    def failing(fd: int, buffers: list[memoryview], pos: int) -> int:
        end = pos + sum(map(len, buffers))
        if pos < 8192 and end > 4096 and os.fstat(fd).st_ino == log.file(0).stat().st_ino:
            raise OSError(errno.EIO, "bad sector")
        return preadv(fd, buffers, pos)

    monkeypatch.setattr(os, "preadv", failing)
    starts, ranges = walk(log)
    assert [start for start in log.starts if not 4096 - log.starts[1] < start < 8192] == starts
    assert ("unreadable", 4096, 8192) in ranges
    assert {kind for kind, _, _ in ranges} == {"unreadable", "record"}


def test_what_is_no_damage(log: Log) -> None:
    """A file made ahead, an empty one, a stranger's name, a log that begins later."""
    (log.root / "commitlog" / f"{3 * FILE_SIZE:020d}").write_bytes(bytes(FILE_SIZE))
    (log.root / "commitlog" / f"{4 * FILE_SIZE:020d}").touch()
    (log.root / "commitlog" / "notes.txt").write_text("not a store file")
    log.file(0).unlink()
    assert walk(log) == ([start for start in log.starts if start >= FILE_SIZE], [])


def test_the_example_of_a_cut(golden: Path) -> None:
    """The numbers on the page; that RocketMQ cuts there is in the manifest that it wrote."""
    case = golden / "crash_flipped"
    assert json.loads((case / "manifest.json").read_text())["maxPhyOffset"] == 204236
    reader = rmqcore.read(case / "input")
    messages = list(reader.messages())
    assert (len(messages), [found.kind for found in reader.damage]) == (580, ["crc"])
    start = fsck(case / "input").would_be_lost["broker_start"]
    assert (start["cut_phy_offset"], start["cut_bytes"]) == (204236, 7243)
    assert sum(message.phy_offset > 204236 for message in messages) == 20
    for number in ("580", "204236", "7243", "20"):
        assert re.search(rf"\b{number}\b", PAGE.read_text())
