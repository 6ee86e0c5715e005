"""Index files of RocketMQ before 5.4, which indexed no tags: an open keeps them, and misses only what they should have."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.stores.built_store import INDEX_ENTRIES, BuiltStore
from support.stores.keyed_store import contents

import rmqcore
from rmqcore import Message

FILES = 4
MESSAGES = (INDEX_ENTRIES - 1) // 3
"""Messages of three keys that fill an index file without tags."""


def built(root: Path, *, index_tags: bool) -> BuiltStore:
    """A store with a message of a tag and no key right behind each index file that has no tags."""
    store = BuiltStore(root, index_tags=index_tags)
    for _ in range(FILES):
        for _ in range(MESSAGES):
            store.put()
        store.put(keyed=False)
    store.write()
    return store


def full_files(root: Path) -> dict[str, bytes]:
    """Names and bytes of the index files without the newest, which has no entry."""
    files = contents(root / "index")
    return {name: files[name] for name in sorted(files)[:FILES]}


@pytest.mark.parametrize("recover", ["normal", "deep"])
def test_a_message_with_a_tag_alone_behind_a_file(tmp_path: Path, recover: str) -> None:
    """Each open of a clean store of RocketMQ 4.5 or 5.3 deleted sound files, and indexed their messages again."""
    store = built(tmp_path / "store", index_tags=False)
    before = full_files(store.root)
    with rmqcore.open(store.root, services=False, recover=recover) as opened:
        report = opened.recovery.index
        assert (report.damage, report.removed_files) == (None, ())
        opened.wait_dispatched()
    assert full_files(store.root).items() >= before.items()


def test_after_rmqcore_has_gone_on(tmp_path: Path) -> None:
    """What rmqcore puts has tags in the index, behind files without them."""
    store = built(tmp_path / "store", index_tags=False)
    before = full_files(store.root)
    for number in range(3):
        with rmqcore.open(store.root, services=False) as opened:
            assert opened.recovery.index.damage is None
            opened.put(Message("T", b"ours", tags=f"New{number}")).raise_for_status()
            opened.wait_dispatched()
    assert full_files(store.root).items() >= before.items()
    with rmqcore.read(store.root) as reader:
        for number in range(3):
            assert len(reader.query("T", f"New{number}", index_type="T").messages) == 1


def test_a_missing_file_before_5_4(tmp_path: Path) -> None:
    store = built(tmp_path / "store", index_tags=False)
    store.index_file(1).unlink()
    with rmqcore.open(store.root, services=False) as opened:
        report = opened.recovery.index
        assert (report.files, len(report.removed_files)) == (1, FILES - 1)
        first = store.records[MESSAGES + 1]  # behind the message without a key
        assert (
            report.damage == f"index: no file covers the keys of the message at {first.phy_offset}"
        )


def test_tags_that_a_later_version_would_have(tmp_path: Path) -> None:
    """Where the index has tags, a message with a tag alone is missed as any other."""
    store = BuiltStore(tmp_path / "store")
    for _ in range(20):
        store.put()
    indexed = len(store.records)
    for _ in range(3):
        store.put(keyed=False)
    whole, store.records = store.records, store.records[:indexed]
    store.write_index()
    store.records = whole
    store.write_log()
    store.write_queues()
    store.write_checkpoint()
    with rmqcore.open(store.root, services=False) as opened:
        assert opened.recovery.index.damage is not None
        opened.wait_dispatched()
        assert len(opened.query("T", "G0", index_type="T").messages) > indexed // 2
