"""What two store directories have in common, byte by byte."""

from __future__ import annotations

import shutil
from pathlib import Path

PARTS = ("commitlog", "consumequeue")


def copy_store(source: Path, target: Path) -> Path:
    """A copy that the other side may open: without Java's RocksDB folder, which is no part of the store."""
    shutil.copytree(
        source,
        target,
        copy_function=shutil.copyfile,
        ignore=shutil.ignore_patterns("rocksdbstore", "lock"),
    )
    return target


def contents(root: Path, *parts: str) -> dict[str, bytes]:
    """Every file of these folders by its path."""
    return {
        str(path.relative_to(root)): path.read_bytes()
        for part in parts or PARTS
        for path in sorted((root / part).rglob("*"))
        if path.is_file()
    }


def index_contents(root: Path) -> list[bytes]:
    """Index files in order; their names are the time at which somebody made them."""
    return list(contents(root, "index").values())


def check_same_files(ours: Path, java: Path) -> None:
    """CommitLog and queues are the same files with the same bytes, the index the same but for its names."""
    want, got = contents(java), contents(ours)
    assert sorted(got) == sorted(want)
    for name, data in want.items():
        check_same_bytes(name, got[name], data)
    indexes = index_contents(ours), index_contents(java)
    assert len(indexes[0]) == len(indexes[1])
    for number, (mine, theirs) in enumerate(zip(*indexes, strict=True)):
        check_same_bytes(f"index file {number}", mine, theirs)


def check_same_bytes(name: str, got: bytes, want: bytes) -> None:
    """Name the first byte that differs: a whole file in an assertion helps nobody."""
    assert len(got) == len(want), name
    at = next((i for i, (a, b) in enumerate(zip(got, want, strict=True)) if a != b), None)
    assert at is None, f"{name}: byte {at} is {got[at]:#x}, Java's is {want[at]:#x}"
