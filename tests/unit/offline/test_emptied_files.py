"""The first file of a log cut to no bytes: each reader reports its messages as lost, not as deleted by the cleaner."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import rmqcore
from rmqcore import Message
from rmqcore.cli import main

SIZES: dict[str, Any] = {
    "mapped_file_size_commit_log": 16 << 10,
    "mapped_file_size_consume_queue": 2000,
    "max_hash_slot_num": 100,
    "max_index_num": 400,
}


@pytest.fixture
def emptied(tmp_path: Path) -> Path:
    root = tmp_path / "store"
    with rmqcore.open(root, services=False, **SIZES) as store:
        for _ in range(60):
            store.put(Message("T", b"x" * 900)).raise_for_status()
        while store.dispatch_behind_bytes:
            store.dispatch_once()
    (root / "commitlog" / f"{0:020}").write_bytes(b"")
    return root


@pytest.mark.parametrize(
    "words",
    [
        ["cat"],
        ["stats"],
        ["export", "--format", "jsonl", "--out", "OUT"],
        ["salvage", "OUT"],
        ["rebuild", "--out", "OUT"],
    ],
    ids=lambda words: words[0],
)
def test_the_exit_code_is_2(words: list[str], emptied: Path, tmp_path: Path) -> None:
    """Each read the other files, and ended with 0."""
    verb, *rest = (word.replace("OUT", str(tmp_path / "out")) for word in words)
    assert main([verb, str(emptied), *rest]) == 2


def test_the_range_is_that_of_the_file(emptied: Path) -> None:
    reader = rmqcore.read(emptied)
    assert list(reader.messages())
    (found,) = reader.damage
    assert (found.start_phy_offset, found.end_phy_offset) == (0, 16 << 10)
    assert list(reader.messages(start_phy_offset=16 << 10))
    assert not reader.damage


def test_a_file_that_the_cleaner_deleted_is_no_damage(emptied: Path) -> None:
    (emptied / "commitlog" / f"{0:020}").unlink()
    reader = rmqcore.read(emptied)
    assert list(reader.messages())
    assert not reader.damage


def test_a_file_of_no_bytes_at_the_end_is_no_damage(tmp_path: Path) -> None:
    with rmqcore.open(tmp_path, services=False, **SIZES) as store:
        store.put(Message("T", b"x")).raise_for_status()
    (tmp_path / "commitlog" / f"{16 << 10:020}").write_bytes(b"")
    reader = rmqcore.read(tmp_path)
    assert len(list(reader.messages())) == 1
    assert not reader.damage
