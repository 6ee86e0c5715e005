"""Entries whose place of the tag's hash holds an address in ``consumequeue_ext/``: the record tells the tag."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import rmqcore
from rmqcore import Message
from rmqcore.cli import main
from rmqcore.maintenance.salvage.salvage import salvage

ENTRY = struct.Struct(">qiq")
FIRST_ADDRESS = -(1 << 63)
SIZES: dict[str, Any] = {"mapped_file_size_consume_queue": 2000}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """20 messages, every other one with tag A."""
    root = tmp_path / "store"
    with rmqcore.open(root, services=False, **SIZES) as store:
        for number in range(20):
            store.put(Message("T", b"x", tags="AB"[number % 2])).raise_for_status()
        while store.dispatch_behind_bytes:
            store.dispatch_once()
    path = root / "consumequeue" / "T" / "0" / f"{0:020}"
    entries = list(ENTRY.iter_unpack(path.read_bytes()))
    for number in range(20):
        entries[number] = (*entries[number][:2], FIRST_ADDRESS + 32 * number)
    path.write_bytes(b"".join(ENTRY.pack(*entry) for entry in entries))
    ext = root / "consumequeue_ext" / "T" / "0" / f"{0:020}"
    ext.parent.mkdir(parents=True)
    ext.write_bytes(bytes(4096))
    return root


def by_reader(root: Path) -> list[str | None]:
    reader = rmqcore.read(root)
    found = [view.tags for view in reader.get("T", 0, 0, tags="A")]
    assert reader.damage == []
    return found


def by_store(root: Path) -> list[str | None]:
    with rmqcore.open(root, services=False, **SIZES) as store:
        return [view.tags for view in store.get("T", 0, 0, tags="A").messages]


def by_salvage(root: Path) -> list[str | None]:
    assert salvage(root, root.with_name("out")).messages == 20
    return by_reader(root.with_name("out"))


def behind_a_put(root: Path) -> list[str | None]:
    with rmqcore.open(root, services=False, **SIZES) as store:
        store.put(Message("T", b"x", tags="B")).raise_for_status()
        store.dispatch_once()
    return by_reader(root)


@pytest.mark.parametrize("ask", [by_reader, by_store, by_salvage, behind_a_put])
def test_a_get_by_tags(root: Path, ask: Callable[[Path], list[str | None]]) -> None:
    assert ask(root) == ["A"] * 10


def test_fsck_and_doctor_find_nothing(root: Path) -> None:
    assert main(["fsck", str(root)]) == 0
    assert {one.name for one in rmqcore.doctor(root).diagnoses} <= {
        "store_kind",
        "disk_nearly_full",
        "disk_full",
    }
