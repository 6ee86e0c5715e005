"""Messages that name a light queue more than once: their queue offsets rise by more than one a record.

The recovery counted the room for the messages between with whole records, where dispatch counts names: every such message looked
like one with a damaged number, and of a light queue that was lost an open gave back a part.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

import rmqcore
from rmqcore import Message
from rmqcore._native.queues.queue_table import log_room

LIGHT = "%LMQ%a"
CONFIG: dict[str, Any] = {
    "mapped_file_size_commit_log": 4096,
    "mapped_file_size_consume_queue": 20 * 16,
    "message_index_enable": False,
    "enable_lmq": True,
    "enable_multi_dispatch": True,
}


def named(times: int) -> dict[str, str]:
    return {"INNER_MULTI_DISPATCH": ",".join([LIGHT] * times)}


def files_of(root: Path) -> dict[str, bytes]:
    folder = root / "consumequeue"
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


@pytest.mark.parametrize("lost", ["all", "light"])
@pytest.mark.parametrize("times", [1, 2, 5])
def test_an_open_makes_what_dispatch_made(tmp_path: Path, times: int, lost: str) -> None:
    with rmqcore.open(tmp_path / "store", services=False, **CONFIG) as store:
        for number in range(40):
            store.put(Message("T", b"body", number % 2, properties=named(times)))
        while store.dispatch_once():
            pass
        store.flush()
        root = Path(shutil.copytree(tmp_path / "store", tmp_path / "crashed"))
    want = files_of(root)
    shutil.rmtree(root / "consumequeue" / (LIGHT if lost == "light" else ""))
    for _ in range(2):
        with rmqcore.open(root, services=False, **CONFIG) as store:
            while store.dispatch_once():
                pass
        assert files_of(root) == want


def test_room() -> None:
    assert log_room("T", 100, 300, 300) == 0
    assert log_room("T", 100, 300, 390) == 0
    assert log_room("T", 100, 300, 391) == 1
    assert log_room("T", -1, -1, 910) == 10
    assert log_room("T", 500, 700, 600) == 0
    assert log_room(LIGHT, 100, 300, 300) == 200 // 9
    assert log_room(LIGHT, -1, -1, 18) == 2
