"""`read_range` and `append_raw`: the log of one store, as bytes, in another."""

from __future__ import annotations

import random
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from support.faults.interrupt_points import Injector, Interrupted, TimedOut

import rmqcore
from rmqcore import Message
from rmqcore.engine.log.commitlog import CommitLog
from rmqcore.engine.store.store import MessageStore
from rmqcore.errors import CorruptMessageError, DiskFullError, StoreClosedError, StoreFailedError
from rmqcore.offline.fsck import fsck
from rmqcore.vocabulary.status import PutMessageStatus

FILE_SIZE = 4096
SMALL: dict[str, Any] = {
    "mapped_file_size_commit_log": FILE_SIZE,
    "max_index_num": 1000,
    "max_hash_slot_num": 100,
}
SLAVE: dict[str, Any] = {**SMALL, "broker_role": "SLAVE"}


@pytest.fixture
def rng() -> random.Random:
    return random.Random(5)


def master(root: Path, rng: random.Random, count: int = 60, **config: Any) -> MessageStore:
    """A store of several files, with records of all lengths and every kind of end of a file."""
    store = rmqcore.open(root, services=False, **{**SMALL, **config})
    for number in range(count):
        body = rng.randbytes(rng.choice([0, 1, 100, 700, 2500]))
        message = Message(f"T{number % 3}", body, number % 2, tags="A", keys=(f"k{number}",))
        store.put(message).raise_for_status()
    return store


def read_all(store: MessageStore, begin: int = 0) -> bytes:
    """All bytes of the log, read file by file."""
    found = bytearray()
    while begin + len(found) < store.confirm_offset:
        found += store.read_range(begin + len(found), 1 << 20)
    return bytes(found)


def copy(source: MessageStore, to: MessageStore, most: int, first: int = 0) -> None:
    """What a replication does, with at most so many bytes at once; it begins where the slave's log ends, a new one at `first`."""
    at = max(to.max_phy_offset, first)
    while at < source.confirm_offset:
        data = source.read_range(at, most)
        to.append_raw(at, data)
        at += len(data)


def same(source: MessageStore, to: MessageStore) -> None:
    """Both have the same bytes and the same queues."""
    assert to.max_phy_offset == source.max_phy_offset
    for store in (source, to):
        store.flush()
        assert store.wait_dispatched(60)
    assert read_all(to) == read_all(source)
    assert sorted(to.queues()) == sorted(source.queues())
    for topic, queue_id in source.queues():
        bodies = [store.get(topic, queue_id, 0, 32).bodies() for store in (source, to)]
        assert bodies[0] == bodies[1]
        assert to.max_offset(topic, queue_id) == source.max_offset(topic, queue_id)
    assert to.query("T1", "k1").messages[0].raw == source.query("T1", "k1").messages[0].raw


@pytest.mark.parametrize("most", [1, 7, 100, 1000, FILE_SIZE, 1 << 20])
def test_a_slave_has_what_its_master_has(tmp_path: Path, rng: random.Random, most: int) -> None:
    with master(tmp_path / "master", rng) as source:
        assert source.max_phy_offset > 5 * FILE_SIZE
        with rmqcore.open(tmp_path / "slave", services=False, **SLAVE) as to:
            copy(source, to, most)
            same(source, to)
        assert fsck(tmp_path / "slave").exit_code == 0
        for number in range(20):
            source.put(Message("T0", bytes(100 + number), tags="A"))
        with rmqcore.open(tmp_path / "slave", **SLAVE) as to:
            assert to.recovery.cut_bytes == 0
            copy(source, to, most)
            same(source, to)
    assert fsck(tmp_path / "slave").exit_code == 0
    with rmqcore.open(tmp_path / "slave", services=False, **SMALL) as promoted:
        end = promoted.max_offset("T0", 0)
        assert promoted.put(Message("T0", b"mine")).queue_offset == end


@pytest.mark.parametrize("services", [True, False])
def test_a_slave_begins_at_a_later_file(
    tmp_path: Path, rng: random.Random, *, services: bool
) -> None:
    """As a new slave of an old master does: a log without its begin, and queues that begin somewhere."""
    with master(tmp_path / "master", rng) as source:
        begin = 3 * FILE_SIZE
        with rmqcore.open(tmp_path / "slave", services=services, **SLAVE) as to:
            with pytest.raises(ValueError, match="the bytes start at phy_offset 100, expected 0"):
                to.append_raw(100, source.read_range(100, 100))
            for again in range(2):  # nothing was taken: it may begin elsewhere
                to.append_raw(begin + again * FILE_SIZE, b"")
            to.append_raw(begin, source.read_range(begin, 60))
            assert (to.min_phy_offset, to.max_phy_offset) == (begin, begin)
            with pytest.raises(ValueError, match=f"expected {begin}, the end of the log"):
                to.append_raw(begin + FILE_SIZE, b"")
        assert (tmp_path / "slave" / "commitlog" / f"{begin:020}").exists()
        with rmqcore.open(tmp_path / "slave", services=services, **SLAVE) as to:
            copy_from = to.max_phy_offset
            assert copy_from == begin
            copy(source, to, 1000)
            assert to.max_phy_offset == source.max_phy_offset
            assert to.wait_dispatched(60)
            assert source.dispatch_once() >= 0
            assert read_all(to, begin) == read_all(source, begin)
            for topic, queue_id in source.queues():
                assert to.max_offset(topic, queue_id) == source.max_offset(topic, queue_id)
                first = to.min_offset(topic, queue_id)
                assert 0 < first <= to.max_offset(topic, queue_id)
                bodies = [store.get(topic, queue_id, first, 32).bodies() for store in (source, to)]
                assert bodies[0] == bodies[1]
    assert fsck(tmp_path / "slave").exit_code == 0
    with rmqcore.open(tmp_path / "slave", services=services, **SMALL) as promoted:
        end = promoted.max_offset("T0", 0)
        assert promoted.put(Message("T0", b"mine")).queue_offset == end


def test_a_slave_that_died_before_its_first_record(tmp_path: Path, rng: random.Random) -> None:
    """It left an empty file, at one place or another."""
    for left in (0, FILE_SIZE):
        root = tmp_path / str(left)
        (root / "commitlog").mkdir(parents=True)
        (root / "commitlog" / f"{left:020}").write_bytes(bytes(FILE_SIZE))
        (root / "abort").touch()
        with (
            master(tmp_path / f"master{left}", rng) as source,
            rmqcore.open(root, services=False, **SLAVE) as to,
        ):
            assert to.max_phy_offset == to.min_phy_offset == left
            begin = 2 * FILE_SIZE
            to.append_raw(begin, source.read_range(begin, FILE_SIZE))
            copy(source, to, FILE_SIZE)
            assert to.min_phy_offset == begin
            assert to.max_phy_offset == source.max_phy_offset
        assert min(path.name for path in (root / "commitlog").iterdir()) == f"{begin:020}"
        assert fsck(root).exit_code == 0


@pytest.mark.parametrize("flush", ["ASYNC_FLUSH", "SYNC_FLUSH"])
def test_what_a_read_gives(tmp_path: Path, rng: random.Random, flush: str) -> None:
    """Under SYNC_FLUSH a slave must not have what its master may lose."""
    with master(tmp_path, rng, flush_disk_type=flush) as store:
        end = store.max_phy_offset
        unsynced = store.append(Message("t", b"x"))
        sync = flush == "SYNC_FLUSH"
        left = store.read_range(end, 1 << 20)
        assert len(left) == (0 if sync else unsynced.msg_size)
        store.flush()
        left = store.read_range(end, 1 << 20)
        assert bytes(left) == store.lookup(end).raw  # type: ignore[union-attr]
        assert left.readonly
        assert len(store.read_range(store.max_phy_offset, 1)) == 0
        assert len(store.read_range(FILE_SIZE - 9, 100)) == 9, "to the end of the file"
        for bad in (-1, store.max_phy_offset + 1):
            with pytest.raises(ValueError, match=f"phy_offset is {bad}, expected 0 to"):
                store.read_range(bad, 1)
        with pytest.raises(ValueError, match="max_bytes is 0"):
            store.read_range(0, 0)
        raw = bytes(left)
    assert bytes(left) == raw, "it keeps its file mapped"
    with pytest.raises(StoreClosedError):
        store.read_range(0, 1)


def test_bytes_have_to_be_the_next_ones(tmp_path: Path, rng: random.Random) -> None:
    with (
        master(tmp_path / "master", rng) as source,
        rmqcore.open(tmp_path / "slave", services=False, **SLAVE) as to,
    ):
        data = read_all(source)[:FILE_SIZE]
        size = source.lookup(0).msg_size  # type: ignore[union-attr]
        with pytest.raises(ValueError, match="start at phy_offset 5, expected 0,"):
            to.append_raw(5, data[5:])
        assert to.append_raw(0, data[: size - 10]) == 0
        with pytest.raises(
            ValueError, match=f"start at phy_offset {size}, expected 0, .* or {size - 10}, "
        ):
            to.append_raw(size, data[size:])
        assert to.append_raw(0, data[:20]) == 0, "from the start again: a new connection"
        assert to.append_raw(20, data[20:size]) == size
        with pytest.raises(
            ValueError, match=f"start at phy_offset 20, expected {size}, the end of the log$"
        ):
            to.append_raw(20, data[20:])
        assert to.append_raw(size, b"") == size
        with pytest.raises(TypeError):
            to.append_raw(size, "text")  # type: ignore[arg-type]
        assert to.put(Message("t", b"")).status is PutMessageStatus.SERVICE_NOT_AVAILABLE
        with pytest.raises(ValueError, match="broker_role is ASYNC_MASTER"):
            source.append_raw(source.max_phy_offset, b"")
        to.close()
        with pytest.raises(StoreClosedError):
            to.append_raw(size, data[size:])


def test_no_record_is_taken_that_a_recovery_would_cut(tmp_path: Path, rng: random.Random) -> None:
    """A slave would lose it, and all behind it, at its next open; or its dispatch would stop there."""
    with master(tmp_path / "master", rng) as source:
        good = read_all(source)[: 3 * FILE_SIZE]
    second = int.from_bytes(good[:4], "big")
    third = second + int.from_bytes(good[second : second + 4], "big")
    damages = {
        "TOTALSIZE": (0, FILE_SIZE.to_bytes(4, "big")),
        "MAGIC": (4, b"\0\1\2\3"),
        "PHYSICALOFFSET": (28, bytes(8)),
        "BODYCRC": (8, b"\1\2\3\4"),
    }
    bad = bytearray(good)
    for field, (place, wrong) in damages.items():
        bad[:] = good
        bad[second + place : second + place + len(wrong)] = wrong
        with rmqcore.open(tmp_path / field, services=False, **SLAVE) as to:
            with pytest.raises(CorruptMessageError) as caught:
                to.append_raw(0, bytes(bad))
            assert (caught.value.phy_offset, to.max_phy_offset) == (second, second), field
            assert to.append_raw(second, good[second:third]) == third, "the sound one may come"
    with rmqcore.open(
        tmp_path / "slave", services=False, check_crc_on_recover=False, **SLAVE
    ) as to:
        assert to.append_raw(0, bytes(bad)) == len(bad), "as its recovery is told"


def test_a_file_ends_with_a_blank(tmp_path: Path) -> None:
    """A record whose file has no room for a BLANK behind it, and a BLANK of another size, are no log of any store."""
    with rmqcore.open(
        tmp_path / "master",
        services=False,
        **{**SMALL, "mapped_file_size_commit_log": FILE_SIZE + 8},
    ) as source:
        overhead = source.put(Message("t", b"")).msg_size
        source.put(Message("t", bytes(FILE_SIZE - 2 * overhead)))
        data = read_all(source)
        assert len(data) == FILE_SIZE
    with rmqcore.open(tmp_path / "slave", services=False, **SLAVE) as to:
        with pytest.raises(CorruptMessageError, match="BLANK"):
            to.append_raw(0, data)
        at = to.append_raw(0, data[:overhead])
        blank = (FILE_SIZE - at - 1).to_bytes(4, "big") + bytes.fromhex("cbd43194")
        with pytest.raises(CorruptMessageError):
            to.append_raw(at, blank)
        assert to.max_phy_offset == overhead


def test_a_disk_without_room_takes_nothing(
    tmp_path: Path, rng: random.Random, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (
        master(tmp_path / "master", rng) as source,
        rmqcore.open(tmp_path / "slave", services=False, **SLAVE) as to,
    ):
        data = read_all(source)[:FILE_SIZE]
        with monkeypatch.context() as patch:
            patch.setattr(CommitLog, "_make_room", lambda *_: False)
            with pytest.raises(DiskFullError, match="phy_offset 0"):
                to.append_raw(0, data)
        assert to.append_raw(0, data) == FILE_SIZE
        to.fail(OSError(5, "Input/output error"))
        with pytest.raises(StoreFailedError):
            to.append_raw(FILE_SIZE, data)


def test_an_exception_at_any_place(tmp_path: Path, rng: random.Random) -> None:
    """A Ctrl-C anywhere in it: the copy goes on where the log ends then, and both logs are the same."""
    with master(tmp_path / "master", rng, 12) as source:
        with rmqcore.open(tmp_path / "0", services=False, **SLAVE) as to:
            counted = Injector()
            counted.run(copy, source, to, 1500)
        step = counted.events // 25 | 1  # odd: Ctrl-C and time-outs take turns
        for at in range(1 + rng.randrange(step), counted.events, step):
            with rmqcore.open(tmp_path / str(at), services=False, **SLAVE) as to:
                with suppress(Interrupted, TimedOut):
                    Injector(at).run(copy, source, to, 1500)
                assert not to.failed
                copy(source, to, 900)
                same(source, to)


@pytest.mark.large
def test_interrupted_at_any_instruction_where_a_new_log_begins(
    tmp_path: Path, rng: random.Random
) -> None:
    first = 2 * FILE_SIZE
    with master(tmp_path / "master", rng, 12) as source:
        assert source.max_phy_offset > first
        with rmqcore.open(tmp_path / "0", services=False, **SLAVE) as to:
            counted = Injector()
            counted.run(to.append_raw, first, source.read_range(first, 500))
        for at in range(1 + rng.randrange(5), counted.events, 5):
            folder = tmp_path / str(at) / "commitlog"
            folder.mkdir(parents=True)
            (folder / f"{0:020}").write_bytes(bytes(FILE_SIZE))
            with rmqcore.open(tmp_path / str(at), services=False, **SLAVE) as to:
                with suppress(Interrupted, TimedOut):
                    Injector(at).run(to.append_raw, first, source.read_range(first, 500))
                assert not to.failed
                copy(source, to, 900, first)
                assert read_all(to, first) == read_all(source, first)
            assert fsck(tmp_path / str(at)).exit_code == 0
