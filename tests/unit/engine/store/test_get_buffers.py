"""`GetResult.buffers`: the records of a get as few views of the mapped files, for whoever sends them on."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import pytest

import rmqcore
from rmqcore import Message
from rmqcore.engine.store.store import MessageStore

SMALL: dict[str, Any] = {"mapped_file_size_commit_log": 1 << 14}


def filled(root: Path, queues: list[int], body_len: int = 100) -> MessageStore:
    """A store with one message for each of the queues named, tagged A and B in turn."""
    store = rmqcore.open(root, services=False, **SMALL)
    for number, queue_id in enumerate(queues):
        body = bytes([number % 256]) * body_len
        store.put(Message("t", body, queue_id, tags="AB"[number % 2])).raise_for_status()
    assert store.wait_dispatched()
    return store


@pytest.mark.parametrize(
    ("queues", "tags", "count"),
    [
        ([0] * 20, None, 1),  # all of them lie next to each other
        ([0, 1] * 10, None, 10),  # none does
        ([0, 0, 1] * 6, None, 6),
        ([0] * 20, "A", 10),
        ([0, 0, 0, 1], "B", 1),
        ([1], None, 0),
    ],
)
def test_neighbours_are_one_buffer(
    tmp_path: Path, queues: list[int], tags: str | None, count: int
) -> None:
    with filled(tmp_path, queues) as store:
        result = store.get("t", 0, 0, tags=tags)
        raw = [message.raw for message in result.messages]
        buffers = result.buffers()
        assert len(buffers) == count
        assert b"".join(buffers) == b"".join(raw)
        assert sum(map(len, buffers)) == result.buffer_total_size
        assert all(buffer.readonly for buffer in buffers)


def test_no_buffer_goes_over_the_end_of_a_file(tmp_path: Path) -> None:
    """A BLANK lies between, and the next file is mapped somewhere else."""
    with filled(tmp_path, [0] * 20, body_len=2000) as store:
        result = store.get("t", 0, 0)
        starts = {message.phy_offset >> 14 for message in result}
        assert len(result.buffers()) == len(starts) > 1
        assert b"".join(result.buffers()) == b"".join(message.raw for message in result)


def test_a_buffer_keeps_its_file_mapped(tmp_path: Path) -> None:
    store = filled(tmp_path, [0] * 20)
    result = store.get("t", 0, 0)
    raw = b"".join(message.raw for message in result)
    (buffer,) = result.buffers()
    result.release()
    assert result.buffers() == []
    store.close()
    del result, store
    gc.collect()
    assert buffer == raw
