"""Two records of one queue with the same queue offset, and the entries lost: which of them gets the place.

Java's dispatch lets the first have it and takes the other for a repeat; where both are missing, so does recovery. But an entry
that is there and leads to a record of its place stays: somebody may have been given it. And a topic that was deleted and made
again begins at queue offset 0 anew: then the messages of the topic as it is now have their places, which Java's queue had before
it was damaged.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from support.oracle.records import Record
from support.stores.built_store import QUEUE_ENTRIES, BuiltStore

import rmqcore
from rmqcore.offline.fsck import fsck

CONFIG: dict[str, Any] = {
    "mapped_file_size_commit_log": 4096,
    "mapped_file_size_consume_queue": 20 * QUEUE_ENTRIES,
    "message_index_enable": False,
}


def written(store: BuiltStore, *, abort: bool, queue: bool) -> Path:
    root = store.write(abort=abort)
    shutil.rmtree(root / "index")
    if not queue:
        shutil.rmtree(root / "consumequeue" / "T")
    return root


def check(root: Path, places: dict[int, Record]) -> None:
    """Open twice: each place leads to its record, and the second time nothing changes."""
    for changes in (None, 0):
        with rmqcore.open(root, services=False, **CONFIG) as opened:
            assert changes is None or opened.recovery.healed_entries == changes
            assert opened.max_offset("T", 0) == max(places) + 1
            for queue_offset, record in places.items():
                (found,) = opened.get("T", 0, queue_offset, 1).messages
                assert (found.queue_offset, found.phy_offset) == (queue_offset, record.phy_offset)


abort = pytest.mark.parametrize("abort", [True, False], ids=["after a crash", "after a clean exit"])


@abort
@pytest.mark.parametrize(
    "queue", [True, False], ids=["the later has an entry", "the queue is gone"]
)
def test_one_record_repeats_a_queue_offset(tmp_path: Path, abort: bool, queue: bool) -> None:
    store = BuiltStore(tmp_path)
    first = [store.put() for _ in range(4)]
    repeat = store.put(queue_offset=3)
    rest = [store.put() for _ in range(3)]
    written(store, abort=abort, queue=queue)
    check(tmp_path, dict(enumerate([*first[:3], repeat if queue else first[3], *rest])))


@abort
@pytest.mark.parametrize("queue", [True, False], ids=["with its queue", "the queue is gone"])
@pytest.mark.parametrize("count", [2, 5])
def test_a_topic_that_was_made_again(tmp_path: Path, abort: bool, queue: bool, count: int) -> None:
    store = BuiltStore(tmp_path)
    for _ in range(4):
        store.put()
    store.queues["T", 0].clear()
    now = [store.put() for _ in range(count)]
    assert now[0].queue_offset == 0
    written(store, abort=abort, queue=queue)
    check(tmp_path, dict(enumerate(now)))
    assert [str(f) for f in fsck(tmp_path).findings if f.severity == "error"] == []
