"""The same messages with the same clock, written by Java and by us: the same answers to every put, the same files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from interop.conftest import OpenJava
from interop.files import check_same_files
from interop.workload import CONFIGS, START_MS, Put, Workload, ours
from interop.writers import Clock, put_java, put_ours

import rmqcore
from rmqcore import Message
from rmqcore.engine.store.store import MessageStore

PUTS = 700
MANY = 60  # messages a call


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("name", CONFIGS)
def test_same_files(name: str, seed: int, java_open: OpenJava, tmp_path: Path) -> None:
    config, clock = CONFIGS[name], Clock()
    with java_open(tmp_path / "java", config) as java:
        want = put_java(java, Workload(seed, config).take(PUTS))
    store = rmqcore.open(tmp_path / "ours", services=False, clock=clock, **ours(config))
    with store:
        got = put_ours(store, clock, Workload(seed, config).take(PUTS))
    assert got == want
    check_same_files(tmp_path / "ours", tmp_path / "java")


def put_many(store: MessageStore, messages: list[Message]) -> tuple[list[int], list[int]]:
    done = store.put_many(messages)
    done.raise_for_status()
    return [int(o) for o in done.phy_offsets], [int(o) for o in done.queue_offsets]


def put_arrow(store: MessageStore, messages: list[Message]) -> tuple[list[int], list[int]]:
    pairs = pa.map_(pa.string(), pa.string())
    columns = {
        "topic": [m.topic for m in messages],
        "body": [bytes(m.body) for m in messages],
        "queue_id": [m.queue_id for m in messages],
        "properties": pa.array([list(m.properties.items()) for m in messages], pairs),
        "flag": [m.flag for m in messages],
        "sys_flag": [m.sys_flag for m in messages],
        "born_timestamp_ms": [m.born_timestamp_ms for m in messages],
        "born_host": [m.born_host for m in messages],
        "store_host": [m.store_host for m in messages],
        "reconsume_times": [m.reconsume_times for m in messages],
        "prepared_transaction_offset": [m.prepared_transaction_offset for m in messages],
    }
    done = store.put_arrow(pa.table(columns))
    done.raise_for_status()
    return [int(o) for o in done.phy_offsets], [int(o) for o in done.queue_offsets]


@pytest.mark.parametrize("put", [put_many, put_arrow])
@pytest.mark.parametrize("name", ["plain", "prop_crc"])
def test_many_at_once_are_what_java_puts_one_by_one(
    name: str,
    put: Callable[[MessageStore, list[Message]], tuple[list[int], list[int]]],
    java_open: OpenJava,
    tmp_path: Path,
) -> None:
    """All at one time: it is read once a call."""
    config, now_ms = CONFIGS[name], START_MS + 1
    messages = [p.messages[0] for p in Workload(9, config).take(PUTS) if not p.is_batch]
    with java_open(tmp_path / "java", config) as java:
        want = put_java(java, (Put([message], now_ms) for message in messages))
    got: tuple[list[int], list[int]] = [], []
    with rmqcore.open(
        tmp_path / "ours", services=False, clock=lambda: now_ms, **ours(config)
    ) as store:
        for start in range(0, len(messages), MANY):
            for whole, part in zip(got, put(store, messages[start : start + MANY]), strict=True):
                whole.extend(part)
            assert store.wait_dispatched(60)
    assert got[0] == [result["phy_offset"] for result in want]
    assert got[1] == [result["queue_offset"] for result in want]
    check_same_files(tmp_path / "ours", tmp_path / "java")
