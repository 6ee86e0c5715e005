"""Records to bytes and back."""

from __future__ import annotations

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from bench.micro.conftest import BODY, RECORDS, TOPIC, message
from rmqcore import Message, codec


def test_message(benchmark: BenchmarkFixture) -> None:
    made = benchmark(Message, TOPIC, BODY, 1, tags="TagA", keys=("K1",))
    assert made.topic == TOPIC


def test_encode(benchmark: BenchmarkFixture) -> None:
    first = message(0)
    record = benchmark(codec.encode, first, phy_offset=0, queue_offset=0, store_timestamp_ms=1)
    assert codec.decode(record).body == BODY


def test_decode(benchmark: BenchmarkFixture, log: bytes) -> None:
    assert benchmark(codec.decode, log).body == BODY


def test_decode_and_read(benchmark: BenchmarkFixture, log: bytes) -> None:
    """All that a consumer looks at, of a view that nobody has asked yet."""

    def read() -> tuple[object, ...]:
        view = codec.decode(log)
        return view.topic, view.body, view.tags, view.keys, view.queue_offset

    assert benchmark(read)[0] == TOPIC


def test_scan(benchmark: BenchmarkFixture, log: bytes) -> None:
    assert benchmark(codec.scan, log).num_rows == RECORDS


@pytest.mark.parametrize("length", [128, 1024, 65536])
def test_crc32(benchmark: BenchmarkFixture, length: int) -> None:
    assert benchmark(codec.body_crc, b"x" * length)
