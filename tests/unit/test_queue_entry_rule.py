"""Which records have a queue entry: one rule, asked with every SYSFLAG through all who use it; Java's answer is the oracle's.

The engine once gave INNER_BATCH records entries that a rebuild left out and fsck did not miss. What Java does is in
tests/interop/test_sys_flags.py, what Spark does in tests/spark/rebuild/test_rebuild_queues.py.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.oracle.log import QUEUED
from support.stores.built_store import (
    INDEX_ENTRIES,
    INNER_BATCH,
    QUEUE_ENTRIES,
    SLOTS,
    SYS_FLAGS,
    BuiltStore,
)

import rmqcore
from rmqcore.disk.paths import StorePaths
from rmqcore.engine.store.store import MessageStore
from rmqcore.maintenance.rebuild.rebuild import rebuild
from rmqcore.offline.fsck import fsck
from rmqcore.vocabulary.sysflag import TRANSACTION_MASK, has_queue_entry

LOG_FILE = 1 << 20
SIZES: dict[str, Any] = {
    "mapped_file_size_commit_log": LOG_FILE,
    "mapped_file_size_consume_queue": 20 * QUEUE_ENTRIES,
    "max_hash_slot_num": SLOTS,
    "max_index_num": INDEX_ENTRIES,
    "enable_lmq": True,
    "enable_multi_dispatch": True,
}


@pytest.fixture
def built(tmp_path: Path) -> BuiltStore:
    return BuiltStore(tmp_path / "store", log_file_size=LOG_FILE)


def reopened(root: Path) -> MessageStore:
    return rmqcore.open(root, services=False, **SIZES)


def tree(folder: Path) -> dict[str, bytes]:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def check_queues(built: BuiltStore, found: Path, tmp_path: Path) -> None:
    """The queues in a folder are those that the oracle's rule makes."""
    expected = BuiltStore(tmp_path / "expected", queues=built.queues)
    expected.write_queues()
    assert tree(found) == tree(expected.root / "consumequeue")


def test_the_function() -> None:
    edges = [0x7FFFFFFF, -1, -(1 << 31), -(1 << 31) | 4, -(1 << 31) | 12]
    flags = [*range(SYS_FLAGS), *edges]
    expected = [flag & TRANSACTION_MASK in QUEUED for flag in flags]
    assert [has_queue_entry(flag) for flag in flags] == expected
    column = np.array(flags, np.int32)
    assert has_queue_entry(column).tolist() == expected
    assert has_queue_entry(column[::3]).tolist() == expected[::3]
    assert has_queue_entry(column[:0]).tolist() == []


@pytest.mark.parametrize("wrong", [np.zeros(3), np.zeros(3, np.int64), "4", None, 1 << 31])
def test_what_is_no_sys_flag(wrong: object) -> None:
    with pytest.raises((TypeError, ValueError, OverflowError)):
        has_queue_entry(wrong)  # type: ignore[call-overload]  # what a caller may give all the same


def test_dispatch_and_recovery(built: BuiltStore, tmp_path: Path) -> None:
    """Recovery counts the records that get an entry; then dispatch gives it to them."""
    built.fill_with_sys_flags().write_log()
    (built.root / "abort").touch()
    with reopened(built.root) as store:
        assert store.recovery is not None
        assert store.recovery.scanned_records == SYS_FLAGS
        assert store.recovery.compared_records == 2 * (SYS_FLAGS // 2)  # the light queue's too
        assert store.recovery.healed_entries == 2 * (SYS_FLAGS // 2)
    check_queues(built, built.root / "consumequeue", tmp_path)


def test_rebuild(built: BuiltStore, tmp_path: Path) -> None:
    built.fill_with_sys_flags().write()
    report = rebuild(StorePaths(built.root), tmp_path / "out", index=False)
    check_queues(built, tmp_path / "out" / "consumequeue", tmp_path)
    assert (report.queue_entries, report.ignored_records) == (2 * SYS_FLAGS // 2, 0)


def test_fsck(built: BuiltStore) -> None:
    built.fill_with_sys_flags()
    assert fsck(built.write()).findings == []
    last = max(built.queues["T", 0])
    built.change_entry("T", 0, last, (0, 0, 0))
    assert fsck(built.root).totals == {"cq_missing": {"error": 1}}


# ---- batch topics -----------------------------------------------------------------------------------


def test_batch_topics_have_no_entries_in_ordinary_queues(built: BuiltStore, tmp_path: Path) -> None:
    """A broker that finds such a topic under consumequeue/ does not start."""
    built.fill(20)
    for number in range(3):
        built.put("Batches", sys_flag=INNER_BATCH | 0x40, queue_offset=2 * number)
    del built.queues["Batches", 0]
    root = built.write(abort=True)
    (root / "batchconsumequeue" / "Batches" / "0").mkdir(parents=True)
    # Not entries of consumequeue/ but those of the batch queue, which is empty here.
    found = [one.path for one in fsck(root).findings if one.kind == "cq_missing"]
    assert all(path.startswith("batchconsumequeue/") for path in found)
    rebuild(StorePaths(root), tmp_path / "out", index=False)
    assert sorted(path.name for path in (tmp_path / "out" / "consumequeue").iterdir()) == [
        "Other",
        "T",
    ]
    with reopened(root) as store:
        assert sorted(store.topics()) == ["Other", "T"]
    assert not (root / "consumequeue" / "Batches").exists()
    check_queues(built, root / "consumequeue", tmp_path)


def test_a_topic_in_both_places_is_an_ordinary_one(built: BuiltStore) -> None:
    root = built.fill(20).write(abort=True)
    (root / "batchconsumequeue" / "T" / "0").mkdir(parents=True)
    assert fsck(root).totals.get("cq_missing") is None
    with reopened(root) as store:
        assert sorted(store.topics()) == ["Other", "T"]
