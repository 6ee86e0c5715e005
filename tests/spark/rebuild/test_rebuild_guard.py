"""What a rebuild by many tasks must not lose: ends of idle queues, records in no queue, files of other programs."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.spark.local_runner import LocalRunner
from support.stores.built_store import BuiltStore

from rmqcore.disk.paths import StorePaths
from rmqcore.errors import CommitLogMissingError, ForeignFilesError
from rmqcore.maintenance.rebuild.rebuild import rebuild
from rmqcore.spark.rebuild.queues import build_queues
from rmqcore.spark.rebuild.source import RebuildSource


def tree(folder: Path) -> dict[str, bytes]:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


@pytest.mark.parametrize("split_bytes", [3_000, 1 << 30])
def test_queues_whose_messages_have_expired(tmp_path: Path, split_bytes: int) -> None:
    built = BuiltStore(tmp_path / "store")
    for _ in range(20):
        built.put("Idle", body=b"x" * 100)
    built.fill(90)
    root = built.write()
    for path in sorted((root / "commitlog").iterdir())[:2]:
        path.unlink()
    rebuild(StorePaths(root), tmp_path / "one", index=False)
    source = RebuildSource.open(root, None, {"maxPartitionBytes": split_bytes})
    report = build_queues(LocalRunner(), source, tmp_path / "many")
    assert report.idle_queues == 1
    assert tree(tmp_path / "many" / "consumequeue") == tree(tmp_path / "one" / "consumequeue")
    assert any(name.startswith("Idle/0/") for name in tree(tmp_path / "many" / "consumequeue"))


def test_records_in_no_queue_are_named(tmp_path: Path) -> None:
    built = BuiltStore(tmp_path / "store")
    for _ in range(4):
        built.put()
    repeat = built.put(queue_offset=3)
    built.put("a/b")
    built.put()
    root = built.write()
    one = rebuild(StorePaths(root), tmp_path / "one", index=False)
    report = build_queues(LocalRunner(), RebuildSource.open(root), tmp_path / "many")
    assert report.set_aside == one.set_aside
    assert report.set_aside[0].first_phy_offset == repeat.phy_offset
    assert report.exit_code == one.exit_code == 2


def test_a_log_whose_disk_is_not_mounted(tmp_path: Path) -> None:
    root = BuiltStore(tmp_path / "store").fill(20).write()
    for path in (root / "commitlog").iterdir():
        path.unlink()
    with pytest.raises(CommitLogMissingError):
        RebuildSource.open(root)


def test_a_rocksdb_database_is_not_replaced(tmp_path: Path) -> None:
    root = BuiltStore(tmp_path / "store").fill(20).write()
    out = tmp_path / "out"
    (out / "consumequeue").mkdir(parents=True)
    (out / "consumequeue" / "CURRENT").write_text("mine")
    with pytest.raises(ForeignFilesError):
        build_queues(LocalRunner(), RebuildSource.open(root), out, overwrite=True)
    assert (out / "consumequeue" / "CURRENT").read_text() == "mine"
