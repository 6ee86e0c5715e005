"""A master and a slave, without sockets: their logs become equal, whatever the way between them does, or both stop."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import rmqcore
from rmqcore import Message
from rmqcore.engine.store.store import MessageStore
from rmqcore.errors import (
    CorruptMessageError,
    HaProtocolError,
    LogGapError,
    LogsPartedError,
    StoreError,
)
from rmqcore.ha.frames import encode_header, encode_report
from rmqcore.ha.master import Follower, Pace, held_by
from rmqcore.ha.slave import OVERLAP, Slave
from rmqcore.offline.fsck import fsck

FILE_SIZE = 1 << 17
SMALL: dict[str, Any] = {
    "mapped_file_size_commit_log": FILE_SIZE,
    "max_index_num": 1000,
    "max_hash_slot_num": 100,
}
BEAT_S, SILENT_S = 5.0, 20.0


def opened(root: Path, **config: Any) -> MessageStore:
    return rmqcore.open(root, services=False, **{**SMALL, **config})


def slave_of(root: Path, **config: Any) -> MessageStore:
    return opened(root, broker_role="SLAVE", **config)


def fill(store: MessageStore, rng: random.Random, count: int) -> None:
    for number in range(count):
        message = Message(f"T{number % 3}", rng.randbytes(rng.choice([0, 10, 3000])), number % 2)
        store.put(message).raise_for_status()


def grow(store: MessageStore, rng: random.Random, phy_offset: int) -> None:
    """By records of one size, from the begin of a file on, up to an offset that is the same for all stores."""
    while store.max_phy_offset < phy_offset // FILE_SIZE * FILE_SIZE:
        fill(store, rng, 1)
    while store.max_phy_offset < phy_offset:
        store.put(Message("S", rng.randbytes(100))).raise_for_status()


def log_bytes(store: MessageStore, begin: int = 0) -> bytes:
    store.flush()
    found = bytearray()
    while begin + len(found) < store.confirm_offset:
        found += store.read_range(begin + len(found), 1 << 20)
    return bytes(found)


class Way:
    """The connection between two: gives on what it likes, when it likes."""

    def __init__(self, master: MessageStore, slave: MessageStore, rng: random.Random) -> None:
        self.now = 0.0
        self.rng = rng
        self.follower = Follower(master, "192.0.2.7:4711", self.now)
        self.slave = Slave.at_end(slave, None, self.now)
        self._down = bytearray()
        self._up = bytearray(self.slave.first_report())

    def step(self) -> None:
        """Something happens on one side."""
        self.now += self.rng.choice([0.0, 0.001])
        match self.rng.randrange(4):
            case 0:
                if self.follower.lacks:
                    body = self.follower.next_body()
                    self._down += self.follower.frame(body, self.now) + body
            case 1:
                piece = self._some(self._down)
                if piece:
                    self.slave.data_received(memoryview(piece), self.now)
            case 2:
                self._up += self.slave.report(self.now)
            case 3:
                piece = self._some(self._up)
                if piece:
                    self.follower.data_received(piece, self.now)

    def _some(self, waiting: bytearray) -> bytes:
        piece = bytes(waiting[: self.rng.choice([1, 7, 100, 20_000])])
        del waiting[: len(piece)]
        return piece

    def run(self, until: int) -> None:
        for _ in range(200_000):
            if self.follower.ack >= until:
                return
            self.step()
        raise AssertionError(f"acknowledged {self.follower.ack}, expected {until}")


@pytest.fixture
def rng() -> random.Random:
    return random.Random(35)


@pytest.fixture
def master(tmp_path: Path, rng: random.Random) -> Iterator[MessageStore]:
    with opened(tmp_path / "master") as store:
        fill(store, rng, 60)
        yield store


def test_a_new_slave_begins_at_the_last_file_as_in_java(
    master: MessageStore, tmp_path: Path, rng: random.Random
) -> None:
    fill(master, rng, 200)
    begin = master.max_phy_offset // FILE_SIZE * FILE_SIZE
    assert begin > 0
    with slave_of(tmp_path / "slave") as slave:
        Way(master, slave, rng).run(master.max_phy_offset)
        assert slave.min_phy_offset == begin
        assert log_bytes(slave, begin) == log_bytes(master, begin)
    assert fsck(tmp_path / "slave").exit_code == 0


@pytest.mark.parametrize("flush", ["ASYNC_FLUSH", "SYNC_FLUSH"])
def test_cut_off_and_connected_anew(tmp_path: Path, rng: random.Random, flush: str) -> None:
    """At any place; also while the log goes on to other files, and with the slave opened again."""
    with opened(tmp_path / "master", flush_disk_type=flush) as master:
        fill(master, rng, 5)
        for _ in range(30):
            with slave_of(tmp_path / "slave", flush_disk_type=flush) as slave:
                way = Way(master, slave, rng)
                for number in range(rng.randrange(400)):
                    way.step()
                    if number % 20 == 0:
                        fill(master, rng, 1)
                        slave.flush()
                    assert way.follower.ack <= slave.max_phy_offset
        with slave_of(tmp_path / "slave", flush_disk_type=flush) as slave:
            way = Way(master, slave, rng)
            for _ in range(2000):
                way.step()
            slave.flush()
            while slave.max_phy_offset < master.confirm_offset:
                way.step()
            slave.flush()
            way.run(master.confirm_offset)
            assert log_bytes(slave) == log_bytes(master)
            assert way.follower.is_in_sync(master.max_phy_offset)
    assert fsck(tmp_path / "slave").exit_code == 0


def test_what_is_not_on_disk_is_not_reported(master: MessageStore, tmp_path: Path) -> None:
    """Under SYNC_FLUSH. A Java slave's report says no more than that it has the bytes."""
    with slave_of(tmp_path / "slave", flush_disk_type="SYNC_FLUSH") as slave:
        side = Slave.at_end(slave, None, 0.0)
        follower = Follower(master, "192.0.2.7:1", 0.0)
        follower.data_received(side.first_report(), 0.0)
        body = follower.next_body()
        side.data_received(memoryview(follower.frame(body, 0.0) + body), 0.0)
        assert slave.max_phy_offset > 0
        assert side.report(0.1) == b""
        slave.flush()
        assert side.report(0.1) == encode_report(slave.max_phy_offset)


# ---- logs that have parted --------------------------------------------------------------------------


def test_a_slave_that_is_longer(master: MessageStore, tmp_path: Path, rng: random.Random) -> None:
    """A Java master counts its reports as acknowledgements, and later writes behind it."""
    with opened(tmp_path / "old") as old:
        fill(old, rng, 250)
        end = old.max_phy_offset
    assert end > master.max_phy_offset
    with slave_of(tmp_path / "old") as slave, pytest.raises(LogsPartedError) as caught:
        Way(master, slave, rng).run(end)
    assert caught.value.code == "LOGS_PARTED"
    assert "rmqcore diff" in caught.value.hint
    ends = f"the slave's log ends at phy_offset {caught.value.slave_end}, its master's at {master.max_phy_offset}"
    assert ends in str(caught.value)
    assert master.max_phy_offset < caught.value.slave_end <= end


@pytest.mark.parametrize("more", [0, 1, 400])
def test_a_slave_with_other_bytes(
    master: MessageStore, tmp_path: Path, rng: random.Random, more: int
) -> None:
    """It ends where a record of its master's begins: a Java slave goes on there, and has another log for ever."""
    with opened(tmp_path / "old") as old:
        fill(old, rng, 20)
        grow(old, rng, 250_000)
    grow(master, rng, 250_000)
    fill(master, rng, more)
    with slave_of(tmp_path / "old") as slave:
        before = log_bytes(slave)
        way = Way(master, slave, rng)
        with pytest.raises((LogsPartedError, CorruptMessageError)):
            way.run(master.max_phy_offset + 1)
        assert log_bytes(slave) == before


def test_a_slave_that_ends_inside_of_a_record(tmp_path: Path, rng: random.Random) -> None:
    """Of a master that it is not alike: the bytes before its end are the same by chance."""
    with opened(tmp_path / "master") as master, slave_of(tmp_path / "slave") as slave:
        master.put(Message("T", b"longer than the other"))
        record = bytes(master.read_range(0, 1 << 20))
        slave.append_raw(0, record)
        other = Slave(slave, len(record), b"", 0.0)
        with pytest.raises(LogsPartedError, match="the master has no record that starts there"):
            other.data_received(memoryview(encode_header(len(record), 40) + b"\x01" * 40), 0.0)
        assert slave.max_phy_offset == len(record)


def test_a_file_that_the_master_has_deleted(tmp_path: Path, rng: random.Random) -> None:
    with opened(tmp_path / "master") as master:
        fill(master, rng, 300)
        first = master.min_phy_offset
        follower = Follower(master, "192.0.2.7:1", 0.0)
        follower.data_received(encode_report(100), 0.0)
        master.flush()
        assert master.wait_dispatched(60)
        master.clean_once(now_ms=1 << 42, disk_ratio=0.99, pause=lambda _: False)
        assert master.min_phy_offset > first
        with pytest.raises(
            LogGapError, match="the slave's log ends at phy_offset 100, and"
        ) as caught:
            follower.next_body()
        assert caught.value.master_begin == master.min_phy_offset


# ---- what strangers send ----------------------------------------------------------------------------


def test_reports_that_are_none(master: MessageStore) -> None:
    follower = Follower(master, "192.0.2.7:1", 0.0)
    assert not follower.data_received(encode_report(-1), 0.0)  # it waits
    assert not follower.data_received(b"GET", 0.0)
    for lie in (-2, -(1 << 63)):
        with pytest.raises(HaProtocolError, match="report of the HA port: phy_offset is -"):
            Follower(master, "192.0.2.7:1", 0.0).data_received(encode_report(lie), 0.0)
    for lie in (master.max_phy_offset + 1, 1 << 62, (1 << 63) - 1):
        fresh = Follower(master, "192.0.2.7:1", 0.0)
        with pytest.raises(LogsPartedError):
            fresh.data_received(encode_report(lie), 0.0)
        assert (fresh.ack, fresh.lacks) == (-1, False)


@pytest.mark.parametrize("place", [1, -1, 1 << 62, -(1 << 63)])
@pytest.mark.parametrize("body_size", [0, 40])
def test_frames_of_another_place(
    master: MessageStore, tmp_path: Path, place: int, body_size: int
) -> None:
    with slave_of(tmp_path / "slave") as slave:
        side = Slave.at_end(slave, None, 0.0)
        if place != 1 << 62:  # where a file may begin
            with pytest.raises(HaProtocolError, match="expected the start of a file"):
                side.data_received(memoryview(encode_header(place, body_size)), 0.0)
        slave.append_raw(0, master.read_range(0, 8000))
        end = slave.max_phy_offset
        assert end > 0
        side = Slave.at_end(slave, None, 0.0)
        assert side.first_report() == encode_report(1)  # 0 is a slave that has nothing
        with pytest.raises(HaProtocolError, match=r"expected 1$"):
            side.data_received(memoryview(encode_header(place ^ 3, body_size)), 0.0)
        assert slave.max_phy_offset == end


def test_bytes_that_are_no_records(master: MessageStore, tmp_path: Path) -> None:
    """They are not appended, and not reported."""
    with slave_of(tmp_path / "slave") as slave:
        side = Slave.at_end(slave, None, 0.0)
        with pytest.raises(StoreError):
            side.data_received(memoryview(encode_header(0, 400) + b"\x01" * 400), 0.0)
        assert (slave.max_phy_offset, side.report(0.1)) == (0, b"")


# ---- time, and how many have it ---------------------------------------------------------------------


def test_heartbeats_and_silence(master: MessageStore, tmp_path: Path) -> None:
    follower = Follower(master, "192.0.2.7:1", 0.0)
    assert follower.heartbeat(BEAT_S + 1) == b""  # nothing before the first report
    follower.data_received(encode_report(100), 6.0)
    assert follower.heartbeat(BEAT_S + 1) == encode_header(100, 0)
    assert follower.heartbeat(BEAT_S + 2) == b""
    assert not follower.is_silent(6.0 + SILENT_S)
    assert follower.is_silent(6.1 + SILENT_S)
    with slave_of(tmp_path / "slave") as slave:
        side = Slave.at_end(slave, None, 0.0)
        assert side.report(BEAT_S) == b""
        assert side.report(BEAT_S + 0.1) == encode_report(0)
        assert not side.is_silent(SILENT_S)
        assert side.is_silent(SILENT_S + 0.1)


def test_how_far_enough_replicas_are(master: MessageStore) -> None:
    def follower(peer: str, ack: int) -> Follower:
        made = Follower(master, peer, 0.0)
        made.ack = ack
        return made

    two = [follower("192.0.2.7:1", 700), follower("192.0.2.8:1", 300)]
    assert [held_by(two, replicas) for replicas in (2, 3, 4)] == [700, 300, -1]
    twice = [follower("192.0.2.7:1", 700), follower("192.0.2.7:2", 900)]
    assert [held_by(twice, replicas) for replicas in (2, 3)] == [900, -1]
    here = [follower("127.0.0.1:1", 700), follower("127.0.0.1:2", 900)]
    assert [held_by(here, replicas) for replicas in (2, 3)] == [900, 700]
    assert held_by([], 2) == -1
    with pytest.raises(ValueError, match="expected at least 2"):
        held_by(two, 1)


def test_bodies_count_for_the_pace() -> None:
    pace = Pace(1000, 0.0)
    assert pace.wait(0.0) == 0
    pace.sent(3000)
    assert pace.wait(0.0) == pytest.approx(2.001)
    assert pace.wait(1.0) == pytest.approx(1.001)
    assert pace.wait(2.1) == 0
    assert Pace(None, 0.0).wait(0.0) == 0


def test_the_overlap_is_small_enough_to_be_read_at_each_connect() -> None:
    assert OVERLAP <= 1 << 16
