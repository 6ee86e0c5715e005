"""An index in RocksDB finds what the messages of the log have as keys, and the database is only looked at."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.remote.memory_stores import memory_stores
from support.stores.rocksdb_halves import HALVES, flipped_table, no_table
from support.stores.rocksdb_index import TOPICS, IndexRows, index_in_rocksdb, make_store
from support.stores.rocksdb_queues import java_store

import rmqcore
from rmqcore import DamageWarning, StoreReader
from rmqcore.errors import RocksdbError, RocksdbMissingError
from rmqcore.spark.jobs.find_by_index import FindPlacesTask, find_places
from rmqcore.spark.options.source_options import SourceOptions
from rmqcore.spark.storage.locations import find_stores


@pytest.fixture
def files(tmp_path: Path) -> Path:
    return make_store(tmp_path / "files")


@pytest.fixture
def root(files: Path, tmp_path: Path) -> Path:
    """The same store with its index in RocksDB alone."""
    root = Path(shutil.copytree(files, tmp_path / "rocksdb"))
    shutil.rmtree(root / "index")
    index_in_rocksdb(root)
    return root


def listing(root: Path) -> list[tuple[str, int, int]]:
    found = (path for path in root.rglob("*") if path.is_file())
    return sorted((str(one), one.stat().st_size, one.stat().st_mtime_ns) for one in found)


def wanted(reader: StoreReader, topic: str, key: str, index_type: str | None) -> list[int]:
    """Offsets by the log: of messages with a UNIQ_KEY, which alone have entries."""
    found = []
    for view in reader.messages(topics=[topic]):
        of_type = {"K": key in view.keys, "U": view.uniq_key == key, "T": view.tags == key}
        fits = of_type[index_type] if index_type else of_type["K"] or of_type["U"]
        if view.uniq_key and fits:
            found.append(view.phy_offset)
    return found


def offsets(answer: list[Any]) -> list[int]:
    return [view.phy_offset for view in answer]


QUESTIONS = (
    ("k0", None),
    ("k3", "K"),
    ("a@K@1", None),
    ("a", "K"),
    ("a@K", None),
    ("K", "K"),
    ("U", "K"),
    ("Tag@B", "T"),
    ("Tag", "T"),
    ("U003", "U"),
    ("U004", None),
    ("U00", "U"),
)


# ---- the same answers -------------------------------------------------------------------------------


@pytest.mark.parametrize("flush", [True, False])
def test_a_query_answers_what_the_log_says(files: Path, flush: bool) -> None:
    shutil.rmtree(files / "index")
    index_in_rocksdb(files, flush=flush)
    before = listing(files)
    reader = rmqcore.read(files)
    found = 0
    for topic in TOPICS:
        for key, index_type in QUESTIONS:
            want = wanted(reader, topic, key, index_type)
            answer = reader.query(topic, key, 64, index_type=index_type)
            assert offsets(answer) == want, (topic, key, index_type)
            assert answer.unasked_files == []
            assert bool(want) == bool(answer.index_last_update_phy_offset)
            assert offsets(reader.query(topic, key, 2, index_type=index_type)) == want[-2:]
            found += len(want)
    assert found > 90
    assert reader.query("Orders", "k0", 0) == []
    assert listing(files) == before, "nothing is written, no lock is made"


def test_times_are_those_of_the_records(root: Path) -> None:
    reader = rmqcore.read(root)
    views = [
        view for view in reader.messages(topics=["Orders"]) if view.tags == "TagA" and view.uniq_key
    ]
    for begin, end in ((3, 9), (0, 0), (5, len(views) - 1), (8, 7)):
        first, last = views[begin].store_timestamp_ms, views[end].store_timestamp_ms
        within = [v.phy_offset for v in views if first <= v.store_timestamp_ms <= last]
        assert offsets(reader.query("Orders", "TagA", 64, first, last, index_type="T")) == within
        assert (
            offsets(reader.query("Orders", "TagA", 2, first, last, index_type="T")) == within[-2:]
        )
        if begin < end:
            inside = reader.query("Orders", "TagA", 64, first + 1, last - 1, index_type="T")
            assert offsets(inside) == within[1:-1]


def test_files_and_database_are_both_asked(files: Path) -> None:
    """The database has what follows the first file; a message that is in both is in the answer once."""
    want = {key: offsets(rmqcore.read(files).query("Orders", key, 64)) for key in ("k0", "k3")}
    index_in_rocksdb(files, first=40)
    for key, before in want.items():
        assert offsets(rmqcore.read(files).query("Orders", key, 64)) == before
        assert offsets(rmqcore.read(files).query("Orders", key, 2)) == before[-2:]
    for path in sorted((files / "index").iterdir())[1:]:
        path.unlink()
    reader = rmqcore.read(files)
    found = reader.query("Orders", "k0", 64)
    without = [view.phy_offset for view in reader.messages() if not view.uniq_key]
    assert set(want["k0"]) - set(offsets(found)) <= set(without)
    assert found.unasked_files == []


@pytest.mark.parametrize("most", [100_000, 10])
def test_an_index_that_was_switched_on_late_is_not_complete(
    files: Path, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of an hour with many entries the start of the hour is known, not the first offset."""
    monkeypatch.setattr("rmqcore.offline.rocksdb.index_database.MOST_OF_HOUR", most)
    shutil.rmtree(files / "index")
    whole = shutil.copytree(files, files.with_name("whole"))
    index_in_rocksdb(files, first=100)
    reader = rmqcore.read(files)
    with pytest.warns(DamageWarning, match="no file has the keys of the message at"):
        assert reader.query("Orders", "k3", 64).unasked_files
    assert reader.query("Orders", "no-such-key", 64).unasked_files == []
    index_in_rocksdb(whole)
    assert rmqcore.read(whole).query("Orders", "k3", 64).unasked_files == []


def test_a_time_in_the_database_is_not_believed(root: Path) -> None:
    view = next(view for view in rmqcore.read(root).messages() if view.uniq_key)
    later = view.store_timestamp_ms + 60_000
    rows = IndexRows(root / "rocksdbstore")
    rows.put(f"@{view.topic}@U@{view.uniq_key}@", later, view.phy_offset)
    rows.close()
    reader, uniq = rmqcore.read(root), str(view.uniq_key)
    assert offsets(reader.query(view.topic, uniq)) == [view.phy_offset]
    assert reader.query(view.topic, uniq, 9, later, later) == []


def test_an_index_that_ends_before_the_log_is_not_complete(files: Path) -> None:
    shutil.rmtree(files / "index")
    index_in_rocksdb(files, count=60)
    with pytest.warns(DamageWarning, match="no file has the keys of the message at"):
        assert rmqcore.read(files).query("Orders", "k3", 64).unasked_files
    (files / "abort").touch()  # a broker that writes may not have come so far
    assert rmqcore.read(files).query("Orders", "k3", 64).unasked_files == []


def test_another_log_is_reported(root: Path) -> None:
    for path in sorted((root / "commitlog").iterdir())[1:]:
        os.truncate(path, 0)
    with pytest.warns(DamageWarning):
        answer = rmqcore.read(root).query("Orders", "k0", 64)
    assert answer.missing_phy_offsets
    assert "rocksdbstore: its newest message is at" in answer.unasked_files[0]


def test_the_index_knows_that_the_log_is_missing(root: Path) -> None:
    """Without queues and checkpoint, a read of an empty log said that the store has no message."""
    shutil.rmtree(root / "consumequeue")
    (root / "checkpoint").unlink()
    for path in (root / "commitlog").iterdir():
        path.unlink()
    reader = rmqcore.read(root)
    assert list(reader.messages()) == []
    (missing,) = reader.damage
    assert (missing.kind, missing.end_phy_offset > 16_000) == ("log_missing", True)
    assert "rocksdbstore" in str(missing.found) + str(missing.expected) + missing.path


def test_messages_that_have_expired(root: Path) -> None:
    min((root / "commitlog").iterdir()).unlink()
    reader = rmqcore.read(root)
    answer = reader.query("Orders", "k0", 64)
    assert offsets(answer) == wanted(reader, "Orders", "k0", None)
    assert answer.unasked_files == []
    assert min(answer.missing_phy_offsets) < reader.log_files()[0].file_from_offset
    assert rmqcore.fsck(root).exit_code == 0


def test_a_reader_sees_what_was_written_since(root: Path) -> None:
    reader = rmqcore.read(root)
    before = offsets(reader.query("Orders", "new", 64))
    view = next(iter(reader.messages(topics=["Orders"])))
    rows = IndexRows(root / "rocksdbstore")
    rows.put("@Orders@K@k0@Another@", view.store_timestamp_ms, view.phy_offset)
    rows.close()
    assert before == []
    assert view.phy_offset in offsets(reader.query("Orders", "k0", 64))


def test_the_empty_database_of_a_store_without_such_an_index_is_not_opened(tmp_path: Path) -> None:
    """RocketMQ 5.5.0 makes one in each store."""
    reader = rmqcore.read(java_store(tmp_path))
    assert (reader.paths.root / "rocksdbstore").is_dir()
    assert reader.info().rocksdb_index_entries is None
    assert "rocksdb_index" not in {kind.name for kind in reader.info().kinds}


def test_spark_finds_by_it(root: Path) -> None:
    (store,) = find_stores(root)
    options = SourceOptions.parse({})
    reader = rmqcore.read(root)
    task = FindPlacesTask(
        store, frozenset(), frozenset(["k3"]), frozenset(["U005"]), ("Orders", "Заказы"), options
    )
    found = find_places(task)
    want = [*wanted(reader, "Orders", "k3", None), *wanted(reader, "Заказы", "k3", None)]
    want += wanted(reader, "Заказы", "U005", "U")
    assert list(found.phy_offsets) == sorted(set(want))
    assert (set(found.ids), found.missing) == ({"U005"}, ())


@pytest.mark.parametrize("flush", [True, False])
def test_a_store_on_another_filesystem(files: Path, flush: bool) -> None:
    shutil.rmtree(files / "index")
    index_in_rocksdb(files, flush=flush)
    want = wanted(rmqcore.read(files), "Orders", "k3", None)
    with memory_stores() as memory:
        url, options = memory.put(files), {"filesystem": "fsspec"}
        with rmqcore.read(url) as reader:
            assert offsets(reader.query("Orders", "k3", 64)) == want
        assert rmqcore.fsck(url).counts["index_entries"] == 408
        (store,) = find_stores(url, options)
        parsed = SourceOptions.parse({})
        topics = ("Orders",)
        task = FindPlacesTask(store, frozenset(), frozenset(["k3"]), frozenset(), topics, parsed)
        assert list(find_places(task).phy_offsets) == want


# ---- fsck -------------------------------------------------------------------------------------------


def test_fsck_compares_it(root: Path) -> None:
    before = listing(root)
    report = rmqcore.fsck(root)
    assert (report.exit_code, report.totals, report.counts["index_entries"]) == (0, {}, 408)
    assert listing(root) == before


def test_fsck_reports_entries_that_lead_nowhere(root: Path) -> None:
    view = next(view for view in rmqcore.read(root).messages() if view.uniq_key)
    rows, end = IndexRows(root / "rocksdbstore"), rmqcore.read(root).info().max_phy_offset
    stored_ms = view.store_timestamp_ms
    rows.put("@Orders@K@x@u@", stored_ms, view.phy_offset + 1)
    rows.put("@Orders@K@other@u@", stored_ms, view.phy_offset)
    rows.put("@Orders@K@x@u@", stored_ms, end)
    rows.put("@Orders@K@x@u@", stored_ms, -5)
    rows.entries[b"garbage"] = b""
    rows.close()
    report = rmqcore.fsck(root)
    assert (report.exit_code, report.totals) == (0, {"index_entry": {"warning": 5}})
    for what in (
        "points where no record starts",
        "fits no key of its record",
        "at or past the log's end",
        "points before the log",
        "b'garbage' is not a key of the index",
    ):
        (one,) = [finding for finding in report.findings if what in finding.message]
        assert one.path == "rocksdbstore"


def test_fsck_of_many_entries_says_what_it_left_out(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rmqcore.offline.fsck.index.index_database_pass.MOST_COMPARED", 100)
    report = rmqcore.fsck(root)
    assert (report.exit_code, report.totals) == (0, {"index_entry": {"info": 1}})


# ---- half a database --------------------------------------------------------------------------------


def a_link_in_its_place(place: Path) -> None:
    place.rename(place.parent / "elsewhere")
    place.symlink_to(place.parent / "elsewhere")


def test_a_database_without_its_tables_is_not_an_index(root: Path) -> None:
    no_table(root / "rocksdbstore")
    with pytest.warns(DamageWarning, match="no file has the keys of the message at"):
        assert rmqcore.read(root).query("Orders", "k0", 64).unasked_files


@pytest.mark.parametrize(
    "harm", [*(one for one in HALVES if one is not no_table), a_link_in_its_place]
)
def test_half_a_database_is_an_error_with_its_name(
    harm: Callable[[Path], None], root: Path, files: Path
) -> None:
    harm(root / "rocksdbstore")
    before = listing(root)
    reader = rmqcore.read(root)
    with pytest.raises(RocksdbError, match="rocksdbstore"):
        reader.query("Orders", "k0", 64)
    report = rmqcore.fsck(root)
    assert (report.exit_code, report.totals) == (2, {"rocksdb": {"error": 1}})
    found = {one.name for one in rmqcore.doctor(root).diagnoses}
    assert "index_files" in found or harm is flipped_table
    assert listing(root) == before
    # Index files that have all keys are enough; files that end earlier are not, also in use.
    shutil.copytree(files / "index", root / "index")
    answer = reader.query("Orders", "k9", 64)
    assert answer
    assert answer.unasked_files == []
    for path in sorted((root / "index").iterdir())[1:]:
        path.unlink()
    (root / "abort").touch()
    for key, index_type in (("k9", None), ("TagA", "T")):
        with pytest.warns(DamageWarning):
            answer = reader.query("Orders", key, 64, index_type=index_type)
        assert "rocksdbstore" in answer.unasked_files[-1]


# ---- without the package ----------------------------------------------------------------------------


@pytest.fixture
def without_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rmqcore.offline.rocksdb.view.find_spec", lambda name: None)


@pytest.mark.usefixtures("without_package")
def test_without_the_package_an_error_names_the_extra(root: Path, files: Path) -> None:
    reader = rmqcore.read(root)
    for asked in (lambda: reader.query("Orders", "k0"), lambda: rmqcore.fsck(root)):
        with pytest.raises(RocksdbMissingError, match="rocksdict is not installed") as caught:
            asked()
        assert "rmqcore[rocksdb]" in caught.value.hint
    assert rmqcore.fsck(root, check_index=False).exit_code == 0
    assert reader.info().rocksdb_index_entries is None
    # Index files that have all keys are enough; files that end earlier are not.
    shutil.copytree(files / "index", root / "index")
    assert reader.query("Orders", "k0", 64).unasked_files == []
    for path in sorted((root / "index").iterdir())[1:]:
        path.unlink()
    with pytest.warns(DamageWarning):
        lines = reader.query("Orders", "k9", 64).unasked_files
    assert "no file has the keys" in lines[0]
    assert "rmqcore[rocksdb]" in lines[1]
