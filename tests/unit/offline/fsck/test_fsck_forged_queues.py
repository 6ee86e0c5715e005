"""Queues and an index that were made up to cost time: `fsck` ends, says what is wrong, and reads what is there about once.

10,000 entries that point to a record of 30 MiB made it read 600 GiB; among thousands of files of one entry each the next one was
looked for from the first; a file with a thousand names was read a thousand times.
"""

from __future__ import annotations

import os
import shutil
import struct
from pathlib import Path

import pytest
from support.stores import hostile_logs

from rmqcore._native.format.layout import CQ_STORE_UNIT_SIZE
from rmqcore.offline.fsck import entries_without_record, fsck
from rmqcore.offline.fsck.queue_state import QueueState
from rmqcore.offline.queues.queues import QueueFile, QueueFiles

RECORD = len(hostile_logs.record(0))


def entry(phy_offset: int, msg_size: int) -> bytes:
    return struct.pack(">qiq", phy_offset, msg_size, 0)


def write_queue(root: Path, data: bytes, queue_id: int = 0, at: int = 0) -> Path:
    path = root / "consumequeue" / "T" / str(queue_id) / f"{at:020}"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


@pytest.fixture
def bytes_read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    count = [0]
    preadv, pread = os.preadv, os.pread

    def counted(fd: int, buffers: list[memoryview], pos: int) -> int:
        got = preadv(fd, buffers, pos)
        count[0] += got
        return got

    def counted_one(fd: int, length: int, pos: int) -> bytes:
        data = pread(fd, length, pos)
        count[0] += len(data)
        return data

    monkeypatch.setattr(os, "preadv", counted)
    monkeypatch.setattr(os, "pread", counted_one)
    return count


@pytest.mark.parametrize("size_is_right", [True, False])
def test_entries_that_point_to_one_large_record_read_its_ends(
    tmp_path: Path, bytes_read: list[int], size_is_right: bool
) -> None:
    large = hostile_logs.record(0, b"x" * (2 << 20))
    hostile_logs.write_log(tmp_path, large + bytes(4096))
    write_queue(tmp_path, entry(0, len(large) if size_is_right else 91) * 300)
    report = fsck(tmp_path)
    assert report.totals["cq_entry"]["error"] == (299 if size_is_right else 300)
    assert f"a record of T queue 0 offset 0, {len(large)} bytes" in report.findings[-1].message
    assert bytes_read[0] < 3 * len(large) + 300 * 30_000


def damaged_log() -> bytes:
    before, after = hostile_logs.record(0), RECORD + 50_000
    return (
        before
        + b"\xff" * 50_000
        + b"".join(hostile_logs.record(after + n * RECORD) for n in range(3))
    )


def test_many_entries_that_point_into_damage_are_counted_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hostile_logs.write_log(tmp_path, damaged_log())
    monkeypatch.setattr(entries_without_record, "CHUNK_ENTRIES", 500)
    inside = b"".join(entry(RECORD + 7 * n, 91) for n in range(3000))
    write_queue(tmp_path, entry(0, RECORD) + inside)
    singly = fsck(tmp_path)
    looks: list[int] = []
    look = entries_without_record.EntryCheck._look

    def counted(self: object, state: object, queue_offset: int, found: object) -> None:
        looks.append(queue_offset)
        look(self, state, queue_offset, found)  # type: ignore[arg-type]

    monkeypatch.setattr(entries_without_record.EntryCheck, "_look", counted)
    monkeypatch.setattr(entries_without_record, "MOST_IN_DAMAGE", 100)
    together = fsck(tmp_path)
    assert together.findings == singly.findings
    assert together.would_be_lost == singly.would_be_lost
    assert singly.would_be_lost["unreachable"]["records"] >= 3000
    assert 100 <= len(looks) <= 800


def test_the_next_file_of_a_queue_is_found_by_halves(monkeypatch: pytest.MonkeyPatch) -> None:
    files = QueueFiles("T", 0, Path("/nowhere"))
    files.files = [QueueFile(str(n), n * 60, 20, 1) for n in range(4096)]
    state = QueueState("T", 0, files)
    state.holes = [(3 * n + 1, 3 * n + 3) for n in range(4095)]
    asked = [0]

    def counted(file: QueueFile) -> int:
        asked[0] += 1
        return file.file_from_offset // CQ_STORE_UNIT_SIZE

    monkeypatch.setattr(QueueFile, "first_offset", property(counted))
    for at in (-1, 0, 1, 2, 3, 5000, 3 * 4095 - 1, 3 * 4095, 1 << 50):
        following = 3 * (at // 3 + 1)
        assert state.next_file(at) == (following if following <= 3 * 4095 else None)
    assert asked[0] <= 9 * 15
    spans = [(0, 1), (1, 3), (1, 4), (2, 3), (12284, 12285), (12286, 12287)]
    assert [span for span in spans if state.in_hole(*span)] == [(1, 3), (2, 3), (12284, 12285)]


def test_a_queue_file_with_many_names_is_read_once(tmp_path: Path, bytes_read: list[int]) -> None:
    hostile_logs.write_log(tmp_path, hostile_logs.record(0))
    first = write_queue(tmp_path, entry(0, RECORD) + entry(0, 50) * 9_999)
    before = fsck(tmp_path)
    once = bytes_read[0]
    for number in range(1, 40):
        os.link(first, first.with_name(f"{number * 10_000 * CQ_STORE_UNIT_SIZE:020}"))
        other = first.parent.with_name(str(number))
        other.mkdir()
        os.link(first, other / first.name)
    bytes_read[0] = 0
    report = fsck(tmp_path)
    assert report.totals["file_kind"]["error"] == 2 * 39
    found = next(finding for finding in report.findings if finding.kind == "file_kind")
    assert "another name (a hard link) of consumequeue/T/0/00000000000000000000" in found.message
    assert report.counts == before.counts
    assert bytes_read[0] <= once + 100_000


def test_an_index_file_with_many_names_is_read_once(golden: Path, tmp_path: Path) -> None:
    store = shutil.copytree(golden / "basic" / "store", tmp_path / "store")
    before = fsck(store)
    assert before.counts["index_entries"] > 100
    first = min((store / "index").iterdir())
    for number in range(1, 20):
        os.link(first, first.with_name(f"209901010000000{number:02}"))
    report = fsck(store)
    assert report.totals["file_kind"]["error"] == 19
    assert report.counts == before.counts


def test_a_store_with_many_names_elsewhere_has_no_findings_for_it(
    golden: Path, tmp_path: Path
) -> None:
    """A backup by hard links (``cp -al``) gives each file a second name, and each store one of them."""
    store = tmp_path / "store"
    shutil.copytree(golden / "basic" / "store", store)
    before = fsck(store)
    shutil.copytree(store, tmp_path / "backup", copy_function=os.link)
    assert fsck(store).findings == before.findings


def test_thousands_of_empty_topics_and_names_at_the_end_of_64_bits(tmp_path: Path) -> None:
    hostile_logs.write_log(tmp_path, hostile_logs.record(0))
    for number in range(2_000):
        (tmp_path / "consumequeue" / f"topic{number}" / "0").mkdir(parents=True)
    last = (1 << 63) - 1
    for at in (last, last - last % 20, last - last % 20 - 40):
        write_queue(tmp_path, entry(0, RECORD) * 2, at=at)
    report = fsck(tmp_path)
    assert report.counts["records"] == 1
    assert report.totals["cq_missing"]
    assert report.exit_code == 2
