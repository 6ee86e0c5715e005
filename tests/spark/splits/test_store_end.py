"""Pins: where a store ended is found as a walk over the whole newest file finds it, and a pinned store is read as it was.

A batch once planned its files and read on to where the store ended at that moment: two counts over one RDD gave 4,200 and 8,065
rows, and a self-join left 1,800 rows without a partner.
"""

from __future__ import annotations

import shutil
import tempfile
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.remote.remote_double import remote_file
from support.spark.spark_tables import read_table, rows_of, table_of
from support.stores.bad_sectors import BadSectors
from support.stores.live_log import LiveLog
from support.stores.split_logs import (
    FILE_SIZE,
    MAX_RECORD,
    Bodies,
    SplitLog,
    split_log,
    stale,
    stale_under_blank,
    write_store,
)
from support.stores.split_runs import Read, assert_same, read_splits, read_whole
from support.stores.store_damage import Change, changes
from support.stores.store_maker import MadeStore, make_store, sample_records

import rmqcore
from rmqcore.errors import DataLossError, SplitError
from rmqcore.offline.info import log_end
from rmqcore.offline.log.log_files import LogShape
from rmqcore.spark.reading import store_end
from rmqcore.spark.reading.store_end import find_end, pin_stores
from rmqcore.spark.splits.planning import plan_store
from rmqcore.spark.splits.sizing import Sizing
from rmqcore.spark.storage.locations import find_stores
from rmqcore.spark.storage.store_location import StoreLocation
from rmqcore.spark.storage.store_pin import StorePin, parse_pins, pins_text
from rmqcore.vocabulary.units import PAGE

SIZING = Sizing(max_record_size=MAX_RECORD)
WALK = replace(SIZING, split_mode="walk")


@pytest.fixture(autouse=True)
def asks_small_files_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_end, "NEAR", 3 * MAX_RECORD)


def pinned(root: Path, sizing: Sizing = SIZING) -> StoreLocation:
    (store,) = pin_stores(find_stores(str(root)), sizing)
    return store


def pin_of(root: Path, sizing: Sizing = SIZING) -> StorePin:
    pin = pinned(root, sizing).pin
    assert pin is not None
    return pin


def read_pinned(store: StoreLocation, sizing: Sizing = SIZING) -> Read:
    return read_splits(plan_store(store, sizing))


# ---- the end is where a walk over the whole file ends -------------------------------------------------


def tail_of(kind: str, seed: int) -> SplitLog:
    """The newest file: full, growing, over an earlier life of the file, or with that life under its BLANK."""
    rng = Random(seed)
    kinds = ("plain", Bodies.KINDS[seed % len(Bodies.KINDS)])
    if kind == "full":
        return split_log(kinds, seed)
    if kind == "stale":
        return stale(kinds, seed, rng.randrange(FILE_SIZE - 2 * MAX_RECORD))
    if kind == "blank":
        return stale_under_blank(kinds, seed, FILE_SIZE - rng.randrange(2, 15) * MAX_RECORD)
    log = split_log(kinds, seed)
    del log.data[rng.choice(log.starts) + rng.randrange(100) :]
    log.data += bytes(FILE_SIZE - len(log.data))
    return log


@pytest.mark.parametrize("kind", ["full", "growing", "stale", "blank"])
@pytest.mark.parametrize("seed", range(14))
def test_the_end_of_one_file(kind: str, seed: int, tmp_path: Path) -> None:
    root = write_store(tmp_path, [tail_of(kind, seed)])
    whole = read_whole(root)
    for sizing in (SIZING, WALK):
        pin = pin_of(root, sizing)
        assert pin == pin_of(root, WALK)
        assert pin.log_end == log_end(find_stores(str(root))[0].log_files())
        assert_same(read_pinned(pinned(root, sizing)), whole)


@pytest.mark.parametrize("seed", range(30))
def test_damage_near_the_end(seed: int, tmp_path: Path) -> None:
    """Rows behind damage in the newest file are given, and the torn tail is told as it is of a store at rest."""
    rng = Random(seed)
    log = tail_of(rng.choice(["full", "growing", "stale"]), seed)
    for _ in range(rng.randrange(1, 9)):
        at = rng.choice(log.starts[-60:]) + rng.randrange(120)
        size = rng.choice([1, 30, 9000])
        log.data[at : at + size] = rng.choice([b"\0", b"\xff", b"x"]) * size
    del log.data[FILE_SIZE:]
    log.data += bytes(FILE_SIZE - len(log.data))
    root = write_store(tmp_path, [log])
    assert pin_of(root) == pin_of(root, WALK)
    assert_same(read_pinned(pinned(root)), read_whole(root))


LARGEST = 1024
STORES = [
    make_store(sample_records(900), log_file_size=1 << 16),
    make_store(sample_records(300), log_file_size=1 << 15, append_prop_crc=True, clean_exit=False),
]


@given(
    number=st.integers(0, len(STORES) - 1),
    damage=st.lists(changes, max_size=4),
    parts=st.sampled_from([1, 7, 50]),
    walk=st.booleans(),
)
def test_any_damage(number: int, damage: list[Change], parts: int, walk: bool) -> None:
    files = {name: data for name, data in STORES[number].files.items() if "commitlog" in name}
    for change in damage:
        change.apply(files)
    with (
        tempfile.TemporaryDirectory(prefix="rmqcore-") as folder,
        pytest.MonkeyPatch.context() as patch,
    ):
        root = Path(folder)
        patch.setattr(store_end, "NEAR", 3 * LARGEST)
        (root / "commitlog").mkdir()
        MadeStore(files).write(root)
        whole = read_whole(root)
        sizing = Sizing(
            max_partition_bytes=70_000 // parts,
            split_mode="walk" if walk else "auto",
            max_record_size=LARGEST,
        )
        read = None
        with suppress(
            SplitError
        ):  # a damaged length happens to lead to another record: no answer, as without a pin
            read = read_splits(plan_store(pinned(root, sizing), sizing))
        if read is None or pin_of(root, sizing) != pin_of(root, WALK):
            # Likewise, near the log's end: the read says so.
            assert whole.damage and not walk
            assert read is None or any(one.kind == "missing_file" for one in read.damage)
        else:
            assert_same(read, whole)


@pytest.mark.parametrize("seed", range(4))
def test_bad_sectors(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = write_store(tmp_path, [tail_of("growing", seed)])
    end = pin_of(root).log_end
    around = [end // PAGE + step for step in (-3, -1, 0, 1, 4)]
    BadSectors({PAGE * n for n in around[seed:] if 0 <= n}).of(monkeypatch, file_from_offset=0)
    whole = read_whole(root)
    found = read_pinned(pinned(root))
    assert found.rows == whole.rows
    assert set(found.damage) == set(whole.damage)


def test_little_is_read_of_a_large_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """A walk over the newest file brings a gigabyte from a remote filesystem before a job starts."""
    monkeypatch.setattr(store_end, "NEAR", 64 * 1024)
    log = tail_of("growing", 3)
    disk, file = remote_file(bytes(log.data))
    shape = LogShape.of([file])
    sizing = Sizing(max_record_size=MAX_RECORD)
    for_all = find_end(file, shape, replace(sizing, split_mode="walk")).end
    assert for_all.end_phy_offset > FILE_SIZE // 4
    disk.ranges.clear()
    assert find_end(file, shape, sizing).end == for_all
    log_end_at = for_all.end_phy_offset
    before_end = sum(
        min(end, log_end_at) - start for _, start, end in disk.ranges if start < log_end_at
    )
    assert 0 < before_end < log_end_at // 2


# ---- a store that changes -----------------------------------------------------------------------------


@pytest.mark.parametrize("torn", [0, 9, 60])
@pytest.mark.parametrize("rolls", [False, True])
def test_a_store_that_grows_is_read_as_it_was(torn: int, rolls: bool, tmp_path: Path) -> None:
    log = LiveLog(tmp_path, file_size=4096)
    for _ in range(55):
        log.append()
    log.allocate(log.end + 4096)
    raw = log.record()
    log.write(log.end, raw[:torn])
    whole, store = read_whole(tmp_path), pinned(tmp_path)
    assert (torn > 0) == any(one.kind == "torn_tail" for one in whole.damage)
    assert_same(read_pinned(store), whole)
    plan = plan_store(store, SIZING)
    log.write(log.end, raw)
    log.finish(raw)
    for _ in range(100 if rolls else 3):
        log.append()
    assert_same(read_splits(plan), whole)
    assert_same(read_pinned(store), whole)
    assert [file.size for file in store.log_files()] == [4096] * len(store.log_files())
    assert len(read_whole(tmp_path).rows) > len(whole.rows)


def test_a_log_that_goes_on_in_the_next_file_while_its_end_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is read has no hole: the next file's end was found after the log had gone on there, and this one's before."""
    log = LiveLog(tmp_path, file_size=4096)
    for _ in range(20):
        log.append()
    log.allocate(log.end + 4096)

    def found_slowly(*given: Any) -> Any:
        found = find_end(*given)
        for _ in range(40):
            log.append()
        return found

    monkeypatch.setattr(store_end, "find_end", found_slowly)
    store = pinned(tmp_path)
    assert log.count == 100
    places = [row[0] for row in read_whole(tmp_path).rows]
    read = read_pinned(store)
    assert len(read.rows) >= 20
    assert [row[0] for row in read.rows] == places[: len(read.rows)]
    assert read.damage == []


def test_a_record_whose_topic_is_on_its_way_belongs_to_the_pin(tmp_path: Path) -> None:
    """No CRC covers the topic, so a reader of the store takes the record already; later it is whole."""
    log = LiveLog(tmp_path, file_size=4096)
    log.append()
    raw = log.record()
    log.write(log.end, raw[:-3])
    whole, store = read_whole(tmp_path), pinned(tmp_path)
    assert len(whole.rows) == 2
    log.write(log.end, raw)
    log.finish(raw)
    log.append()
    assert_same(read_pinned(store), whole)


def test_a_file_that_is_appended_to_without_room_ahead(tmp_path: Path) -> None:
    """A copy that runs, or a filesystem without preallocation: the file itself grows."""
    log = split_log(("plain",), 1)
    cut = log.starts[200] + 33
    path = tmp_path / "commitlog" / f"{0:020}"
    path.parent.mkdir()
    path.write_bytes(log.data[:cut])
    whole, store = read_whole(tmp_path), pinned(tmp_path)
    assert [one.kind for one in whole.damage] == ["torn_tail"]
    path.write_bytes(log.data)
    assert_same(read_pinned(store), whole)


def test_an_empty_store_stays_empty(tmp_path: Path) -> None:
    (tmp_path / "commitlog").mkdir()
    store = pinned(tmp_path)
    LiveLog(tmp_path).append()
    assert plan_store(store).splits == []
    assert plan_store(store).gaps == []
    assert store.log_files() == []


def test_a_log_that_was_cut_is_told(tmp_path: Path) -> None:
    log = LiveLog(tmp_path, file_size=65536)
    places = [log.append() for _ in range(50)]
    store = pinned(tmp_path)
    log.write(places[40], bytes(log.end - places[40]))
    read = read_pinned(store)
    assert [row[0] for row in read.rows] == places[:40]
    assert [(one.kind, one.start_phy_offset, one.end_phy_offset) for one in read.damage] == [
        ("missing_file", places[40], log.end)
    ]


def test_a_log_that_was_written_anew_is_told(tmp_path: Path) -> None:
    """The end lies in the middle of a record now."""
    log = LiveLog(tmp_path, file_size=65536)
    places = [log.append() for _ in range(50)]
    store, end = pinned(tmp_path), log.end
    log.end = places[40]
    log.append(body=b"x" * 3000)
    assert log.end > end
    kinds = {one.kind for one in read_pinned(store).damage}
    assert kinds == {"missing_file"}


@pytest.mark.parametrize("which", ["first", "middle", "last", "all"])
def test_files_that_were_deleted_since(which: str, tmp_path: Path) -> None:
    log = LiveLog(tmp_path, file_size=4096)
    while log.end < 5 * 4096 + 1000:
        log.append()
    store = pinned(tmp_path)
    files = store.log_files()
    at = {"first": slice(0, 2), "middle": slice(2, 4), "last": slice(4, 6), "all": slice(0, 6)}
    for file in files[at[which]]:
        (tmp_path / "commitlog" / file.path.name).unlink()
    lost = files[at[which]]
    plan = plan_store(store)
    end = min(lost[-1].end_offset, log.end)
    assert [(gap.kind, gap.start_phy_offset, gap.end_phy_offset) for gap in plan.gaps] == [
        ("missing_file", lost[0].file_from_offset, end)
    ]


@pytest.mark.parametrize("seed", range(8))
def test_limits_of_offsets(seed: int, tmp_path: Path) -> None:
    """What lies behind the end of the log is told as by a reader with these limits."""
    rng = Random(seed)
    log = tail_of("growing", seed)
    root = write_store(tmp_path, [log])
    places = [*sorted(rng.sample(range(len(log.data) // 2), 2)), FILE_SIZE - 1]
    for low, high in (
        (places[0], places[1]),
        (places[1], None),
        (places[2], None),
        (None, places[0]),
    ):
        options = {"startingPhyOffset": low, "endingPhyOffset": high, "maxRecordSize": MAX_RECORD}
        read = rmqcore.read(root)
        rows = [
            view.phy_offset for view in read.messages(start_phy_offset=low, end_phy_offset=high)
        ]
        table = table_of(root, columns=["phy_offset"], **options)
        assert [row["phy_offset"] for row in rows_of(table)] == rows
        found = rows_of(table_of(root, table="corrupt", **options))
        assert [row["start_phy_offset"] for row in found] == [
            one.start_phy_offset for one in read.damage if one.end_phy_offset > (low or 0)
        ]


# ---- pins as an option --------------------------------------------------------------------------------


def test_pins_are_texts(tmp_path: Path) -> None:
    pins = {
        f"broker-{n}": pin_of(write_store(tmp_path / str(n), [tail_of("growing", n)]))
        for n in range(3)
    }
    assert any(end.rest for pin in pins.values() for end in pin.ends)
    assert dict(parse_pins(pins_text(pins))) == pins
    assert len(pins_text(pins)) < 3 * 1000
    for wrong in ("", "[]", "1", '{"a": {}}', '{"a": {"ends": [1]}}'):
        with pytest.raises(ValueError, match="optimize writes them"):
            parse_pins(wrong)


def test_a_table_reads_by_the_pins_of_another(tmp_path: Path) -> None:
    """New stores, files and records stay out; a store that is gone is an error."""
    log = LiveLog(tmp_path / "a", file_size=4096)
    for _ in range(70):
        log.append()
    every = str(tmp_path / "*")
    pins = pins_text(dict(table_of(every).pin()))
    files = len(read_table(every, table="segments"))
    for _ in range(70):
        log.append()
    LiveLog(tmp_path / "b").append()
    tables = ("messages", "corrupt", "segments")
    after = {name: len(read_table(every, table=name, pins=pins)) for name in tables}
    assert after == {"messages": 70, "corrupt": 0, "segments": files}
    shutil.rmtree(tmp_path / "a")
    with pytest.raises(DataLossError, match="its store was deleted"):
        table_of(every, pins=pins)
    with pytest.warns(UserWarning, match="its store was deleted"):
        assert table_of(every, pins=pins, failOnDataLoss=False).parts() == []


def test_a_file_deleted_between_load_and_plan_fails_the_query(tmp_path: Path) -> None:
    log = LiveLog(tmp_path, file_size=4096)
    while log.end < 20_000:
        log.append()
    pins = pins_text(dict(table_of(tmp_path).pin()))
    (tmp_path / "commitlog" / f"{0:020}").unlink()
    with pytest.raises(DataLossError, match="deleted"):
        table_of(tmp_path, pins=pins).parts()
    assert table_of(tmp_path, pins=pins, startingPhyOffset=4096).parts()
    with pytest.warns(UserWarning, match="no rows of CommitLog offsets 0 to 4096"):
        table_of(tmp_path, pins=pins, failOnDataLoss=False).parts()


def test_queues_end_where_the_log_did(tmp_path: Path) -> None:
    with rmqcore.open(tmp_path) as store:
        for _ in range(20):
            store.put(rmqcore.Message("TopicA", b"x"))
    names = ("queues", "consumequeue")
    before = {name: read_table(tmp_path, table=name) for name in names}
    pins = pins_text(dict(table_of(tmp_path).pin()))
    with rmqcore.open(tmp_path) as store:
        for _ in range(20):
            store.put(rmqcore.Message("TopicA", b"x"))
    assert {name: read_table(tmp_path, table=name, pins=pins) for name in names} == before
    assert len(read_table(tmp_path, table="consumequeue")) == 40
