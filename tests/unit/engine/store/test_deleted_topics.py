"""Topics that a broker deleted: their queue directories are gone, their messages are in the log (docs/compat.md)."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

import rmqcore
from rmqcore import Message

SETTINGS: dict[str, Any] = {
    "services": False,
    "mapped_file_size_commit_log": 1 << 14,
    "mapped_file_size_consume_queue": 20_000,
    "max_hash_slot_num": 100,
    "max_index_num": 1000,
}


def deleted(root: Path, *, clean: bool) -> None:
    """A store of five log files; the topic of the first 300 messages was deleted, and then it was closed or crashed."""
    with rmqcore.open(root, **SETTINGS) as store:
        for number in range(600):
            store.put(Message("old" if number < 300 else "kept", bytes(20))).raise_for_status()
        store.wait_dispatched()
    shutil.rmtree(root / "consumequeue" / "old")
    if not clean:
        (root / "abort").write_text("1")


@pytest.mark.parametrize(
    ("clean", "options", "back"),
    [
        (True, {}, False),
        (True, {"recover": "deep"}, True),
        (False, {}, True),
        (False, {"recover_check_bytes": 0}, False),
    ],
)
def test_when_it_comes_back(
    tmp_path: Path, clean: bool, options: dict[str, Any], back: bool
) -> None:
    """Nothing in the log says that a topic was deleted: a comparison with the log takes it for one that lost its queues."""
    root = tmp_path / "store"
    deleted(root, clean=clean)
    with rmqcore.open(root, **SETTINGS, **options) as store:
        store.wait_dispatched()
        assert store.topics() == (["kept", "old"] if back else ["kept"])
        assert store.max_offset("old", 0) == (300 if back else 0)


def test_how_to_be_rid_of_it(tmp_path: Path) -> None:
    root = tmp_path / "store"
    deleted(root, clean=False)
    with rmqcore.open(root, **SETTINGS) as store:
        assert "old" in store.topics()
    shutil.rmtree(root / "consumequeue" / "old")
    for _ in range(2):
        with rmqcore.open(root, **SETTINGS) as store:
            assert store.topics() == ["kept"]


def test_a_topic_that_is_made_again_keeps_its_new_messages(tmp_path: Path) -> None:
    """A later crash gives the queue no message of the topic's first life, neither before nor behind the new ones."""
    root = tmp_path / "store"
    deleted(root, clean=True)
    with rmqcore.open(root, **SETTINGS) as store:
        for number in range(5):
            assert store.put(Message("old", b"new %d" % number)).queue_offset == number
        store.wait_dispatched()
    (root / "abort").write_text("1")
    with rmqcore.open(root, **SETTINGS) as store:
        store.wait_dispatched()
        found = [bytes(view.body) for view in store.get("old", 0, 0).messages]
        assert found == [b"new %d" % number for number in range(5)]
        assert store.max_offset("old", 0) == 5
