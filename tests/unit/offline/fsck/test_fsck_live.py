"""Stores that change while they are checked, and bytes of any kind: findings, never a crash or a false alarm."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest
from support.oracle import records as oracle
from support.stores.built_store import ENTRIES_POS, BuiltStore, patch

from rmqcore.offline.fsck import FsckReport, fsck


@pytest.fixture
def built(tmp_path: Path) -> BuiltStore:
    built = BuiltStore(tmp_path / "store").fill(100)
    built.write(abort=True)
    return built


def severities(report: FsckReport) -> dict[str, str]:
    return {kind: " ".join(sorted(counts)) for kind, counts in report.totals.items()}


def fsck_meanwhile(root: Path, *steps: Callable[[], object]) -> FsckReport:
    """Check a store; each call of `progress`, about one a file, another process takes a step."""
    left = list(steps)

    def progress(done: int, total: int) -> None:
        if left:
            left.pop(0)()

    report = fsck(root, progress=progress)
    assert not left
    return report


# ---- in use -----------------------------------------------------------------------------------------


def test_messages_written_while_the_store_is_checked(built: BuiltStore) -> None:
    def write_more() -> None:
        built.fill(300).write_log()
        built.write_queues()
        built.write_index()

    report = fsck_meanwhile(built.root, write_more)
    assert report.exit_code == 0
    assert set(report.totals) <= {"abort", "index_missing"}
    assert report.counts["records"] > 300
    assert report.would_be_lost["unreachable"]["records"] == 0


def test_dispatch_behind_the_log_while_the_store_is_checked(built: BuiltStore) -> None:
    def write_log() -> None:
        built.fill(300).write_log()

    report = fsck_meanwhile(built.root, write_log)
    assert severities(report) == {"abort": "info", "cq_missing": "info", "index_missing": "info"}
    # Dispatch goes on between two looks at the log.
    report = fsck_meanwhile(built.root, built.write_queues)
    assert report.exit_code == 0


def test_the_cleaner_deletes_files_while_they_are_read(built: BuiltStore) -> None:
    built.fill(300)
    built.write(abort=True)
    files = sorted((built.root / "commitlog").iterdir())
    assert fsck_meanwhile(built.root, files[0].unlink, files[1].unlink).exit_code == 0
    queue = min((built.root / "consumequeue" / "T" / "0").iterdir())
    assert fsck_meanwhile(built.root, files[2].unlink, queue.unlink).exit_code == 0


def test_a_file_deleted_in_the_middle_is_missing(built: BuiltStore) -> None:
    built.fill(300)
    built.write(abort=True)
    files = sorted((built.root / "commitlog").iterdir())
    report = fsck_meanwhile(built.root, files[5].unlink)
    assert report.totals["missing_file"] == {"error": 1}


@pytest.mark.parametrize("size", [0, 1, 2000])
def test_files_cut_while_they_are_read(built: BuiltStore, size: int) -> None:
    built.fill(300)
    built.write(abort=True)
    files = [
        path for path in sorted(built.root.rglob("*")) if path.is_file() and path.stat().st_size
    ]
    report = fsck_meanwhile(
        built.root, *(lambda path=path: os.truncate(path, size) for path in files[::7])
    )
    assert report.exit_code == 2


# ---- any bytes --------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(40))
def test_random_damage_is_found(tmp_path: Path, seed: int) -> None:
    built = BuiltStore(tmp_path / "store").fill(60)
    built.write(abort=bool(seed % 2))
    chance = random.Random(seed)
    files = [
        path for path in sorted(built.root.rglob("*")) if path.is_file() and path.name != "abort"
    ]
    for _ in range(chance.randrange(1, 12)):
        path = chance.choice(files)
        size = path.stat().st_size
        pos = chance.randrange(max(size, 1))
        kind = chance.randrange(4)
        if kind == 0:
            patch(path, pos, chance.randbytes(chance.randrange(1, 64))[: size - pos])
        elif kind == 1:
            patch(path, pos, bytes(min(200, size - pos)))
        elif kind == 2:
            os.truncate(path, pos)
        else:
            patch(path, pos, path.read_bytes()[:100][: size - pos])
    report = fsck(built.root)
    assert report.exit_code in (0, 2)
    json.dumps(report.as_dict())


@pytest.mark.parametrize("seed", range(10))
def test_files_of_random_bytes(tmp_path: Path, seed: int) -> None:
    built = BuiltStore(tmp_path / "store").fill(30)
    built.write()
    chance = random.Random(seed)
    for path in sorted(built.root.rglob("*")):
        if path.is_file():
            path.write_bytes(chance.randbytes(path.stat().st_size))
    assert fsck(built.root).exit_code == 2


@pytest.fixture
def smallest(tmp_path: Path) -> BuiltStore:
    """Two messages with a property CRC."""
    built = BuiltStore(tmp_path / "store", log_file_size=512)
    built.put(prop_crc=True)
    built.put(prop_crc=True)
    built.write()
    assert fsck(built.root).findings == []
    return built


def unseen_flips(built: BuiltStore, path: Path, positions: range) -> list[int]:
    """Bytes of a file whose change goes unnoticed."""
    content = path.read_bytes()
    unseen = []
    for pos in positions:
        patch(path, pos, bytes([content[pos] ^ 0xFF]))
        if not fsck(built.root).findings:
            unseen.append(pos)
        path.write_bytes(content)
    return unseen


def test_every_byte_of_a_record_with_a_property_crc_counts(smallest: BuiltStore) -> None:
    path, _ = smallest.log_file(0)
    first = smallest.records[0]
    # The name of the area is the exception: with another name the record has no property CRC.
    area = (first.msg_size or 0) - oracle.CRC_AREA
    unseen = unseen_flips(smallest, path, range(first.msg_size or 0))
    assert set(unseen) <= set(range(area, area + oracle.CRC_AREA))


def test_every_byte_of_a_queue_entry_counts(smallest: BuiltStore) -> None:
    path, _ = smallest.queue_file("T", 0, 0)
    assert unseen_flips(smallest, path, range(40)) == []


def test_every_byte_of_the_index_in_use_counts(smallest: BuiltStore) -> None:
    path = smallest.index_file()
    assert unseen_flips(smallest, path, range(ENTRIES_POS)) == []
    # TIMEDIFF of the first entry of a file may be anything.
    first_time = range(ENTRIES_POS + 20 + 12, ENTRIES_POS + 20 + 16)
    entries = range(ENTRIES_POS + 20, ENTRIES_POS + 20 * 9)
    assert set(unseen_flips(smallest, path, entries)) <= set(first_time)
