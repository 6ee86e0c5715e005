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
        for number in range(60):
            store.put(Message("T", b"x" * 900, keys=[f"k{number}"])).raise_for_status()
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
        ["tail", "-n", "100"],
        ["info"],
        ["diff", "STORE"],
        ["lookup", "0"],
        ["get", "--topic", "T", "--queue", "0", "--offset", "0"],
        ["query", "--topic", "T", "--key", "k1"],
    ],
    ids=lambda words: words[0],
)
def test_the_exit_code_is_2(words: list[str], emptied: Path, tmp_path: Path) -> None:
    """Each read the other files, and ended with 0."""
    named = {"OUT": str(tmp_path / "out"), "STORE": str(emptied)}
    verb, *rest = (named.get(word, word) for word in words)
    assert main([verb, str(emptied), *rest]) == 2


def test_the_range_is_that_of_the_file(emptied: Path) -> None:
    reader = rmqcore.read(emptied)
    assert list(reader.messages())
    (found,) = reader.damage
    assert (found.start_phy_offset, found.end_phy_offset) == (0, 16 << 10)
    assert list(reader.messages(start_phy_offset=16 << 10))
    assert not reader.damage


def test_what_does_not_ask_for_the_file_is_sound(emptied: Path) -> None:
    for words in (
        ["tail", "-n", "3"],
        ["lookup", "16384"],
        ["get", "--topic", "T", "--queue", "0", "--offset", "40"],
        ["query", "--topic", "T", "--key", "k50"],
    ):
        assert main([words[0], str(emptied), *words[1:]]) == 0, words


def test_a_plan_of_spark_has_the_range(emptied: Path) -> None:
    """The plan had no gap: a query and an audit gave the other messages, and an audit's exit code was 0."""
    pytest.importorskip("pyarrow")
    from rmqcore.spark.jobs.job_source import JobSource

    (plan,) = JobSource.open(emptied, {}).plans()
    (gap,) = plan.gaps
    assert (gap.kind, gap.start_phy_offset, gap.end_phy_offset) == ("missing_file", 0, 16 << 10)
    (plan,) = JobSource.open(emptied, {"startingPhyOffset": str(16 << 10)}).plans()
    assert plan.gaps == []


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
