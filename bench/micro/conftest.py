"""The records and the store that the micro benches share."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

import rmqcore
from rmqcore import Message, MessageStore, codec

BODY = b"x" * 128
RECORDS = 10_000
TOPIC = "BenchTopic"


def pytest_configure() -> None:
    """Refuse to measure another package than that of the tree that was asked for."""
    tree = os.environ.get("RMQCORE_BENCH_TREE")
    assert tree is None or Path(rmqcore.__file__).is_relative_to(tree), rmqcore.__file__


def message(number: int) -> Message:
    """A message as a broker gets them: a tag, a key."""
    return Message(TOPIC, BODY, number % 4, tags=f"Tag{number % 8}", keys=(f"K{number}",))


@pytest.fixture(scope="session")
def log() -> bytes:
    """`RECORDS` records, one after the other, as in a CommitLog file."""
    data = bytearray()
    for number in range(RECORDS):
        data += codec.encode(
            message(number),
            phy_offset=len(data),
            queue_offset=number // 4,
            store_timestamp_ms=1_700_000_000_000 + number,
        )
    return bytes(data)


@pytest.fixture(scope="session")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MessageStore]:
    """A store of `RECORDS` messages, all dispatched, with no thread beside."""
    root = tmp_path_factory.mktemp("bench") / "store"
    with rmqcore.open(root, services=False, mapped_file_size_commit_log=256 << 20) as store:
        for number in range(RECORDS):
            store.put(message(number))
        while store.dispatch_once():
            pass
        yield store
