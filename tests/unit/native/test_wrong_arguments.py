"""A wrong argument is named, with what was expected and what was given.

`store.get("T", "0", 0)` was "'<=' not supported between instances of 'int' and 'str'", `reader.messages(queue_ids=["1"])`
"an integer is required", `lookup_id(3)` an AttributeError, and `reader.get("T", "0", 0)` answered as if asked for queue 0.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import rmqcore
from rmqcore import Message, StoreReader, codec
from rmqcore.engine.store.store import MessageStore
from rmqcore.errors.arguments import named

NOW = datetime.now(UTC)
LONG = "expected -9223372036854775808 to 9223372036854775807"
TEXT = "expected an iterable of str or None, got "
IDS = "queue_ids: expected int, an iterable of int or None, got "
EPOCH = "milliseconds since the epoch; use int(when.timestamp() * 1000)"
PATH = "expected str or a path-like of str, got "

OF_BOTH: list[tuple[str, tuple[Any, ...], dict[str, Any], str]] = [
    ("get", ("T", "0", 0), {}, "queue_id: expected int, got str"),
    ("get", ("T", None, 0), {}, "queue_id: expected int, got NoneType"),
    ("get", (b"T", 0, 0), {}, "topic: expected str, got bytes"),
    ("get", (["T"], 0, 0), {}, "topic: expected str, got list"),
    ("get", ("T", 0, "0"), {}, "queue_offset: expected int, got str"),
    ("get", ("T", 0, 1.5), {}, "queue_offset: expected int, got float"),
    ("get", ("T", 0, 0, "3"), {}, "max_messages: expected int, got str"),
    ("get", ("T", 0, 0, 2.5), {}, "max_messages: expected int, got float"),
    ("get", ("T", 0, 0, 0), {}, "max_messages is 0, expected at least 1"),
    ("get", ("T", 0, 0), {"tags": 3}, "tags: expected str or None, got int"),
    ("get", ("T", 0, 0), {"tags": ["a"]}, "tags: expected str or None, got list"),
    ("get", ("T", 0, 0), {"max_bytes": "1"}, "max_bytes: expected int or None, got str"),
    ("query", ("T", 3), {}, "key: expected str, got int"),
    ("query", (b"T", "k"), {}, "topic: expected str, got bytes"),
    ("query", ("T", "k", "3"), {}, "max_messages: expected int, got str"),
    ("query", ("T", "k", -1), {}, "max_messages is -1, expected at least 0"),
    ("query", ("T", "k", 1 << 70), {}, f"max_messages is {1 << 70}, {LONG}"),
    ("query", ("T", "k", 1, 1 << 70), {}, f"begin_ms is {1 << 70}, {LONG}"),
    ("query", ("T", "k"), {"end_ms": -1 << 70}, f"end_ms is {-1 << 70}, {LONG}"),
    ("query", ("T", "k"), {"end_ms": "1"}, "end_ms: expected int or None, got str: milliseconds since the epoch"),
    ("query", ("T", "k"), {"begin_ms": None}, "begin_ms: expected int, got NoneType: milliseconds since the epoch"),
    ("query", ("T", "k"), {"index_type": 3}, "index_type 3: expected None, 'K', 'U' or 'T'"),
    ("lookup", ("abc",), {}, "phy_offset: expected int, got str"),
    ("lookup", (None,), {}, "phy_offset: expected int, got NoneType"),
    ("lookup_id", (3,), {}, "msg_id: expected str, got int"),
    ("lookup_id", (b"00",), {}, "msg_id: expected str, got bytes"),
    ("offset_by_time", ("T", "0", 0), {}, "queue_id: expected int, got str"),
    ("offset_by_time", (3, 0, 0), {}, "topic: expected str, got int"),
    ("offset_by_time", ("T", 0, None), {}, "timestamp_ms: expected int, got NoneType: milliseconds since the epoch"),
    ("offset_by_time", ("T", 0, 0, 3), {}, "boundary 3: expected one of LOWER, UPPER"),
]  # fmt: skip
OF_STORES: list[tuple[str, tuple[Any, ...], dict[str, Any], str]] = [
    ("put", (None,), {}, "message: expected a Message, got NoneType"),
    ("put", (b"body",), {}, "message: expected a Message, got bytes"),
    ("append", ("x",), {}, "message: expected a Message, got str"),
    ("put_many", (None,), {}, "messages: expected an iterable of Message, got NoneType"),
    ("put_many", (Message("T", b""),), {}, "messages: expected an iterable of Message, got Message"),
    ("put_many", ([None],), {}, "put_many: message 0 is a NoneType, expected a Message"),
    ("put_batch", (3,), {}, "messages: expected an iterable of Message, got int"),
    ("put_batch", ([None],), {}, "put_batch: message 0 is a NoneType, expected a Message"),
    ("put_batch", ([Message("T", b""), "x"],), {}, "put_batch: message 1 is a str, expected a Message"),
    ("append_batch", (3,), {}, "messages: expected an iterable of Message, got int"),
    ("phy_offset_of", ("T", "0", 0), {}, "queue_id: expected int, got str"),
    ("phy_offset_of", ("T", 0, "0"), {}, "queue_offset: expected int, got str"),
    ("min_offset", (b"T", 0), {}, "topic: expected str, got bytes"),
    ("max_offset", ("T", None), {}, "queue_id: expected int, got NoneType"),
    ("wait_dispatched", ("1",), {}, "timeout: expected a number or None, got str"),
    ("read_range", ("0", 1), {}, "phy_offset: expected int, got str"),
    ("read_range", (0, None), {}, "max_bytes: expected int, got NoneType"),
    ("on_flushed", ("1", print, 10), {}, "end_phy_offset: expected int, got str"),
    ("on_flushed", (0, 3, 10), {}, "callback: expected a callable, got int"),
    ("on_flushed", (0, print, "10"), {}, "timeout_ms: expected int, got str"),
    ("replicated", ("0",), {}, "phy_offset: expected int, got str"),
    ("on_replicated", (None, print, 10), {}, "end_phy_offset: expected int, got NoneType"),
    ("on_replicated", (0, 3, 10), {}, "callback: expected a callable, got int"),
    ("on_replicated", (0, print, "10"), {}, "timeout_ms: expected int, got str"),
    ("on_dispatched", (3,), {}, "callback: expected a callable, got int"),
    ("clean_once", (), {"now_ms": "1"}, "now_ms: expected int or None, got str: milliseconds since the epoch"),
    ("clean_once", (), {"disk_ratio": "x"}, "disk_ratio: expected a number or None, got str"),
]  # fmt: skip
OF_READERS: list[tuple[str, tuple[Any, ...], dict[str, Any], str]] = [
    ("messages", (), {"queue_ids": ["1"]}, f"{IDS}str"),
    ("messages", (), {"queue_ids": "1"}, f"{IDS}str"),
    ("messages", (), {"queue_ids": [1.5]}, f"{IDS}float"),
    ("messages", (), {"queue_ids": 1.5}, f"{IDS}float"),
    ("messages", (), {"queue_ids": [1 << 40]}, f"queue_ids is {1 << 40}, expected -2147483648 to 2147483647"),
    ("messages", (), {"topics": [3]}, f"topics: {TEXT}int"),
    ("messages", (), {"tags": [b"a"]}, f"tags: {TEXT}bytes"),
    ("messages", (), {"start_phy_offset": "0"}, "start_phy_offset: expected int or None, got str"),
    ("messages", (), {"end_phy_offset": 1.5}, "end_phy_offset: expected int or None, got float"),
    ("messages", (), {"end_phy_offset": 1 << 70}, f"end_phy_offset is {1 << 70}, {LONG}"),
    ("messages", (), {"since_ms": 1 << 70}, f"since_ms is {1 << 70}, {LONG}"),
    ("messages", (), {"most_body": "1"}, "most_body: expected int, got str"),
    ("messages", (), {"most_body": -1}, "most_body is -1, expected at least 0"),
    ("messages", (), {"progress": 3}, "progress: expected a callable, got int"),
    ("batches", (3,), {}, "columns: expected an iterable of names, got int"),
    ("batches", (), {"batch_rows": "x"}, "batch_rows: expected int, got str"),
    ("batches", (), {"queue_ids": ["1"]}, f"{IDS}str"),
    ("message_at", ("0",), {}, "phy_offset: expected int, got str"),
]  # fmt: skip


@pytest.fixture
def store(tmp_path: Path) -> Iterator[MessageStore]:
    sizes: Any = {
        "mapped_file_size_commit_log": 1 << 16,
        "max_hash_slot_num": 10,
        "max_index_num": 99,
    }
    with rmqcore.open(tmp_path, services=False, **sizes) as opened:
        opened.put(Message("T", b"x", 0, "tag", "k"))
        opened.wait_dispatched()
        opened.flush()
        yield opened


@pytest.fixture
def reader(store: MessageStore) -> StoreReader:
    return rmqcore.read(store.paths.root)


def refused(
    answer: object, name: str, given: tuple[Any, ...], more: dict[str, Any], told: str
) -> None:
    # A test that injects an exception at every instruction can leave its own behind, as one that is being handled.
    handled = sys.exc_info()[1]
    with pytest.raises((TypeError, ValueError), match=f"^{re.escape(told)}$") as caught:
        getattr(answer, name)(*given, **more)
    assert caught.value.__context__ in (None, handled) or caught.value.__suppress_context__
    assert isinstance(caught.value, TypeError) == bool(re.search(" got | is an? ", told))


@pytest.mark.parametrize(("name", "given", "more", "told"), OF_BOTH)
def test_of_both(
    store: MessageStore,
    reader: StoreReader,
    name: str,
    given: tuple[Any, ...],
    more: dict[str, Any],
    told: str,
) -> None:
    refused(store, name, given, more, told)
    refused(reader, name, given, more, told)


@pytest.mark.parametrize(("name", "given", "more", "told"), OF_STORES)
def test_of_a_store(
    store: MessageStore, name: str, given: tuple[Any, ...], more: dict[str, Any], told: str
) -> None:
    before = store.max_phy_offset
    refused(store, name, given, more, told)
    assert store.max_phy_offset == before and not store.failed


@pytest.mark.parametrize(("name", "given", "more", "told"), OF_READERS)
def test_of_a_reader(
    reader: StoreReader, name: str, given: tuple[Any, ...], more: dict[str, Any], told: str
) -> None:
    refused(reader, name, given, more, told)


def test_bytes_of_another_log(tmp_path: Path) -> None:
    with rmqcore.open(tmp_path, services=False, broker_role="SLAVE") as slave:
        refused(slave, "append_raw", ("0", b""), {}, "phy_offset: expected int, got str")
        refused(slave, "append_raw", (0, "x"), {}, "data: expected bytes or another buffer, got str")  # fmt: skip


def test_of_open_and_read(tmp_path: Path) -> None:
    (tmp_path / "commitlog").mkdir()
    for name, given, more, told in (
        ("read", (3,), {}, f"path: {PATH}int"),
        ("read", (b"x",), {}, f"path: {PATH}bytes"),
        ("read", (tmp_path,), {"config": 3}, "config: expected a MessageStoreConfig or None, got int"),
        ("read", (tmp_path,), {"commitlog": 3}, "commitlog: expected an iterable of paths, or one path, got int"),
        ("open", (None,), {}, f"path: {PATH}NoneType"),
        ("open", (tmp_path,), {"clock": 3}, "clock: expected a callable, got int"),
        ("backup", (tmp_path, 3), {}, f"dest: {PATH}int"),
    ):  # fmt: skip
        refused(rmqcore, name, given, more, told)


def test_of_encode() -> None:
    numbers: dict[str, Any] = {"phy_offset": 0, "queue_offset": 0, "store_timestamp_ms": 0}
    message = Message("T", b"")
    refused(codec, "encode", (None,), numbers, "message: expected a Message, got NoneType")
    for name, value, told in (
        ("phy_offset", "0", "phy_offset: expected int, got str"),
        ("queue_offset", 1.5, "queue_offset: expected int, got float"),
        ("store_timestamp_ms", NOW, f"store_timestamp_ms: expected int, got datetime: {EPOCH}"),
    ):
        refused(codec, "encode", (message,), numbers | {name: value}, told)


def test_an_error_that_no_argument_has_made_stays_as_it_is() -> None:
    """What is only looked at where Python has refused something must not hide another fault."""
    error = TypeError("of something else")
    assert named(error, lambda *_: None, 1, 2) is error
