"""Queues rebuilt by many tasks are, byte for byte, the queues that one process builds; without a JVM."""

from __future__ import annotations

import json
import os
import random
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from support.spark.local_runner import LocalRunner
from support.stores.built_store import BuiltStore
from support.stores.golden_stores import CLEAN

import rmqcore
from rmqcore import Message
from rmqcore.config import MessageStoreConfig
from rmqcore.disk.inside.folder import Folder
from rmqcore.disk.paths import StorePaths
from rmqcore.errors import StoreError
from rmqcore.maintenance.rebuild.rebuild import rebuild
from rmqcore.maintenance.rebuild.report import RebuildReport
from rmqcore.spark.rebuild import queue_map as rebuild_queue_map
from rmqcore.spark.rebuild.queues import build_queues
from rmqcore.spark.rebuild.source import RebuildSource

COUNTS = (
    "records record_bytes queues queue_files queue_entries filled_entries ignored_records damage"
).split()


@pytest.fixture(autouse=True)
def _without_syncs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Most of the time went into waiting for the disk; what is on it after a crash is tested elsewhere."""
    monkeypatch.setattr(os, "fsync", lambda fd: None)
    monkeypatch.setattr(Folder, "sync_file_system", lambda _: None)


def tree(folder: Path) -> dict[str, bytes]:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def counts(report: RebuildReport) -> dict[str, Any]:
    return {name: asdict(report)[name] for name in COUNTS}


def source_of(
    root: Path, split_bytes: int, config: MessageStoreConfig | None = None
) -> RebuildSource:
    return RebuildSource.open(root, config, {"maxPartitionBytes": split_bytes, "splitMode": "walk"})


def check_same(root: Path, tmp_path: Path, split_bytes: int, runner: LocalRunner) -> RebuildReport:
    """Build both ways; all bytes and counts agree."""
    expected = rebuild(StorePaths(root), tmp_path / "one", index=False)
    source = source_of(root, split_bytes)
    report = build_queues(runner, source, tmp_path / "many")
    assert tree(tmp_path / "many" / "consumequeue") == tree(tmp_path / "one" / "consumequeue")
    assert counts(report) == counts(expected)
    assert sorted(os.listdir(tmp_path / "many")) == ["_SUCCESS", "consumequeue", "manifest.json"]
    return report


@pytest.mark.parametrize("case", CLEAN)
@pytest.mark.parametrize("split_bytes", [3_000, 40_000, 1 << 30])
def test_the_bytes_are_javas(golden: Path, tmp_path: Path, case: str, split_bytes: int) -> None:
    store = golden / case / "store"
    source = source_of(store, split_bytes)
    report = build_queues(LocalRunner(seed=split_bytes), source, tmp_path / "out")
    assert tree(tmp_path / "out" / "consumequeue") == tree(store / "consumequeue")
    assert report.queue_files == len(tree(store / "consumequeue"))
    assert (report.ignored_records, report.filled_entries, report.exit_code) == (0, 0, 0)
    if split_bytes == 3_000:
        assert len(source.splits) > 4


@pytest.mark.parametrize("split_bytes", [pytest.param(2_000, marks=pytest.mark.large), 1 << 30])
def test_crashed_stores(golden: Path, tmp_path: Path, split_bytes: int) -> None:
    """Torn tails, stale records, files that were allocated ahead, queues that begin in the middle."""
    cases = sorted(path.parent.name for path in golden.glob("*/input"))
    assert len(cases) >= 5
    for number, case in enumerate(cases):
        check_same(golden / case / "input", tmp_path / case, split_bytes, LocalRunner(seed=number))


def test_pieces_are_given_on_in_between(
    golden: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rebuild_queue_map, "HELD_BYTES", 600)
    monkeypatch.setattr(rebuild_queue_map, "BATCH_ROWS", 7)
    monkeypatch.setattr(rebuild_queue_map, "PIECE_ITEMS", 3)
    for case in ("basic", "lmq"):
        check_same(golden / case / "store", tmp_path / case, 20_000, LocalRunner())


# ---- queues whose offsets are not one row -----------------------------------------------------------


@pytest.mark.parametrize("seed", range(12))
def test_any_offsets_and_any_damage(tmp_path: Path, seed: int) -> None:
    """Repeats, gaps, offsets that go back, zeros, numbers that are no offset, queues that two kinds of records share."""
    chance = random.Random(seed)
    store = BuiltStore(tmp_path / "store", log_file_size=8192)
    following: dict[tuple[str, int], int] = {}
    for number in range(150):
        topic = chance.choice(["T", "Other", "%LMQ%a", "no/topic"])
        place = topic, chance.randrange(-1, 2)
        queue_offset = following.get(place, chance.choice([0, 5, 13]))
        if chance.random() < 0.08:
            queue_offset = chance.choice([0, -1, 1 << 62, queue_offset - 3, queue_offset + 9])
        following[place] = queue_offset + 1
        properties = {}
        if number % 3 == 0:
            light = chance.choice(["%LMQ%a", "%LMQ%b", "%LMQ%b,%LMQ%b", "T,%LMQ%a"])
            offsets = [str(number // 3 + extra) for extra in range(light.count(",") + 1)]
            properties = {
                "INNER_MULTI_DISPATCH": light,
                "INNER_MULTI_QUEUE_OFFSET": ",".join(offsets),
            }
        flag = chance.choice([0] * 8 + [0x4, 0x8, 0xC, 0x80])
        store.put(
            *place,
            queue_offset=queue_offset,
            properties=properties,
            sys_flag=flag,
            body=b"x" * chance.randrange(80),
        )
    store.write_log()
    for _ in range(chance.randrange(3)):
        lost = chance.choice(store.records)
        store.change_log(lost.phy_offset, b"\x55" * chance.choice([30, 200, 900]))
    config = MessageStoreConfig(mapped_file_size_consume_queue=160)
    expected = rebuild(StorePaths(store.root), tmp_path / "one", index=False, config=config)
    source = source_of(store.root, chance.choice([700, 2_000, 1 << 20]), config)
    report = build_queues(LocalRunner(seed), source, tmp_path / "many")
    assert tree(tmp_path / "many" / "consumequeue") == tree(tmp_path / "one" / "consumequeue")
    assert counts(report) == counts(expected)


def test_a_file_of_its_own_for_an_offset_that_is_wrong(tmp_path: Path) -> None:
    """A flipped bit in QUEUEOFFSET names a far away file; it must not come into being."""
    store = BuiltStore(tmp_path / "store").fill(40)
    root = store.write()
    store.change_log(store.records[7].phy_offset + 20, b"\x00\x20")
    report = check_same(root, tmp_path, 1_500, LocalRunner())
    assert report.queue_files == len(tree(root / "consumequeue"))


def test_only_the_first_file_of_a_queue_has_fillers(tmp_path: Path) -> None:
    store = BuiltStore(tmp_path / "store")
    for queue_offset in range(13, 40):
        store.put("T", queue_offset=queue_offset)
    root = store.write()
    check_same(root, tmp_path, 1_000, LocalRunner())
    assert tree(tmp_path / "many" / "consumequeue") == tree(root / "consumequeue")


def test_every_sys_flag(tmp_path: Path) -> None:
    store = BuiltStore(tmp_path / "store", log_file_size=1 << 16).fill_with_sys_flags()
    root = store.write()
    check_same(root, tmp_path, 20_000, LocalRunner())
    assert tree(tmp_path / "many" / "consumequeue") == tree(root / "consumequeue")


def test_batch_topics_are_left_out(tmp_path: Path) -> None:
    store = BuiltStore(tmp_path / "store").fill(40)
    store.put("Batches", sys_flag=0xC0)
    del store.queues["Batches", 0]
    root = store.write()
    (root / "batchconsumequeue" / "Batches" / "0").mkdir(parents=True)
    (root / "batchconsumequeue" / "T").mkdir()  # and an ordinary topic all the same
    check_same(root, tmp_path, 1_000, LocalRunner())
    assert tree(tmp_path / "many" / "consumequeue") == tree(root / "consumequeue")


def test_an_empty_store(tmp_path: Path) -> None:
    (tmp_path / "store" / "commitlog").mkdir(parents=True)
    report = check_same(tmp_path / "store", tmp_path, 1 << 20, LocalRunner())
    assert report.records == 0
    assert list((tmp_path / "many" / "consumequeue").iterdir()) == []


def test_a_missing_file_in_the_middle(tmp_path: Path) -> None:
    store = BuiltStore(tmp_path / "store").fill(90)
    root = store.write()
    (root / "commitlog" / f"{4096:020}").unlink()
    report = check_same(root, tmp_path, 1_000, LocalRunner())
    assert [found.kind for found in report.damage] == ["missing_file"]
    assert report.filled_entries > 0


# ---- stores that change -----------------------------------------------------------------------------


class ChangingRunner(LocalRunner):
    """Something happens to the store before the n-th shuffle."""

    def __init__(self, at: int, change: Any) -> None:
        super().__init__()
        self._at, self._change, self._shuffles = at, change, 0

    def shuffle(self, *given: Any) -> list[Any]:
        if self._shuffles == self._at:
            self._change()
        self._shuffles += 1
        return super().shuffle(*given)


def test_what_is_appended_meanwhile_is_left_out(tmp_path: Path) -> None:
    """A second attempt of the last task read more than the first: reducers could have got some of both."""
    store = BuiltStore(tmp_path / "store", log_file_size=65536).fill(40)
    root = store.write()
    rebuild(StorePaths(root), tmp_path / "one", index=False)
    runner = ChangingRunner(0, lambda: store.fill(30).write_log())
    source = source_of(root, 2_000)
    report = build_queues(runner, source, tmp_path / "many")
    assert report.records == 40
    assert report.damage == []
    assert tree(tmp_path / "many" / "consumequeue") == tree(tmp_path / "one" / "consumequeue")


def test_a_file_that_is_deleted_between_two_readings(tmp_path: Path) -> None:
    store = BuiltStore(tmp_path / "store").fill(90)
    root = store.write()
    store.change_log(store.records[20].phy_offset, b"\x55" * 200)
    runner = ChangingRunner(1, (root / "commitlog" / f"{0:020}").unlink)
    with pytest.raises(StoreError, match="changed while it was read"):
        build_queues(runner, source_of(root, 1 << 20), tmp_path / "many")
    assert not (tmp_path / "many").exists()


def test_the_manifest(golden: Path, tmp_path: Path) -> None:
    store = golden / "basic" / "store"
    build_queues(LocalRunner(), source_of(store, 20_000), tmp_path / "out")
    part = json.loads((tmp_path / "out" / "manifest.json").read_text())["parts"]["consumequeue"]
    assert part["store"] == str(store)
    assert part["records"] == 2000
    files = {entry["file"]: entry for entry in part["files"]}
    assert files.keys() == {f"consumequeue/{name}" for name in tree(store / "consumequeue")}
    assert sum(entry["rows"] for entry in files.values()) == 2000
    assert min(entry["start_phy_offset"] for entry in files.values()) == part["start_phy_offset"]
    assert max(entry["end_phy_offset"] for entry in files.values()) < part["end_phy_offset"]


def test_a_record_that_names_a_free_place_is_named(tmp_path: Path) -> None:
    """The job ended with exit code 0, and the message was in another queue than consumers know."""
    store = tmp_path / "store"
    with rmqcore.open(store, services=False) as opened:
        for number in range(6):
            opened.put(Message("T", b"%d" % number)).raise_for_status()
        while opened.dispatch_behind_bytes:
            opened.dispatch_once()
    with rmqcore.read(store) as reader:
        hurt = list(reader.messages())[-1]
    with (store / "commitlog" / f"{0:020}").open("r+b") as file:
        file.seek(hurt.phy_offset + 15)
        file.write(b"\x04")
    expected = rebuild(StorePaths(store), tmp_path / "one", index=False)
    local = source_of(store, 1 << 30)
    remote = replace(local, location=replace(local.location, root=f"file://{store}"))
    for name, source in ("local", local), ("remote", remote):
        report = build_queues(LocalRunner(), source, tmp_path / name)
        assert [one.phy_offset for one in report.misnamed] == [hurt.phy_offset]
        assert (report.misnamed, report.exit_code) == (expected.misnamed, 2)
