"""``query``, ``info``, ``fsck`` and ``doctor`` of stores whose index is in RocksDB."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import pytest
from support.cli.cli_runs import Run
from support.stores.rocksdb_index import IndexRows, index_in_rocksdb, make_store


@pytest.fixture
def files(tmp_path: Path) -> Path:
    return make_store(tmp_path / "store")


@pytest.fixture
def root(files: Path) -> Path:
    """A store with its index in RocksDB alone."""
    shutil.rmtree(files / "index")
    index_in_rocksdb(files)
    return files


def test_a_database_without_an_index_is_not_one(files: Path, rmqcore: Run) -> None:
    """Timers and transactions lie in the same database."""
    shutil.rmtree(files / "index")
    rows = IndexRows(files / "rocksdbstore")
    rows.timers[b"key"] = b"value"
    rows.close()
    done = rmqcore("query", files, "--topic", "Orders", "--key", "no-such-key")
    assert (done.code, "has no index" in done.err) == (1, True)


def test_the_commands(root: Path, rmqcore: Run) -> None:
    done = rmqcore("query", root, "--topic", "Orders", "--key", "k3", "--json")
    assert (done.code, done.err) == (0, "")
    assert len(done.object["messages"]) == 3
    done = rmqcore("query", root, "--topic", "Orders", "--key", "no-such-key")
    assert (done.code, done.err) == (0, "the index has no message of Orders with this key\n")
    done = rmqcore("info", root, "--json")
    info = done.object
    assert (done.code, info["rocksdb_index_entries"]) == (0, 408)
    assert [kind["name"] for kind in info["kinds"]] == ["rocksdb_index"]
    done = rmqcore("info", root, "--format", "table")
    assert re.search(r"RocksDB index +about 408 entries", done.out.decode())
    done = rmqcore("doctor", root)
    assert done.code == 0
    assert b"index_missing" not in done.out


def test_half_a_database_is_named(root: Path, rmqcore: Run) -> None:
    table = next((root / "rocksdbstore").glob("*.sst"))
    os.truncate(table, table.stat().st_size // 2)
    for words in (
        ("query", root, "--topic", "Orders", "--key", "k0"),
        ("fsck", root),
        ("info", root),
    ):
        done = rmqcore(*words)
        assert done.code == 2
        assert "rocksdbstore" in done.err + done.out.decode()


def test_without_the_package_the_extra_is_named(
    root: Path, rmqcore: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rmqcore.offline.rocksdb.view.find_spec", lambda name: None)
    for words in (("query", root, "--topic", "Orders", "--key", "k0"), ("fsck", root)):
        done = rmqcore(*words)
        assert (done.code, "rmqcore[rocksdb]" in done.err) == (1, True)
