"""The tail of a growing log as columns: every message once, whatever happens to the log meanwhile."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.stores.live_log import LiveLog

from rmqcore._native.scan.scan import ColumnScan
from rmqcore.offline.reader import StoreReader
from rmqcore.offline.tail import BatchTail


@pytest.fixture
def log(tmp_path: Path) -> LiveLog:
    return LiveLog(tmp_path / "store", file_size=2048)


def tail_of(log: LiveLog, rows: int = 1 << 16) -> BatchTail:
    return BatchTail(StoreReader(log.root), ColumnScan(["phy_offset"], batch_rows=rows))


def polled(tail: BatchTail, polls: int = 1) -> list[int]:
    found: list[int] = []
    for _ in range(polls):
        for batch, first in tail.poll():
            found += np.frombuffer(batch.buffer("phy_offset"), np.int64)[first:].tolist()
    return found


@pytest.mark.parametrize("rows", [1, 3, 1 << 16])
def test_every_message_once_from_the_end_on(log: LiveLog, rows: int) -> None:
    for _ in range(20):
        log.append()
    tail = tail_of(log, rows)
    assert polled(tail) == []
    placed = [log.append() for _ in range(60)]
    assert polled(tail) == placed
    assert polled(tail, 3) == []
    assert (tail.damage, tail.restarts, tail.next_phy_offset) == ([], 0, log.end)


def test_an_empty_log_that_begins(tmp_path: Path) -> None:
    log = LiveLog(tmp_path / "store")
    tail = tail_of(log)
    assert polled(tail) == []
    placed = [log.append() for _ in range(3)]
    assert polled(tail, 2) == placed


@given(cut=st.integers(1, 200), polls=st.integers(1, 3))
def test_a_record_that_is_written_piece_by_piece(
    tmp_path_factory: pytest.TempPathFactory, cut: int, polls: int
) -> None:
    """It is counted once, also where it looked whole before its last bytes came; and it is no damage."""
    log = LiveLog(tmp_path_factory.mktemp("store"), file_size=2048)
    log.append()
    tail = tail_of(log)
    whole = log.append()
    raw = log.record(keys="k1")
    log.write(log.end, raw[: min(cut, len(raw) - 1)])
    found = polled(tail, polls)
    log.write(log.end, raw)
    last = log.finish(raw)
    more = log.append()
    found += polled(tail, 40)
    assert found == [whole, last, more]
    assert tail.damage == []


def test_damage_is_noted_once(log: LiveLog) -> None:
    log.append()
    tail = tail_of(log)
    bad = log.append(body=b"y" * 100)
    log.write(bad + 100, b"Z")
    good = log.append()
    assert polled(tail, 3) == [bad, good]  # its body fails its CRC: as for LogTail
    assert [(found.start_phy_offset, found.kind) for found in tail.damage] == [(bad, "crc")]


def test_files_that_are_deleted_before_they_were_read(log: LiveLog) -> None:
    log.append()
    tail = tail_of(log)
    placed = [log.append() for _ in range(60)]
    for start in (0, 2048):
        log.path(start).unlink()
    assert polled(tail) == [at for at in placed if at >= 4096]
    assert [found.kind for found in tail.damage] == ["missing_file"]


@pytest.mark.parametrize("count", [1, 3, 60])
def test_a_store_that_is_made_anew(log: LiveLog, count: int) -> None:
    """Its log is shorter, or longer, and a place in the old one means nothing: it is followed from its end on."""
    for _ in range(30):
        log.append()
    tail = tail_of(log)
    keep = log.root.with_name("old")
    log.root.rename(keep)  # so that no inode is used again
    again = LiveLog(log.root, file_size=2048)
    for _ in range(count):
        again.append()
    polled(tail, 2)
    placed = [again.append() for _ in range(3)]
    found = polled(tail, 2)
    assert found[-3:] == placed
    assert len(found) <= count + 3
    shutil.rmtree(keep)
