"""Compacted topics in copies of a store: what only compaction/ has is there, and a broker says that it does not serve it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.server_process import ServerProcess
from support.stores.compacted import SIZES, TOPIC, clean, make_store

import rmqcore
from rmqcore.config.broker_conf import java_name
from rmqcore.offline.fsck import fsck


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return clean(make_store(tmp_path / "store"))


def live(root: Path) -> list[bytes]:
    with rmqcore.read(root) as reader:
        found = [view.raw for view in reader.compacted_messages()]
        assert not reader.damage
    return found


@pytest.mark.parametrize("copy", [rmqcore.backup, rmqcore.salvage], ids=["backup", "salvage"])
def test_copies_have_them(copy: Callable[..., Any], store: Path, tmp_path: Path) -> None:
    copy(store, tmp_path / "copy")
    assert live(tmp_path / "copy") == live(store) != []
    assert not {"compaction_entry", "compaction_file"} & fsck(tmp_path / "copy").totals.keys()
    with rmqcore.read(tmp_path / "copy") as reader:
        assert reader.get(TOPIC, 0, 0).messages


def test_serve_says_what_it_does_not_serve(store: Path, tmp_path: Path) -> None:
    sizes = {java_name(name): size for name, size in SIZES.items()}
    with ServerProcess(tmp_path, settings=sizes) as server:
        assert "Keys: 39 live messages in 2 queues, 11 of them not in the log" in server.log
        assert server.stop() == 0
