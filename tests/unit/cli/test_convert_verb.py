"""``rmqcore convert``, and what other verbs say of queues in RocksDB."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.cli.cli_runs import Run
from support.stores.rocksdb_queues import java_store


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return java_store(tmp_path)


def test_convert(rmqcore: Run, store: Path, tmp_path: Path) -> None:
    got = rmqcore("convert", store, tmp_path / "out", "--queues", "file", "--json")
    assert (got.code, got.object["queues"], got.object["queue_entries"]) == (0, 62, 234)
    assert rmqcore("fsck", tmp_path / "out").code == 0
    again = rmqcore("convert", store, tmp_path / "out")
    assert (again.code, "nothing was changed" in again.err) == (1, True)


def test_convert_writes_no_database(rmqcore: Run, store: Path, tmp_path: Path) -> None:
    got = rmqcore("convert", store, tmp_path / "out", "--queues", "rocksdb")
    assert (got.code, "does not write RocksDB" in got.err) == (1, True)
    assert not (tmp_path / "out").exists()


def test_without_the_package(
    rmqcore: Run, store: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("rmqcore.offline.rocksdb.view.find_spec", lambda name: None)
    words: Any = ("get", store, "--topic", "TopicA", "--queue", "0", "--offset", "0")
    for verb in (words, ("fsck", store), ("convert", store, tmp_path / "out")):
        got = rmqcore(*verb)
        assert (got.code, "pip install 'rmqcore[rocksdb]'" in got.err) == (1, True)
    assert rmqcore("info", store).object["queue_count"] is None
    assert rmqcore("doctor", store).code == 0
