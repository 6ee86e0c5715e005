"""Directories below ``consumequeue`` whose names are not UTF-8."""

from __future__ import annotations

import os
from pathlib import Path

import rmqcore
from rmqcore import Message
from rmqcore.disk.paths import StorePaths
from rmqcore.disk.queue_files import queue_directories
from rmqcore.offline.fsck import fsck
from rmqcore.testing.crash_check import TINY


def test_a_store_opens_beside_a_topic_directory_that_is_not_utf8(tmp_path: Path) -> None:
    """No topic has such a name, but `open` raised a UnicodeEncodeError, which said nothing of the store."""
    root = tmp_path / "store"
    with rmqcore.open(root, services=False, **TINY) as store:
        store.put(Message("T0", b"one"))
        while store.dispatch_once():
            pass
    odd = os.fsencode(root / "consumequeue") + b"/\xe9"
    os.rename(root / "consumequeue" / "T0", odd)
    (root / "consumequeue" / "T0" / "0").mkdir(parents=True)
    assert [topic for topic, _, _ in queue_directories(StorePaths(root))] == ["T0"]
    with rmqcore.open(root, services=False, **TINY) as store:
        assert [view.body for view in store.get("T0", 0, 0).messages] == [b"one"]
    assert os.path.isdir(odd)
    with rmqcore.read(root) as reader:
        assert [queue.topic for queue in reader.queues()] == ["T0"]
        assert (reader.info().topic_count, reader.info().queue_count) == (1, 1)
    (found,) = [finding for finding in fsck(root).findings if finding.kind == "file_name"]
    assert (found.path, found.field) == ("consumequeue/\udce9", "file name")
