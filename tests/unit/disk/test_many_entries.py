"""Directories with more entries than are held at once: each entry comes once, in name order, and none is left behind.

A list of all of them was 300 bytes an entry: gigabytes for the directory of a store that claims millions of topics.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rmqcore.disk import queue_files, read_range
from rmqcore.disk.inside import folder
from rmqcore.disk.inside.folder import Folder
from rmqcore.disk.paths import StorePaths
from rmqcore.disk.queue_files import BatchTopics, batch_topics, queue_directories
from rmqcore.disk.read_range import entries_of
from rmqcore.errors import LinkError


@pytest.fixture
def few_held(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Little room; answers the number of entries that each listing held."""
    held: list[int] = []
    some = read_range._next_entries

    def counted(directory: str | Path, after: str | None) -> tuple[list[os.DirEntry[str]], bool]:
        found = some(directory, after)
        held.append(len(found[0]))
        return found

    monkeypatch.setattr(read_range, "FEW_ENTRIES", 10)
    monkeypatch.setattr(read_range, "MOST_ENTRY_BYTES", 8_000)
    monkeypatch.setattr(read_range, "_next_entries", counted)
    return held


@pytest.mark.parametrize("count", [0, 1, 9, 10, 11, 40, 500])
def test_all_in_order(tmp_path: Path, few_held: list[int], count: int) -> None:
    names = [f"{number * 7919 % 10_007:05}" for number in range(count)]
    for name in names:
        (tmp_path / name).touch()
    assert [entry.name for entry in entries_of(tmp_path)] == sorted(names)
    assert max(few_held) < 60
    assert list(entries_of(tmp_path / "none")) == []


def test_one_entry_at_least(
    tmp_path: Path, few_held: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read_range, "FEW_ENTRIES", 1)
    monkeypatch.setattr(read_range, "MOST_ENTRY_BYTES", 0)
    for number in range(20):
        (tmp_path / f"{number:02}").touch()
    assert [int(entry.name) for entry in entries_of(tmp_path)] == list(range(20))
    assert max(few_held) == 1


def test_entries_that_go_and_come_meanwhile(tmp_path: Path, few_held: list[int]) -> None:
    for number in range(100):
        (tmp_path / f"{number:03}").touch()
    seen = []
    for entry in entries_of(tmp_path):
        seen.append(entry.name)
        if entry.name == "010":
            (tmp_path / "0105").touch()
            (tmp_path / "099").unlink()
            (tmp_path / "0995").touch()
    assert seen == sorted(set(seen))
    assert set(seen) >= {f"{number:03}" for number in range(99)}
    assert "0995" in seen


def test_queues_in_the_order_of_their_numbers(
    tmp_path: Path, few_held: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue_files, "MOST_NUMBERS", 7)
    for topic in ("b", "a"):
        for queue_id in (*range(30), 1000, (1 << 31) - 1):
            (tmp_path / "consumequeue" / topic / str(queue_id)).mkdir(parents=True)
        (tmp_path / "consumequeue" / topic / "007").mkdir()
    found = [(topic, queue_id) for topic, queue_id, _ in queue_directories(StorePaths(tmp_path))]
    ids = [*range(30), 1000, (1 << 31) - 1]
    assert found == [(topic, queue_id) for topic in "ab" for queue_id in ids]


def test_a_folder_is_removed_and_synced_in_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folder, "MOST_NAMES", 3)
    for number in range(10):
        (tmp_path / "all" / str(number) / "below").mkdir(parents=True)
        for name in range(7):
            (tmp_path / "all" / str(number) / f"f{name}").write_bytes(b"x")
    Folder(tmp_path).folder("all").sync_tree()
    Folder(tmp_path).folder("all").sync_names()
    Folder(tmp_path).remove("all")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("most", [1, 10_000])
def test_batch_topics(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    monkeypatch.setattr(queue_files, "MOST_TOPICS", most)
    paths = StorePaths(tmp_path)
    assert not BatchTopics(paths)
    for topic in ("Batches", "Both", "More"):
        (tmp_path / "batchconsumequeue" / topic).mkdir(parents=True)
    (tmp_path / "consumequeue" / "Both").mkdir(parents=True)
    (tmp_path / "batchconsumequeue" / "file").touch()
    topics = BatchTopics(paths)
    asked = ["Batches", "Both", "More", "file", "none", "..", "a/b", "x\0", "\ud800", "x" * 9999]
    assert topics
    assert (
        {topic for topic in asked if topic in topics} == batch_topics(paths) == {"Batches", "More"}
    )
    (tmp_path / "batchconsumequeue" / "link").symlink_to("More")
    with pytest.raises(LinkError):
        BatchTopics(paths)
