"""The end of a newest file is found by a few reads, and found once as long as nothing is appended.

Each `load` read 35 to 505 MiB of a newest file of 1 GiB, one store after the other, and the next `load` read as much again.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from support.stores.live_log import LiveLog
from support.stores.read_bytes import counted_reads
from support.stores.sparse_store import sparse_store

from rmqcore.offline.info import log_end
from rmqcore.spark.reading import store_end
from rmqcore.spark.reading.store_end import find_end, pin_stores
from rmqcore.spark.splits.sizing import MIB
from rmqcore.spark.storage.locations import find_stores
from rmqcore.spark.storage.store_pin import StorePin

LONG_AGO = 1_700_000_000
STORES = 12
NOTHING_NEW = 4096


@pytest.fixture
def searches(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The files whose end is searched for, by their CommitLog offsets."""
    found: list[int] = []

    def noted(*given: Any) -> Any:
        found.append(given[0].file_from_offset)
        return find_end(*given)

    monkeypatch.setattr(store_end, "find_end", noted)
    return found


def settle(root: Path) -> None:
    """Set the times of the log's files back, as those of a mapping that is dirty stay: no write shows in them."""
    for path in (root / "commitlog").iterdir():
        os.utime(path, (LONG_AGO, LONG_AGO))


def pin_of(root: Path) -> StorePin:
    (store,) = pin_stores(find_stores(str(root)))
    assert store.pin is not None
    return store.pin


def live_log(root: Path, count: int = 30) -> LiveLog:
    log = LiveLog(root, file_size=65536)
    for _ in range(count):
        log.append()
    settle(root)
    return log


@pytest.mark.parametrize(("body_size", "a_store"), [(2000, 6 * MIB), (1 << 20, 24 * MIB)])
def test_a_load_reads_a_bounded_part_of_each_store(
    body_size: int, a_store: int, tmp_path: Path
) -> None:
    """What may hold the largest record before one boundary, or two, and the way from there to the end."""
    root = sparse_store(tmp_path / "b-0", 40 * MIB, 1024 * MIB, body_size=body_size)
    (first,) = (root / "commitlog").iterdir()
    for number in range(1, STORES):
        folder = tmp_path / f"b-{number}" / "commitlog"
        folder.mkdir(parents=True)
        os.link(first, folder / first.name)
    os.utime(first, (LONG_AGO, LONG_AGO))
    stores = find_stores(str(tmp_path / "*"))
    with counted_reads() as work:
        pinned = pin_stores(stores)
    (end,) = {store.pin and store.pin.log_end for store in pinned}
    assert end == log_end(stores[0].log_files()) > 40 * MIB
    assert 0 < work.read_bytes < STORES * a_store
    with counted_reads() as work:
        assert pin_stores(find_stores(str(tmp_path / "*"))) == pinned
    assert work.read_bytes < STORES * NOTHING_NEW


def test_the_end_of_a_store_at_rest_is_searched_once(tmp_path: Path, searches: list[int]) -> None:
    live_log(tmp_path)
    pins = [pin_of(tmp_path) for _ in range(3)]
    assert searches == [0]
    assert pins[0] == pins[1] == pins[2]


def test_a_load_sees_records_that_came_without_another_time(
    tmp_path: Path, searches: list[int]
) -> None:
    """The kernel notes a write through a mapping with the first one to a clean page only."""
    log = live_log(tmp_path)
    for number in range(1, 5):
        assert pin_of(tmp_path).log_end == log.end
        assert pin_of(tmp_path).log_end == log.end
        assert len(searches) == number
        log.append()
        settle(tmp_path)


@pytest.mark.parametrize("torn", [4, 8, 30, 200])
def test_the_end_before_a_record_that_is_being_written_is_not_kept(
    torn: int, tmp_path: Path, searches: list[int]
) -> None:
    log = live_log(tmp_path)
    raw = log.record(body=b"x" * 500)
    log.write(log.end, raw[:torn])
    settle(tmp_path)
    assert pin_of(tmp_path).log_end == pin_of(tmp_path).log_end == log.end
    log.write(log.end, raw)
    log.finish(raw)
    settle(tmp_path)
    assert pin_of(tmp_path).log_end == log.end
    assert len(searches) == 3


def test_a_record_that_comes_while_the_end_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the search and the look at the bytes behind the end: they would be taken for the free place of the next load."""
    log = live_log(tmp_path)
    before = log.end

    def slow(*given: Any) -> Any:
        found = find_end(*given)
        log.append()
        settle(tmp_path)
        return found

    monkeypatch.setattr(store_end, "find_end", slow)
    assert pin_of(tmp_path).log_end == before
    monkeypatch.undo()
    assert pin_of(tmp_path).log_end == log.end > before


def test_a_log_that_was_cut_or_replaced_is_searched_again(
    tmp_path: Path, searches: list[int]
) -> None:
    log = live_log(tmp_path)
    ends = [pin_of(tmp_path).log_end]
    last = log.end - len(log.record())
    log.write(last, bytes(log.end - last))
    settle(tmp_path)
    ends.append(pin_of(tmp_path).log_end)
    path = next((tmp_path / "commitlog").iterdir())
    other = path.with_name("copy")
    other.write_bytes(path.read_bytes())
    other.replace(path)
    settle(tmp_path)
    ends.append(pin_of(tmp_path).log_end)
    assert ends[0] > ends[1] == ends[2]
    assert len(searches) == 3


def test_a_file_that_was_just_written_is_searched_again(
    tmp_path: Path, searches: list[int]
) -> None:
    """Two writes within one tick of the clock have the same time."""
    log = live_log(tmp_path)
    log.append()
    assert pin_of(tmp_path) == pin_of(tmp_path)
    assert len(searches) == 2


def test_a_log_that_went_on_in_the_next_file(tmp_path: Path, searches: list[int]) -> None:
    log = live_log(tmp_path)
    pin_of(tmp_path)
    while log.end < 65536 + 5000:
        log.append()
    settle(tmp_path)
    assert pin_of(tmp_path).log_end == pin_of(tmp_path).log_end == log.end
    assert searches == [0, 65536]
