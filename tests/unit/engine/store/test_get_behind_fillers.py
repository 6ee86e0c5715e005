"""A get that meets fillers: the entries behind them are asked for.

A filler names CommitLog offset 0, so a get took everything in the log's first file for removed too, and went on behind it: a
consumer never got ten messages that were there.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from support.stores.built_store import QUEUE_ENTRIES, BuiltStore

import rmqcore

CONFIG: dict[str, Any] = {
    "mapped_file_size_commit_log": 4096,
    "mapped_file_size_consume_queue": 20 * QUEUE_ENTRIES,
    "message_index_enable": False,
}


@pytest.mark.parametrize("offsets", [(5, 6, 7), (0, 1, 4, 5)], ids=["before all", "between"])
def test_every_message_is_got(tmp_path: Path, offsets: tuple[int, ...]) -> None:
    store = BuiltStore(tmp_path)
    for queue_offset in offsets:
        for _ in range(4):
            store.put("other")  # so that the log had room for what is missing
        store.put("T", 0, queue_offset=queue_offset)
    root = store.write(abort=True)
    for part in ("index", "consumequeue"):
        shutil.rmtree(root / part)
    with rmqcore.open(root, services=False, **CONFIG) as opened:
        assert walk(opened.get) == list(offsets)
    assert walk(rmqcore.read(root).get) == list(offsets)


def walk(get: Any) -> list[int]:
    """Read the queue as a consumer does: each time from where the answer before said."""
    at, found = 0, []
    for _ in range(20):
        got = get("T", 0, at)
        found += [view.queue_offset for view in got.messages]
        at = got.next_begin_offset
    return found
