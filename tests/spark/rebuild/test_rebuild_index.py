"""Index files rebuilt by many tasks are, byte for byte, the files that one process builds; without a JVM."""

from __future__ import annotations

import json
import os
import random
from dataclasses import asdict
from pathlib import Path

import pytest
from support.spark.local_runner import LocalRunner
from support.stores.built_store import BuiltStore
from support.stores.golden_stores import CLEAN

from rmqcore.config import MessageStoreConfig
from rmqcore.disk.inside.folder import Folder
from rmqcore.disk.paths import StorePaths
from rmqcore.errors import StoreError
from rmqcore.maintenance.rebuild.rebuild import rebuild
from rmqcore.maintenance.rebuild.report import RebuildReport
from rmqcore.spark.output.part_output import StagedFile
from rmqcore.spark.rebuild.index import build_index, name_files
from rmqcore.spark.rebuild.index_build import BuiltIndexFile
from rmqcore.spark.rebuild.source import RebuildSource

COUNTS = "records record_bytes index_files index_entries damage".split()


@pytest.fixture(autouse=True)
def _without_syncs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Most of the time went into waiting for the disk; what is on it after a crash is tested elsewhere."""
    monkeypatch.setattr(os, "fsync", lambda fd: None)
    monkeypatch.setattr(Folder, "sync_file_system", lambda _: None)


def files_of(folder: Path) -> list[bytes]:
    """The files in the order of their names."""
    return [path.read_bytes() for path in sorted(folder.iterdir())]


def small(slots: int = 7, entries: int = 64) -> MessageStoreConfig:
    return MessageStoreConfig(max_hash_slot_num=slots, max_index_num=entries)


def source_of(
    root: Path, split_bytes: int, config: MessageStoreConfig | None = None
) -> RebuildSource:
    return RebuildSource.open(root, config, {"maxPartitionBytes": split_bytes, "splitMode": "walk"})


def check_same(
    root: Path,
    tmp_path: Path,
    split_bytes: int,
    config: MessageStoreConfig | None = None,
    seed: int = 0,
) -> RebuildReport:
    """Build both ways; all bytes and counts agree."""
    expected = rebuild(StorePaths(root), tmp_path / "one", queues=False, config=config)
    source = source_of(root, split_bytes, config)
    report = build_index(LocalRunner(seed), source, tmp_path / "many")
    assert files_of(tmp_path / "many" / "index") == files_of(tmp_path / "one" / "index")
    for name in COUNTS:
        assert asdict(report)[name] == asdict(expected)[name]
    return report


@pytest.mark.parametrize("case", CLEAN)
@pytest.mark.parametrize("split_bytes", [6_000, 1 << 30])
def test_the_bytes_are_javas(golden: Path, tmp_path: Path, case: str, split_bytes: int) -> None:
    store = golden / case / "store"
    source = source_of(store, split_bytes)
    report = build_index(LocalRunner(split_bytes), source, tmp_path / "out")
    made = files_of(tmp_path / "out" / "index")
    assert made == files_of(store / "index")
    assert report.index_files == len(made)
    assert report.exit_code == 0


def test_crashed_stores(golden: Path, tmp_path: Path) -> None:
    cases = sorted(path.parent.name for path in golden.glob("*/input"))
    assert len(cases) >= 5
    for number, case in enumerate(cases):
        check_same(golden / case / "input", tmp_path / case, 9_000, small(), number)


@pytest.mark.parametrize("seed", range(10))
def test_any_keys_and_any_cuts(tmp_path: Path, seed: int) -> None:
    """Files end in the middle of a message, several begin in one split, messages without keys and damage lie between."""
    chance = random.Random(seed)
    store = BuiltStore(tmp_path / "store", log_file_size=16384)
    for _ in range(100):
        keys = " ".join(f"k{chance.randrange(50)}" for _ in range(chance.choice([0, 1, 2, 9])))
        empty = {"UNIQ_KEY": "", "KEYS": "", "TAGS": ""} if chance.random() < 0.2 else {}
        store.put(properties={"KEYS": keys} | empty, sys_flag=chance.choice([0, 0, 0x4, 0xC]))
    store.write_log()
    for _ in range(chance.randrange(3)):
        lost = chance.choice(store.records)
        store.change_log(lost.phy_offset, b"\x55" * chance.choice([30, 200, 900]))
    config = small(chance.choice([1, 5, 64]), chance.choice([3, 17, 50, 1000]))
    check_same(store.root, tmp_path, chance.choice([500, 3_000, 1 << 20]), config, seed)


@pytest.mark.parametrize("split_bytes", [200, 1 << 20])
@pytest.mark.parametrize("behind", [0, 1, 3])
@pytest.mark.parametrize("count", [0, 12, 13])
def test_the_end_of_a_file_is_the_end_of_the_keys(
    tmp_path: Path, split_bytes: int, behind: int, count: int
) -> None:
    """A message behind a full file makes the next file, also without keys of its own; so does the first message of all."""
    store = BuiltStore(tmp_path / "store")
    keyless = {"UNIQ_KEY": "", "KEYS": "", "TAGS": ""}
    for number in range(count):
        store.put(properties=keyless | {"UNIQ_KEY": f"u{number}"})
    for _ in range(behind):
        store.put(properties=keyless)
    store.write_log()
    report = check_same(store.root, tmp_path, split_bytes, small(entries=5))
    assert report.index_entries == count
    # 4 keys to a file.
    expected = {0: min(behind, 1), 12: 3 + min(behind, 1), 13: 4}
    assert report.index_files == expected[count]


def test_what_is_appended_meanwhile_is_left_out(tmp_path: Path) -> None:
    store = BuiltStore(tmp_path / "store", log_file_size=65536).fill(40)
    root = store.write()
    rebuild(StorePaths(root), tmp_path / "one", queues=False, config=small())

    class Growing(LocalRunner):
        def tasks(self, function, work):  # type: ignore[no-untyped-def]
            found = super().tasks(function, work)
            store.fill(5).write_log()
            return found

    report = build_index(Growing(), source_of(root, 2_000, small()), tmp_path / "many")
    assert report.records == 40
    assert files_of(tmp_path / "many" / "index") == files_of(tmp_path / "one" / "index")


def test_keys_that_are_gone_when_they_are_to_be_put(tmp_path: Path) -> None:
    store = BuiltStore(tmp_path / "store").fill(60)
    root = store.write()

    class Losing(LocalRunner):
        def tasks(self, function, work):  # type: ignore[no-untyped-def]
            found = super().tasks(function, work)
            store.change_log(store.records[25].phy_offset, b"\x55" * 100)
            return found

    with pytest.raises(StoreError, match=r"commitlog/0+\d{4} changed while it was read"):
        build_index(Losing(), source_of(root, 1 << 20, small()), tmp_path / "many")
    assert not (tmp_path / "many").exists()


def test_names_and_manifest(golden: Path, tmp_path: Path) -> None:
    store = golden / "basic" / "store"
    for folder in ("first", "second"):
        build_index(LocalRunner(), source_of(store, 50_000), tmp_path / folder)
    names = sorted(os.listdir(tmp_path / "first" / "index"))
    assert names == sorted(os.listdir(tmp_path / "second" / "index"))
    assert all(len(name) == 17 and name.isdigit() for name in names)
    manifest = (tmp_path / "first" / "manifest.json").read_text()
    assert manifest == (tmp_path / "second" / "manifest.json").read_text()
    part = json.loads(manifest)["parts"]["index"]
    assert [entry["file"] for entry in part["files"]] == [f"index/{name}" for name in names]
    assert sum(entry["rows"] for entry in part["files"]) > 2000


def test_names_of_times_that_cannot_be() -> None:
    times = [5, 5, -1, 4, 1 << 62, 0]
    staged = StagedFile("x", 0, "", 0, 0, 0)
    built = [BuiltIndexFile(number, time, staged) for number, time in enumerate(times)]
    names = list(name_files(built))
    assert len(names) == 6
    assert names == sorted(names)
    assert max(map(int, names)) < 2500 * 10**13
