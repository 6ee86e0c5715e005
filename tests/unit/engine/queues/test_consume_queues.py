"""ConsumeQueues at the edges: what gets an entry and where, what is refused, disks and directories that fail, many queues."""

from __future__ import annotations

import errno
import os
import resource
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.oracle import records as oracle
from support.oracle.queue import ENTRY
from support.stores.index_batches import lay_out
from support.stores.queue_batches import (
    batches,
    column_scan,
    entries_of,
    open_queues,
    put_records,
    queue_files,
    record,
)

from rmqcore._native.queues.queue_table import QueueTable
from rmqcore._native.scan.scan import ColumnScan
from rmqcore.config import MessageStoreConfig
from rmqcore.disk.paths import StorePaths
from rmqcore.engine.queues.consume_queues import ConsumeQueues
from rmqcore.errors import StoreClosedError

FILLER = oracle.CQ_FILLER


@contextmanager
def files_at_most(size: int) -> Iterator[None]:
    """As on a full disk: no write of this process behind byte `size` of a file succeeds (EFBIG)."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


# ---- where entries go -------------------------------------------------------------------------------


def test_an_entry_lies_at_its_queue_offset_or_nowhere(tmp_path: Path) -> None:
    """The message of queue offset 112 was served as 92 where files of its queue were lost; Java does the same.

    It appends behind a gap (14 and then 13 here), and 0 wherever the queue ends (tried with Java).
    """
    queues = open_queues(tmp_path)
    puts = [(1000, 11), (1000, 11), (1300, 14), (1400, 12), (1500, 13), (1600, 0), (1700, 15)]
    for phy_offset, queue_offset in puts:
        queues.put_entry("T", 0, phy_offset, 100, 5, queue_offset)
    queue = queues.find("T", 0)
    assert queue is not None
    assert (queue.min_offset, queue.max_offset, queue.max_phy_offset) == (11, 16, 1800)
    ((start, data),) = queue_files(tmp_path)["T", 0].items()
    assert start == 160
    assert len(data) == 8 * ENTRY
    first, last = (1000, 100, 5), (1700, 100, 5)
    assert entries_of(data) == [*[FILLER] * 3, first, FILLER, FILLER, (1300, 100, 5), last]
    assert (queues.gaps, queues.refused, queues._table.repeats) == (2, 0, 4)


def test_types_without_an_entry_and_rows_below_the_offset_are_passed_over(tmp_path: Path) -> None:
    queues = open_queues(tmp_path)
    types = [0, 0x4, 0x8, 0xC, 0]
    offsets = [0, 0, 1, 0, 2]
    records = lay_out(
        record("T", 3, offset, 0, sys_flag=kind)
        for kind, offset in zip(types, offsets, strict=True)
    )
    put_records(queues, records, from_phy_offset=records[1].phy_offset)
    queue = queues.find("T", 3)
    assert queue is not None
    # The first record is not wanted, so the queue begins at offset 1, behind a filler.
    assert queue.entries(0, 9)["phy_offset"].tolist() == [
        0,
        records[2].phy_offset,
        records[4].phy_offset,
    ]
    assert queue.min_offset == 1


def test_a_message_is_a_repeat_by_where_it_ends(tmp_path: Path) -> None:
    queues = open_queues(tmp_path)
    for phy_offset, size in [(1000, 100), (1000, 100), (1050, 50), (1050, 51), (0, 1101)]:
        queues.put_entry("T", 0, phy_offset, size, 0, min(phy_offset, 1))
    queue = queues.find("T", 0)
    assert queue is not None
    assert queue.entries(1, 9)["phy_offset"].tolist() == [1000]
    assert queues._table.repeats == 4


@pytest.mark.parametrize("rows", [1, 2, 3, 100])
def test_one_batch_fills_many_files(tmp_path: Path, rows: int) -> None:
    queues = open_queues(tmp_path, entries_per_file=2)
    records = lay_out(record("T", i % 2, i // 2, 0, tags=f"G{i}") for i in range(14))
    put_records(queues, records, rows=rows)
    for queue_id in range(2):
        files = queue_files(tmp_path)["T", queue_id]
        assert sorted(files) == [0, 40, 80, 120]
        found = [entry for start in sorted(files) for entry in entries_of(files[start])]
        assert found == [
            (r.phy_offset, r.msg_size, oracle.java_hash(f"G{r.phy_offset and i}"))
            for i, r in enumerate(records)
            if r.queue_id == queue_id
        ]
        assert len(files[120]) == 40


def test_a_full_file_has_no_successor_until_an_entry_needs_it(tmp_path: Path) -> None:
    queues = open_queues(tmp_path, entries_per_file=2)
    for number in range(2):
        queues.put_entry("T", 0, 100 * number, 100, 0, number)
    queues.put_entry("T", 0, 500, 100, 0, 1)  # the place is taken
    assert sorted(queue_files(tmp_path)["T", 0]) == [0]
    queues.put_entry("T", 0, 500, 100, 0, 2)
    assert sorted(queue_files(tmp_path)["T", 0]) == [0, 40]


def test_another_scan_numbers_its_topics_anew(tmp_path: Path) -> None:
    """A dispatcher may change its scan between two batches; topic 0 of the one is not topic 0 of the other."""
    queues = open_queues(tmp_path)
    first, second = column_scan(), column_scan()
    records = lay_out(
        [record("A", 0, 0, 0), record("B", 0, 0, 0), record("B", 0, 1, 0), record("A", 0, 1, 0)]
    )
    put_records(queues, records[:2], columns=first)
    put_records(queues, records[2:3], columns=second)
    put_records(queues, records[3:], columns=first)
    for topic, numbers in (("A", (0, 3)), ("B", (1, 2))):
        queue = queues.find(topic, 0)
        assert queue is not None
        assert queue.entries(0, 9)["phy_offset"].tolist() == [
            records[number].phy_offset for number in numbers
        ]


def test_fillers_of_more_than_one_block(tmp_path: Path) -> None:
    queues = open_queues(tmp_path, entries_per_file=5000)
    queues.put_entry("T", 0, 77, 10, 1, 9001)
    (data,) = queue_files(tmp_path)["T", 0].values()
    entries = entries_of(data)
    assert entries == [FILLER] * 4001 + [(77, 10, 1)]
    queue = queues.find("T", 0)
    assert queue is not None
    assert (queue.min_offset, queue.max_offset) == (9001, 9002)


def test_a_killed_start_of_a_queue_is_taken_up_in_its_place(tmp_path: Path) -> None:
    """A crash between making the first file and writing its first entry: Java appends at the file's start then."""
    folder = tmp_path / "consumequeue" / "T" / "0"
    folder.mkdir(parents=True)
    (folder / f"{160:020d}").write_bytes(bytes(160))
    queues = open_queues(tmp_path)
    queues.put_entry("T", 0, 1000, 100, 0, 11)
    queue = queues.find("T", 0)
    assert queue is not None
    assert (queue.min_offset, queue.max_offset) == (11, 12)
    assert queue.entries(8, 9).tolist() == [FILLER] * 3 + [(1000, 100, 0)]


# ---- what is refused --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "topic", ["", ".", "..", "../../x", "a/b", "/etc", "a\0b", "x" * 256, "日" * 86, "\0"]
)
def test_a_topic_that_is_no_directory_name_stays_out_of_the_file_system(
    tmp_path: Path, topic: str
) -> None:
    root = tmp_path / "deep" / "store"
    root.mkdir(parents=True)
    queues = open_queues(root)
    records = lay_out([record(topic, 0, 0, 0), record("good", 0, 0, 0), record(topic, 1, 0, 0)])
    put_records(queues, records)
    queues.put_entry(topic, 0, 10, 10, 0, 0)
    assert queues.refused == 3
    assert queues.queues() == [("good", 0)]
    assert queues.find(topic, 0) is None
    queues.flush()
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == [f"{0:020d}"]


def test_names_that_only_look_odd_are_fine(tmp_path: Path) -> None:
    queues = open_queues(tmp_path)
    names = ["%RETRY%g", "%LMQ%x", "...", "-", "日本", "x" * 255, " ", "a\\b", "😀"]
    put_records(queues, lay_out(record(name, 0, 0, 0) for name in names))
    assert queues.topics() == sorted(names)
    again = open_queues(tmp_path)
    assert again.topics() == sorted(names)
    assert queues.refused == 0


def test_malformed_utf8_names_the_queue_that_java_reads(tmp_path: Path) -> None:
    """Two spellings that Java reads as one text are one queue."""
    queues = open_queues(tmp_path)
    put_records(queues, lay_out([record(b"a\xff", 0, 0, 0), record(b"a\xfe", 0, 1, 0)]))
    queue = queues.find("a�", 0)
    assert queue is not None
    assert queue.max_offset == 2


@pytest.mark.parametrize(
    ("queue_id", "queue_offset"),
    [(-1, 0), (-(1 << 31), 0), (0, -1), (0, -(1 << 63)), (0, (1 << 63) - 1), (0, 1 << 60)],
)
def test_ids_and_first_offsets_that_are_none(
    tmp_path: Path, queue_id: int, queue_offset: int
) -> None:
    queues = open_queues(tmp_path)
    put_records(queues, [record("T", queue_id, queue_offset, 5)])
    assert queues.refused == 1
    assert queue_files(tmp_path) == {}


def test_wild_offsets_later_on(tmp_path: Path) -> None:
    """Below the end: a repeat. Further above it than the log between can have lost: refused, and no terabytes of fillers."""
    queues = open_queues(tmp_path)
    wild = [0, -1, -(1 << 63), (1 << 63) - 1, 1 << 61, 1 << 40, 5000, 3]
    for phy_offset, queue_offset in enumerate(wild):
        put_records(queues, [record("T", 0, queue_offset, 1000 * phy_offset)])
    queue = queues.find("T", 0)
    assert queue is not None
    assert queue.entries(0, 9).tolist() == [(0, 92, 0), FILLER, FILLER, (7000, 92, 0)]
    assert (queues.gaps, queues.refused, queues._table.repeats) == (2, 4, 2)


def test_the_largest_id_and_a_large_offset(tmp_path: Path) -> None:
    queues = open_queues(tmp_path)
    put_records(queues, [record("T", (1 << 31) - 1, 1 << 55, 5)])
    queue = open_queues(tmp_path).find("T", (1 << 31) - 1)
    assert queue is not None
    assert queue.max_offset == (1 << 55) + 1
    assert queue.get_entry(1 << 55) is not None
    assert queue.spans() == [((1 << 55), 1)]


def test_find_takes_any_numbers(tmp_path: Path) -> None:
    queues = open_queues(tmp_path)
    queues.put_entry("T", 0, 0, 10, 0, 0)
    for topic, queue_id in [("T", -1), ("T", 1), ("T", 1 << 31), ("T", -(1 << 80)), ("t", 0)]:
        assert queues.find(topic, queue_id) is None
    queue = queues.find("T", 0)
    assert queue is not None
    assert queues.find("T", 0) is queue
    for start, count in [(-1, 5), (1, 5), (0, 0), (0, -1), (1 << 62, 1 << 62)]:
        assert len(queue.entries(start, count)) == 0
    assert queue.get_entry(1 << 62) is None
    assert queue.phy_offset(-1) == -1


def test_a_batch_without_the_columns(tmp_path: Path) -> None:
    queues = open_queues(tmp_path)
    scan = ColumnScan(["phy_offset", "topic_id"])
    (batch,) = batches(scan, [record("T", 0, 0, 0)])
    with pytest.raises(ValueError, match="no column 'msg_size'"):
        queues.put_batch(scan, batch, 0)


def test_bad_tables() -> None:
    for size in (0, 19, 30, -20):
        with pytest.raises(ValueError, match="file_size"):
            QueueTable("/nowhere", size, 4)
    with pytest.raises(ValueError, match="open_files"):
        QueueTable("/nowhere", 20, 0)


# ---- failures ---------------------------------------------------------------------------------------


def test_what_a_full_disk_did_not_take_does_not_count(tmp_path: Path) -> None:
    """Of three queues the second meets the limit in its second file.

    Then all of the first queue counts, of the second queue its first file, of the third queue nothing.
    """
    queues = open_queues(tmp_path, entries_per_file=4)
    records = lay_out(
        [record("A", 0, i, 0) for i in range(2)]
        + [record("B", 0, i, 0) for i in range(6)]
        + [record("C", 0, i, 0) for i in range(2)]
    )
    folder = tmp_path / "consumequeue" / "B" / "0"
    folder.mkdir(parents=True)
    (folder / f"{80:020d}").mkdir()  # where the second file has to go
    with pytest.raises(OSError, match=f"{80:020d}") as failure:
        put_records(queues, records)
    assert failure.value.errno == errno.EISDIR
    ends = {
        place: queue.max_offset
        for place in queues.queues()
        if (queue := queues.find(*place)) is not None
    }
    assert ends == {("A", 0): 2, ("B", 0): 4, ("C", 0): 0}
    b = queues.find("B", 0)
    assert b is not None
    assert b.max_phy_offset == records[5].phy_offset + (records[5].msg_size or 0)
    (folder / f"{80:020d}").rmdir()
    # All of it again: what is there is passed over, the rest comes.
    put_records(queues, records)
    assert [q.max_offset for p in queues.queues() if (q := queues.find(*p))] == [2, 6, 2]
    assert not queues.gaps


def test_a_write_that_fails_in_the_middle(tmp_path: Path) -> None:
    queues = open_queues(tmp_path, entries_per_file=8)
    queues.put_entry("T", 0, 0, 10, 1, 0)
    with files_at_most(50), pytest.raises(OSError, match="File too large"):
        put_records(queues, [record("T", 0, i, 1000 * i) for i in range(1, 5)])
    queue = queues.find("T", 0)
    assert queue is not None
    assert (queue.max_offset, queue.max_phy_offset) == (1, 10)
    put_records(queues, [record("T", 0, i, 1000 * i) for i in range(1, 5)])
    assert queue.max_offset == 5
    assert queue.entries(0, 9)["phy_offset"].tolist() == [0, 1000, 2000, 3000, 4000]


@pytest.mark.parametrize("limit", [0, 100])
def test_a_file_that_cannot_be_made_leaves_none_behind(tmp_path: Path, limit: int) -> None:
    queues = open_queues(tmp_path)
    with files_at_most(limit), pytest.raises(OSError, match="File too large"):
        queues.put_entry("T", 0, 1000, 10, 1, 7)
    assert queue_files(tmp_path) == {}
    queue = queues.find("T", 0)
    assert queue is not None
    assert (queue.min_offset, queue.max_offset, queue.spans()) == (0, 0, [])
    queues.put_entry("T", 0, 1000, 10, 1, 7)
    assert (queue.min_offset, queue.max_offset) == (7, 8)


def test_fillers_that_do_not_fit_leave_no_file(tmp_path: Path) -> None:
    queues = open_queues(tmp_path, entries_per_file=100)
    folder = tmp_path / "consumequeue" / "T"
    folder.mkdir(parents=True)
    (folder / "0").write_text("in the way")
    with pytest.raises(NotADirectoryError):
        queues.put_entry("T", 0, 1000, 10, 1, 70)
    (folder / "0").unlink()
    queues.put_entry("T", 0, 1000, 10, 1, 70)
    assert open_queues(tmp_path, 100).max_phy_offset == 1010


def test_a_sync_that_fails_is_tried_again(tmp_path: Path) -> None:
    queues = open_queues(tmp_path)
    queues.put_entry("T", 0, 0, 10, 0, 0)
    queues.put_entry("U", 0, 10, 10, 0, 0)
    (path,) = (tmp_path / "consumequeue" / "T" / "0").iterdir()
    queues._table.close_files()
    path.rename(tmp_path / "away")
    for _ in range(2):
        with pytest.raises(FileNotFoundError, match="T/0"):
            queues.flush()
    (tmp_path / "away").rename(path)
    queues.flush()
    (tmp_path / "consumequeue" / "T" / "0").rename(tmp_path / "away")
    queues.flush()  # nothing waits


def test_flush_waits_for_so_many_pages(tmp_path: Path) -> None:
    """A file that was moved away shows whether a flush syncs: a flush that has to sync that file fails."""
    queues = open_queues(tmp_path, entries_per_file=2000)
    put_records(queues, lay_out(record("T", 0, i, 0) for i in range(204)))
    queues._table.close_files()
    (path,) = (tmp_path / "consumequeue" / "T" / "0").iterdir()
    path.rename(tmp_path / "away")
    queues.flush(1)  # 4080 bytes
    (tmp_path / "away").rename(path)
    queues.put_entry("T", 0, 1 << 40, 10, 0, 204)
    queues._table.close_files()
    path.rename(tmp_path / "away")
    with pytest.raises(FileNotFoundError):
        queues.flush(1)
    queues.flush(2)


def test_a_file_that_is_missing_in_the_middle(tmp_path: Path) -> None:
    queues = open_queues(tmp_path, entries_per_file=2)
    put_records(queues, lay_out(record("T", 0, i, 0) for i in range(8)))
    queues.close()
    (tmp_path / "consumequeue" / "T" / "0" / f"{40:020d}").unlink()
    queues = open_queues(tmp_path, entries_per_file=2)
    queue = queues.find("T", 0)
    assert queue is not None
    assert queue.max_offset == 8
    assert queue.get_entry(2) is None
    assert queue.phy_offset(3) == -1
    assert len(queue.entries(0, 8)) == 2
    assert len(queue.entries(4, 8)) == 4
    assert queue.spans() == [(0, 2), (4, 2), (6, 2)]
    queues.correct_min_offsets(0)
    assert len(queues.delete_expired(1 << 40)) == 2
    assert queue.spans() == [(6, 2)]


def test_use_after_close(tmp_path: Path) -> None:
    queues = open_queues(tmp_path)
    queues.put_entry("T", 0, 0, 10, 0, 0)
    queues.close()
    queues.close()
    assert queues.open_files == 0
    calls: list[Callable[[], object]] = [
        queues.load,
        queues.recover,
        queues.flush,
        queues.destroy_all,
        lambda: queues.truncate(0),
        lambda: queues.delete_expired(0),
        lambda: queues.correct_min_offsets(0),
        lambda: queues.put_entry("T", 0, 10, 10, 0, 1),
    ]
    for call in calls:
        with pytest.raises(StoreClosedError):
            call()


# ---- many -------------------------------------------------------------------------------------------


def test_few_files_stay_open(tmp_path: Path) -> None:
    queues = open_queues(tmp_path, 4)
    queues._table = QueueTable(str(tmp_path / "consumequeue"), 80, 5)
    records = lay_out(record(f"T{i % 40}", 0, i // 40, 0) for i in range(400))
    put_records(queues, records, rows=100)
    assert queues.open_files == 5
    for number in range(40):
        queue = queues.find(f"T{number}", 0)
        assert queue is not None
        found = [queue.phy_offset(place) for place in range(10)]
        assert found == [r.phy_offset for r in records[number::40]]
        assert queues.open_files <= 5
    descriptors = {os.path.realpath(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd")}
    assert len([path for path in descriptors if path.startswith(str(tmp_path))]) <= 5
    queues.flush()
    queues.close()
    assert queues.open_files == 0


def test_the_limit_of_descriptors_is_kept(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
    try:
        queues = ConsumeQueues(StorePaths(tmp_path), MessageStoreConfig())
        put_records(queues, lay_out(record("T", i, 0, 0) for i in range(300)))
        assert queues.open_files == 64
        for number in range(300):
            queue = queues.find("T", number)
            assert queue is not None
            assert len(queue.entries(0, 1)) == 1
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_readers_beside_a_writer(tmp_path: Path) -> None:
    """What is below a max offset can be read, whatever is being put, flushed and deleted; three files are open at once."""
    queues = open_queues(tmp_path, 4)
    queues._table = QueueTable(str(tmp_path / "consumequeue"), 80, 3)
    put_records(queues, lay_out(record("T", i, 0, 0) for i in range(4)))
    stop, wrong = threading.Event(), list[object]()

    def read(number: int) -> None:
        queue = queues.find("T", number)
        assert queue is not None
        while not stop.is_set():
            begin, end = queue.min_offset, queue.max_offset
            for place in (begin, (begin + end) // 2, end - 1):
                entry = queue.get_entry(place)
                # Below the new minimum the entry may be deleted by now.
                if entry is None and place >= queue.min_offset:
                    wrong.append((number, place, begin, end))
                elif entry is not None and entry[2] != place:
                    wrong.append((number, place, entry))

    def flush() -> None:
        while not stop.is_set():
            queues.flush()

    threads = [threading.Thread(target=read, args=(i,)) for i in range(4)]
    threads.append(threading.Thread(target=flush))
    for thread in threads:
        thread.start()
    try:
        for step in range(1, 400):
            for number in range(4):
                queues.put_entry("T", number, 1000 * step + 200 * number, 100, step, step)
            if step % 50 == 0:
                queues.delete_expired(1000 * (step - 20))
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert not wrong
