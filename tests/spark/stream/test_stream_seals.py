"""A stream knows its log again by the seal in its offset: another log there is data loss, whatever the sizes of its records."""

from __future__ import annotations

import json
import logging
import shutil
from pathlib import Path
from typing import Any

import pytest
from support.spark.followed_stores import FollowedStores
from support.stores.left_bytes import recover_and_leave_bytes
from support.stores.live_log import LiveLog

import rmqcore
from rmqcore import Message
from rmqcore.engine.store.store import MessageStore
from rmqcore.errors import DataLossError
from rmqcore.spark.options.source_options import SourceOptions
from rmqcore.spark.rows.schema import columns_of
from rmqcore.spark.stream.cursor import StreamRules
from rmqcore.spark.stream.files import warn_once
from rmqcore.spark.stream.limits import Allowance
from rmqcore.spark.stream.stream_read import StreamRead

GUARDS = ["crc", "consumequeue", "none"]
SETTINGS: dict[str, Any] = {
    "mapped_file_size_commit_log": 64 * 1024,
    "mapped_file_size_consume_queue": 2000,
    "max_hash_slot_num": 100,
    "max_index_num": 400,
    "services": False,
}


@pytest.fixture(autouse=True)
def forget_warnings() -> None:
    warn_once.cache_clear()


def put(store: MessageStore, first: int, end: int) -> None:
    """Messages of equal sizes: a record of any other log begins where one of this log does."""
    messages = [Message("T", b"%08d" % number + b"x" * 80) for number in range(first, end)]
    store.put_many(messages).raise_for_status()
    while store.dispatch_once():
        pass


def fill(root: Path, first: int, end: int) -> Path:
    with rmqcore.open(root, **SETTINGS) as store:
        put(store, first, end)
    return root


def bodies(root: Path) -> list[int]:
    with rmqcore.read(root) as reader:
        return [int(bytes(message.body)[:8]) for message in reader.messages()]


def place_of(root: Path, number: int) -> int:
    with rmqcore.read(root) as reader:
        return [message.phy_offset for message in reader.messages()][number]


def cut_and_go_on(root: Path, at: int, count: int) -> None:
    """Cut the log before a message, as a power cut does, and let the broker go on with others."""
    cut = place_of(root, at)
    log = max(path for path in (root / "commitlog").iterdir() if int(path.name) <= cut)
    data = log.read_bytes()
    kept = cut - int(log.name)
    log.write_bytes(data[:kept].ljust(len(data), b"\0"))
    (root / "abort").touch()
    fill(root, 5000, 5000 + count)


@pytest.mark.parametrize("guard", GUARDS)
@pytest.mark.parametrize("restarted", [True, False])
def test_a_replaced_store_whose_records_begin_at_the_same_places(
    tmp_path: Path, guard: Any, restarted: bool
) -> None:
    root = fill(tmp_path / "broker-a", 0, 200)
    stream = FollowedStores(root, StreamRules(guard))
    assert len(stream.drain()) == 200
    shutil.rmtree(root)
    fill(root, 5000, 5400)
    if restarted:
        stream.restart()
    with pytest.raises(DataLossError, match=r"changed since they were read.*replaced"):
        stream.batch()


@pytest.mark.parametrize("guard", GUARDS)
@pytest.mark.parametrize("restarted", [True, False])
def test_a_log_that_was_cut_and_continued(tmp_path: Path, guard: Any, restarted: bool) -> None:
    """100 of 200 messages are lost, and 300 others follow: the first of these would be passed over."""
    root = fill(tmp_path / "broker-a", 0, 200)
    stream = FollowedStores(root, StreamRules(guard))
    stream.drain()
    cut_and_go_on(root, 100, 300)
    if restarted:
        stream.restart()
    with pytest.raises(DataLossError, match="the log was cut"):
        stream.batch()


def test_what_a_stream_reads_that_tolerates_data_loss(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It warns once, continues where it was, and has a new seal then."""
    root = fill(tmp_path / "broker-a", 0, 200)
    stream = FollowedStores(root, StreamRules(fail_on_data_loss=False))
    stream.drain()
    shutil.rmtree(root)
    fill(root, 5000, 5400)
    with caplog.at_level(logging.WARNING):
        assert len(stream.drain()) == 200
        assert stream.drain() == []
    assert len([one for one in caplog.messages if "were read" in one]) == 1
    fill(root, 6000, 6010)
    caplog.clear()
    assert len(stream.drain()) == 10
    assert caplog.messages == []


def test_a_batch_that_is_read_again_after_its_log_was_cut(tmp_path: Path) -> None:
    """Spark plans a batch of an earlier process from its two offsets, before it asks for a new one."""
    root = fill(tmp_path / "broker-a", 0, 200)
    stream = FollowedStores(root)
    start, seals = stream.at, stream.seals
    end = stream.follower.latest(start, Allowance(150), seals=seals)
    both = (seals, dict(stream.follower.seals))
    cut_and_go_on(root, 100, 300)
    stream.restart()
    with pytest.raises(DataLossError, match="the log was cut"):
        stream.read(start, end, seals=both)


def test_old_bytes_behind_the_end_are_told_at_a_restart(tmp_path: Path) -> None:
    """A recovery of RocketMQ cut the log and left its bytes: before the offset they are still those that were read."""
    root = fill(tmp_path / "broker-a", 0, 1500)
    stream = FollowedStores(root)
    stream.drain()
    recover_and_leave_bytes(
        root, place_of(root, 1495), lambda store: put(store, 5000, 5001), **SETTINGS
    )
    stream.seals = {}  # which covers all of this small cut
    stream.restart()
    with pytest.raises(DataLossError, match="older records follow"):
        stream.batch()


def test_checkpoints_without_seals_go_on(tmp_path: Path) -> None:
    root = fill(tmp_path / "broker-a", 0, 200)
    stream = FollowedStores(root)
    stream.batch(records=50)
    stream.seals = {}
    stream.restart()
    assert len(stream.drain()) == 150
    assert set(stream.seals) == {"broker-a"}


def test_files_that_the_cleaner_deleted_need_no_seal(tmp_path: Path) -> None:
    """A stream that ended with a file goes on in the next one, whether or not the file is still there."""
    log = LiveLog(tmp_path / "broker-a")
    while log.end < log.file_size:
        log.append()
    stream = FollowedStores(log.root)
    stream.drain()
    first = min((log.root / "commitlog").iterdir())
    at = dict(stream.follower.latest({"broker-a": 0}, Allowance(byte_count=log.file_size)))
    assert at == {"broker-a": log.file_size}
    stream.at, stream.seals = at, dict(stream.follower.seals)
    assert stream.seals
    first.unlink()
    stream.restart()
    log.append()
    assert len(stream.drain()) == 2


def stream_read(root: Path) -> StreamRead:
    options = SourceOptions.parse({"path": str(root)})
    return StreamRead(options, columns_of(options))


def test_the_offset_stays_the_same_text_while_nothing_is_new(tmp_path: Path) -> None:
    """Spark runs a batch whenever the text differs: the same place has the same seal in any process."""
    root = fill(tmp_path / "broker-a", 0, 200)
    read = stream_read(root)
    first = read.latest(read.initial(), Allowance())
    assert len(first["seals"]["broker-a"]) == 64
    for again in (read, stream_read(root)):
        assert json.dumps(again.latest(first, Allowance())) == json.dumps(first)
        assert json.dumps(again.present()) == json.dumps(first)
    old = {name: value for name, value in first.items() if name != "seals"}
    assert json.dumps(read.latest(old, Allowance())) == json.dumps(old)
    fill(root, 200, 201)
    assert read.latest(old, Allowance())["seals"] != first["seals"]


@pytest.mark.parametrize("seals", [{"a": 1}, [], "x"])
def test_seals_that_cannot_be(tmp_path: Path, seals: object) -> None:
    root = fill(tmp_path / "a", 0, 1)
    with pytest.raises(ValueError, match="seals of a stream offset are"):
        stream_read(root).latest({"v": 1, "stores": {"a": 0}, "seals": seals}, Allowance())
