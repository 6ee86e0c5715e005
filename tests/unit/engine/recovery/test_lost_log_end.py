"""A store that was closed, and whose log lost its end or whose queues or checkpoint know more than the log: one open does all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import rmqcore
from rmqcore import Message
from rmqcore.disk.checkpoint import CheckpointFile
from rmqcore.testing.recovery_check import check_again

ENTRY, ENTRIES = 20, 4
CONFIG: dict[str, Any] = {
    "mapped_file_size_commit_log": 16384,
    "mapped_file_size_consume_queue": ENTRY * ENTRIES,
    "message_index_enable": False,
}


def filled(root: Path, count: int) -> list[tuple[int, int]]:
    """Put messages into one queue and close; answer where their records begin and end."""
    records = []
    with rmqcore.open(root, services=False, **CONFIG) as store:
        for _ in range(count):
            result = store.put(Message("T", b"x" * 150, queue_id=0))
            records.append((result.phy_offset, result.phy_offset + result.msg_size))
        drain(store)
    return records


def drain(store: rmqcore.MessageStore) -> None:
    while store.dispatch_once():
        pass


def entry_place(root: Path, queue_offset: int) -> tuple[Path, int]:
    pos = queue_offset * ENTRY
    start = pos - pos % (ENTRY * ENTRIES)
    return root / "consumequeue" / "T" / "0" / f"{start:020d}", pos - start


def read_entry(root: Path, queue_offset: int) -> bytes:
    path, pos = entry_place(root, queue_offset)
    return path.read_bytes()[pos : pos + ENTRY]


def overwrite(path: Path, pos: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(pos)
        file.write(data)


def in_older_file(records: list[tuple[int, int]]) -> int:
    """The last queue offset inside a queue file whose message lies in the log's first file."""
    last = max(at for at, (begin, _) in enumerate(records) if begin < 16384)
    return next(at for at in range(last, 0, -1) if at % ENTRIES in (1, 2))


def damage_record(root: Path, phy_offset: int) -> None:
    start = phy_offset - phy_offset % 16384
    overwrite(root / "commitlog" / f"{start:020d}", phy_offset - start, b"\xff" * 8)


def test_an_old_entry_and_a_log_that_lost_its_end(tmp_path: Path) -> None:
    """Closed, an entry's size zeroed, then the log lost its end: only the second open made the entry right.

    An open reads the last three files of each queue whole. The first one read those that the lost messages had, the second the
    three before.
    """
    records = filled(tmp_path, 120)
    old = in_older_file(records)
    was = read_entry(tmp_path, old)
    path, pos = entry_place(tmp_path, old)
    overwrite(path, pos + 8, bytes(4))
    damage_record(tmp_path, records[old + 6][0])
    with rmqcore.open(tmp_path, services=False, **CONFIG) as store:
        drain(store)
        assert store.max_offset("T", 0) == old + 6
        assert store.recovery.cut_bytes > 0
        assert store.recovery.distrust
    assert read_entry(tmp_path, old) == was
    check_again(tmp_path, CONFIG)


def test_an_old_entry_and_queues_that_know_more_than_the_log(tmp_path: Path) -> None:
    """The same where the end of the log is zeros, as in a copy of an older log beside newer queues: nothing is cut there."""
    records = filled(tmp_path, 120)
    old = in_older_file(records)
    was = read_entry(tmp_path, old)
    path, pos = entry_place(tmp_path, old)
    overwrite(path, pos + 8, bytes(4))
    end = records[old + 6][0]
    start = end - end % 16384
    overwrite(tmp_path / "commitlog" / f"{start:020d}", end - start, bytes(16384 - end % 16384))
    with rmqcore.open(tmp_path, services=False, **CONFIG) as store:
        drain(store)
        assert store.max_offset("T", 0) == old + 6
        assert store.recovery.truncated_entries == 120 - old - 6
    assert read_entry(tmp_path, old) == was
    check_again(tmp_path, CONFIG)


def test_an_old_entry_and_a_queue_with_entries_of_no_message(tmp_path: Path) -> None:
    """The same where only the queue ends behind its last record, and its entries there point at other messages of the log."""
    records = filled(tmp_path, 120)
    old = in_older_file(records)
    was = read_entry(tmp_path, old)
    path, pos = entry_place(tmp_path, old)
    overwrite(path, pos + 8, bytes(4))
    # Entries from queue offset 120 on, three files of them: copies of the last sound one.
    for queue_offset in range(120, 132):
        path, pos = entry_place(tmp_path, queue_offset)
        data = bytearray(path.read_bytes() if path.exists() else bytes(ENTRY * ENTRIES))
        data[pos : pos + ENTRY] = read_entry(tmp_path, 119)
        path.write_bytes(data)
    with rmqcore.open(tmp_path, services=False, **CONFIG) as store:
        drain(store)
        assert store.max_offset("T", 0) == 120
        assert store.recovery.distrust
    assert read_entry(tmp_path, old) == was
    check_again(tmp_path, CONFIG)


def test_an_old_entry_and_a_checkpoint_that_knows_more_than_the_log(tmp_path: Path) -> None:
    """Log and queues lost the same end, and only the checkpoint tells: it names a message that the log does not have."""
    records = filled(tmp_path, 120)
    old = in_older_file(records)
    was = read_entry(tmp_path, old)
    path, pos = entry_place(tmp_path, old)
    overwrite(path, pos + 8, bytes(4))
    checkpoint = CheckpointFile(tmp_path / "checkpoint")
    checkpoint.update(logics_physical_offset=records[-1][1] + 1000)
    checkpoint.flush()
    with rmqcore.open(tmp_path, services=False, **CONFIG) as store:
        drain(store)
        assert store.recovery.distrust
    assert read_entry(tmp_path, old) == was
    check_again(tmp_path, CONFIG)


@pytest.mark.parametrize("count", [0, 1, 120])
def test_a_sound_store_counts_as_closed(tmp_path: Path, count: int) -> None:
    """No sign is found in a store that was closed, empty or not."""
    filled(tmp_path, count)
    for _ in range(2):
        with rmqcore.open(tmp_path, services=False, **CONFIG) as store:
            drain(store)
            assert not store.recovery.distrust
            assert store.max_offset("T", 0) == count


@pytest.mark.parametrize("count", [1, 5, ENTRIES * 4])
def test_last_entries_of_zeros_whose_messages_lie_in_the_newest_file(
    tmp_path: Path, count: int
) -> None:
    """Closed, then a queue's last entries zeroed: its files do not show it, and its queue offsets must not be given again."""
    records = filled(tmp_path, 120)
    was = [read_entry(tmp_path, at) for at in range(120 - count, 120)]
    for queue_offset in range(120 - count, 120):
        assert records[queue_offset][0] >= 16384
        overwrite(*entry_place(tmp_path, queue_offset), bytes(ENTRY))
    with rmqcore.open(tmp_path, services=False, **CONFIG) as store:
        drain(store)
        assert [read_entry(tmp_path, at) for at in range(120 - count, 120)] == was
        assert store.put(Message("T", b"next", queue_id=0)).queue_offset == 120
