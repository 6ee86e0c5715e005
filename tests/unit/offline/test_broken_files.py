"""Queue and index files with anything in them: lookups and checks answer, and only promised errors leave them."""

from __future__ import annotations

import random
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import rmqcore
from rmqcore.errors import StoreError
from rmqcore.offline.index.index_files import find_index_files
from rmqcore.offline.lookup import StoreLookup
from rmqcore.offline.queues.queues import find_queues

if TYPE_CHECKING:
    from conftest import StoreCopy


def spoil(path: Path, rng: random.Random) -> None:
    """Cut, grow, delete, rename a file, or write noise, ones or zeros into it."""
    data = bytearray(path.read_bytes())
    start = rng.randrange(len(data) + 1)
    length = rng.choice((1, 4, 20, 100, len(data)))
    deed = rng.randrange(8)
    if deed == 0:
        path.unlink()
    elif deed == 1:
        path.rename(path.with_name(str(rng.randrange(10**20)).zfill(rng.choice((17, 20)))))
    elif deed == 2:
        path.write_bytes(data[:start])
    elif deed == 3:
        path.write_bytes(data + rng.randbytes(length))
    else:
        noise = rng.choice(
            (rng.randbytes(length), b"\xff" * length, bytes(length), b"\x7f" * length)
        )
        data[start : start + length] = noise
        path.write_bytes(data)


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("case", ["transaction", "lmq"])
def test_lookups_survive_any_bytes(store_copy: StoreCopy, case: str, seed: int) -> None:
    rng = random.Random(f"{case}{seed}")
    store = store_copy(case)
    for folder in ("consumequeue", "index", "checkpoint"):
        root = store / folder
        files = (
            sorted(path for path in root.rglob("*") if path.is_file()) if root.is_dir() else [root]
        )
        for path in rng.sample(files, (len(files) + 1) // 2):
            spoil(path, rng)
    reader = rmqcore.read(store)
    lookup = StoreLookup(reader)
    for queue in find_queues(reader.paths):
        place = queue.topic, queue.queue_id
        start, end = lookup.offsets(*place)
        assert end >= 0 and start >= 0
        for queue_offset in (start, (start + end) // 2, end - 1, end):
            result = lookup.get(*place, queue_offset, tags=rng.choice((None, "TagA")))
            assert len(result.messages) <= 32
            assert all(message.topic for message in result.messages)
        assert lookup.offset_by_time(*place, 1_700_086_450_000, rng.choice(("LOWER", "UPPER"))) >= 0
    assert len(reader.queues()) == len(find_queues(reader.paths))
    for file in find_index_files(reader.paths):
        assert len(file.check(limit=3).findings) <= 3
        for key_hash in range(0, 1 << 31, 1 << 22):
            assert len(file.find(key_hash, limit=5)) <= 5
    assert len(lookup.query("TopicTx", "TagA", index_type="T")) <= 32
    with suppress(StoreError):
        reader.checkpoint()
