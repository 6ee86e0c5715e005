"""ConsumeQueues when a store is opened: what is loaded, where queues end, what is cut, and that nothing cut comes back."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from support.oracle import records as oracle
from support.oracle.queue import ENTRY
from support.stores.index_batches import lay_out
from support.stores.queue_batches import entries_of, open_queues, put_records, queue_files, record

from rmqcore._native.queues.consume_queue import ConsumeQueue
from rmqcore.engine.queues.consume_queues import ConsumeQueues
from rmqcore.errors import StoreFormatError

SIZE = 8 * ENTRY


def write_file(root: Path, start: int, data: bytes, *, size: int = SIZE, topic: str = "T") -> Path:
    path = root / "consumequeue" / topic / "0" / f"{start:020d}"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data.ljust(size, b"\0"))
    return path


def entries(first: int, count: int, size: int = 100) -> bytes:
    return oracle.pack_cq((1000 + size * i, size, i) for i in range(first, first + count))


def the_queue(queues: ConsumeQueues, topic: str = "T") -> ConsumeQueue:
    queue = queues.find(topic, 0)
    assert queue is not None
    return queue


# ---- load -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [20, SIZE - 20, SIZE + 20, SIZE + 1])
def test_a_file_of_another_size_is_refused(tmp_path: Path, size: int) -> None:
    path = write_file(tmp_path, 0, entries(0, 8))
    path.write_bytes(bytes(size))
    with pytest.raises(StoreFormatError) as failure:
        open_queues(tmp_path)
    assert str(failure.value) == f"{path}: file size is {size}, expected {SIZE} as configured"


def test_a_file_that_starts_between_two_is_refused(tmp_path: Path) -> None:
    path = write_file(tmp_path, 20, entries(1, 8))
    with pytest.raises(StoreFormatError, match=f"{path.name}: file starts at byte 20"):
        open_queues(tmp_path)


def test_an_empty_last_file_is_forgiven_and_goes(tmp_path: Path) -> None:
    write_file(tmp_path, 0, entries(0, 8))
    last = write_file(tmp_path, SIZE, b"", size=0)
    queues = open_queues(tmp_path)
    assert the_queue(queues).max_offset == 8
    assert last.exists()
    queues.truncate(1 << 40)
    assert not last.exists()


@pytest.mark.parametrize("size", [0, 20, SIZE - 20, SIZE - 1])
@pytest.mark.parametrize("number", [0, 1, 2])
def test_files_that_lost_their_ends_get_them_back(tmp_path: Path, number: int, size: int) -> None:
    """Others have the configured size, so this one was cut; its entries come from the log before it gets its length."""
    files = [write_file(tmp_path, at * SIZE, entries(8 * at, 8)) for at in range(3)]
    os.truncate(files[number], size)
    queues = open_queues(tmp_path)
    assert the_queue(queues).max_offset == 8 * number + size // 20
    assert files[number].stat().st_size == size
    queues.sync_places()
    assert files[number].stat().st_size == SIZE


@pytest.mark.parametrize("size", [1, SIZE - 1])
def test_a_file_without_whole_entries_was_cut(tmp_path: Path, size: int) -> None:
    path = write_file(tmp_path, 0, entries(0, 8))
    os.truncate(path, size)
    queues = open_queues(tmp_path)
    queues.sync_places()
    assert path.stat().st_size == SIZE


@pytest.mark.parametrize("other", [SIZE + 20, SIZE // 2], ids=["larger", "at another place"])
def test_no_file_is_lengthened_where_another_says_that_the_setting_is_wrong(
    tmp_path: Path, other: int
) -> None:
    path = write_file(tmp_path, 0, entries(0, 8))
    os.truncate(path, SIZE - 1)
    start = 0 if other > SIZE else other
    write_file(tmp_path, start, entries(0, 2), topic="U", size=max(other, SIZE))
    with pytest.raises(StoreFormatError):
        open_queues(tmp_path)


def test_what_else_lies_around_is_not_read(tmp_path: Path) -> None:
    write_file(tmp_path, 0, entries(0, 3))
    root = tmp_path / "consumequeue"
    (root / "T" / "0" / "notes.txt").write_text("x")
    (root / "T" / "0" / f"{SIZE:020d}").mkdir()
    (root / "T" / "007").mkdir()
    (root / "T" / "-1").mkdir()
    (root / "T" / "4294967296").mkdir()
    (root / "T" / "2").write_text("a file")
    (root / "T" / "abc").mkdir()
    (root / "file").write_text("x")
    (root / "Empty").mkdir()
    (root / "E" / "5").mkdir(parents=True)
    queues = open_queues(tmp_path)
    assert queues.queues() == [("E", 5), ("T", 0)]
    assert the_queue(queues).max_offset == 3


def test_no_directory_at_all(tmp_path: Path) -> None:
    queues = open_queues(tmp_path)
    assert queues.queues() == []
    assert queues.max_phy_offset == -1
    assert queues.truncate(0) == 0
    queues.correct_min_offsets(5)
    queues.flush()
    queues.destroy_all()
    assert list(tmp_path.iterdir()) == []


# ---- where a queue ends -----------------------------------------------------------------------------


@pytest.mark.parametrize("entry", [(0, 0, 0), (-1, 5, 0), (5, 0, 0), (5, -7, 0)])
@pytest.mark.parametrize("at", [0, 1, 7])
def test_it_ends_at_the_first_invalid_entry(
    tmp_path: Path, entry: tuple[int, int, int], at: int
) -> None:
    data = bytearray(entries(0, 8))
    oracle.CQ_ENTRY.pack_into(data, at * ENTRY, *entry)
    write_file(tmp_path, 0, bytes(data))
    queues = open_queues(tmp_path)
    queue = the_queue(queues)
    assert queue.max_offset == at
    assert queue.max_phy_offset == (1000 + 100 * at if at else -1)
    assert queues.max_phy_offset == queue.max_phy_offset


def test_older_files_are_not_looked_at(tmp_path: Path) -> None:
    """Java begins at the third file from the end."""
    data = [bytearray(entries(8 * i, 8)) for i in range(5)]
    data[1][:ENTRY] = bytes(ENTRY)
    for number, part in enumerate(data):
        write_file(tmp_path, number * SIZE, bytes(part))
    assert the_queue(open_queues(tmp_path)).max_offset == 40
    data[2][:ENTRY] = bytes(ENTRY)
    write_file(tmp_path, 2 * SIZE, bytes(data[2]))
    queue = the_queue(open_queues(tmp_path))
    assert queue.max_offset == 16
    assert queue.max_phy_offset == 1000 + 1600


def test_fillers_are_entries_but_no_messages(tmp_path: Path) -> None:
    """In Java a queue that holds nothing but fillers has every message up to 2 GiB, and refuses them."""
    write_file(tmp_path, 0, oracle.pack_cq([oracle.CQ_FILLER] * 3))
    queues = open_queues(tmp_path)
    queue = the_queue(queues)
    assert (queue.max_offset, queue.max_phy_offset) == (3, -1)
    queues.put_entry("T", 0, 1000, 10, 0, 3)
    assert queue.max_offset == 4


def test_a_file_longer_than_one_look(tmp_path: Path) -> None:
    write_file(tmp_path, 0, entries(0, 61_234), size=100_000 * ENTRY)
    queue = the_queue(open_queues(tmp_path, 100_000))
    assert queue.max_offset == 61_234
    assert queue.max_phy_offset == 1000 + 6_123_400


# ---- what is cut ------------------------------------------------------------------------------------


@pytest.mark.parametrize("cut", range(25))
def test_entries_of_messages_behind_the_end_are_cut(tmp_path: Path, cut: int) -> None:
    queues = open_queues(tmp_path)
    put_records(queues, records := lay_out(record("T", 0, i, 0) for i in range(24)))
    limit = records[cut].phy_offset if cut < 24 else 1 << 40
    assert queues.truncate(limit) == 24 - cut
    for found in (queues, open_queues(tmp_path)):
        queue = found.find("T", 0)
        assert queue is not None
        assert queue.max_offset == cut
        assert queue.max_phy_offset == (limit if 0 < cut < 24 else queue.max_phy_offset)
    files = queue_files(tmp_path).get(("T", 0), {})
    assert sorted(files) == [SIZE * i for i in range(-(-cut // 8))]
    assert sum(len(entries_of(data)) for data in files.values()) == cut
    assert all(not data[ENTRY * len(entries_of(data)) :].strip(b"\0") for data in files.values())


def test_a_message_that_reaches_over_the_end_stays(tmp_path: Path) -> None:
    """The start of the message counts; whether its record is whole was decided by the log."""
    queues = open_queues(tmp_path)
    queues.put_entry("T", 0, 1000, 500, 0, 0)
    assert queues.truncate(1200) == 0
    assert queues.truncate(1000) == 1


def test_what_was_cut_never_comes_back(tmp_path: Path) -> None:
    """Java leaves cut entries in the file; with a new entry before them the next recovery takes them for valid."""
    queues = open_queues(tmp_path)
    put_records(queues, records := lay_out(record("T", 0, i, 0) for i in range(6)))
    queues.truncate(records[2].phy_offset)
    queues.put_entry("T", 0, records[2].phy_offset, 10, 0, 2)
    queues.close()
    assert the_queue(open_queues(tmp_path)).max_offset == 3


@pytest.mark.parametrize("step", ["put", "truncate"])
def test_what_lies_behind_an_invalid_entry_goes_before_anything_is_written(
    tmp_path: Path, step: str
) -> None:
    data = bytearray(entries(0, 8))
    data[3 * ENTRY : 4 * ENTRY] = bytes(ENTRY)
    write_file(tmp_path, 0, bytes(data))
    write_file(tmp_path, SIZE, entries(8, 8))
    write_file(tmp_path, 0, entries(0, 8), topic="Other")
    queues = open_queues(tmp_path)
    before = queue_files(tmp_path)
    assert before["T", 0][SIZE] == entries(8, 8)
    if step == "put":
        queues.put_entry("Other", 0, 9999, 10, 0, 8)
    else:
        assert queues.truncate(1 << 40) == 0
    assert list(queue_files(tmp_path)["T", 0]) == [0]
    assert queue_files(tmp_path)["T", 0][0] == entries(0, 3).ljust(SIZE, b"\0")
    queues.put_entry("T", 0, 9999, 10, 0, 3)
    queues.close()
    assert the_queue(open_queues(tmp_path)).max_offset == 4


def test_a_second_open_finds_nothing_to_do(tmp_path: Path) -> None:
    data = bytearray(entries(0, 8))
    data[3 * ENTRY : 4 * ENTRY] = bytes(ENTRY)
    write_file(tmp_path, 0, bytes(data))
    queues = open_queues(tmp_path)
    queues.truncate(1000 + 100)
    queues.close()
    before = {path: os.stat(path).st_mtime_ns for path in tmp_path.rglob("*")}
    queues = open_queues(tmp_path)
    assert queues.truncate(1100) == 0
    queues.flush()
    queues.close()
    assert {path: os.stat(path).st_mtime_ns for path in tmp_path.rglob("*")} == before


def test_the_plan_of_a_recovery_changes_nothing(tmp_path: Path) -> None:
    write_file(tmp_path, 0, entries(0, 2) + bytes(ENTRY) + entries(3, 2))
    write_file(tmp_path, SIZE, b"", size=0)
    before = {
        path: (os.stat(path).st_mtime_ns, os.stat(path).st_ino) for path in tmp_path.rglob("*")
    }
    queues = open_queues(tmp_path)
    assert the_queue(queues).max_offset == 2
    queues.correct_min_offsets(1100)
    queues.flush()
    queues.close()
    after = {
        path: (os.stat(path).st_mtime_ns, os.stat(path).st_ino) for path in tmp_path.rglob("*")
    }
    assert after == before


def test_a_read_only_directory_can_be_looked_at(tmp_path: Path) -> None:
    path = write_file(tmp_path, 0, entries(0, 4))
    path.chmod(0o400)
    path.parent.chmod(0o500)
    try:
        queue = the_queue(open_queues(tmp_path))
        assert queue.get_entry(3) == (1300, 100, 3)
    finally:
        path.parent.chmod(0o700)


# ---- min offsets ------------------------------------------------------------------------------------


def test_min_offsets_as_java_finds_them(tmp_path: Path) -> None:
    """Fillers lie at the front: with a log that begins at 0 the search may hit any of them (docs/format/consumequeue.md)."""
    write_file(tmp_path, SIZE, oracle.pack_cq([oracle.CQ_FILLER] * 5) + entries(13, 3))
    queue = the_queue(queues := open_queues(tmp_path))
    assert queue.min_offset == 0
    queues.correct_min_offsets(0)
    assert queue.min_offset == 11  # (0 + 7) / 2 behind offset 8
    queues.correct_min_offsets(1)
    assert queue.min_offset == 13
    queues.correct_min_offsets(0)
    assert queue.min_offset == 13  # what was found is kept while it holds
    queues.correct_min_offsets(2400)
    assert queue.min_offset == 14
    queues.correct_min_offsets(1 << 40)
    assert queue.min_offset == 16


def test_only_the_first_file_is_searched(tmp_path: Path) -> None:
    for number in range(3):
        write_file(tmp_path, number * SIZE, entries(8 * number, 8))
    queue = the_queue(queues := open_queues(tmp_path))
    queues.correct_min_offsets(1000 + 100 * 10)
    assert queue.min_offset == 0
    assert len(queues.delete_expired(1000 + 100 * 10)) == 1
    assert queue.min_offset == 10
    assert sorted(queue_files(tmp_path)["T", 0]) == [SIZE, 2 * SIZE]
    assert len(queues.delete_expired(1 << 40)) == 1
    assert queue.min_offset == queue.max_offset == 24
    assert sorted(queue_files(tmp_path)["T", 0]) == [2 * SIZE]


def test_destroy_all(tmp_path: Path) -> None:
    queues = open_queues(tmp_path)
    put_records(queues, lay_out(record(f"T{i % 3}", 0, i // 3, 0) for i in range(60)))
    (tmp_path / "consumequeue" / "T1" / "0" / "notes.txt").write_text("x")
    queues.destroy_all()
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["notes.txt"]
    assert queues.queues() == [("T0", 0), ("T1", 0), ("T2", 0)]
    assert queues.max_phy_offset == -1
    assert the_queue(queues, "T2").max_offset == 0
    queues.put_entry("T2", 0, 0, 10, 0, 0)
    queues.flush()
    assert the_queue(queues, "T2").get_entry(0) == (0, 10, 0)
