"""Records to bytes and back."""

from __future__ import annotations

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from bench.micro.conftest import BODY, RECORDS, TOPIC, message
from rmqcore import Message, codec

PROPERTIES = {"TAGS": "TagA", "KEYS": "K1", "UNIQ_KEY": "7F00000100002A9F18B4AAC200010011"}
MANY = 1_000


def since(name: str) -> pytest.MarkDecorator:
    """Skip a bench on an older package that has no such function."""
    return pytest.mark.skipif(not hasattr(codec, name), reason=f"this package has no {name}")


def test_message(benchmark: BenchmarkFixture) -> None:
    made = benchmark(Message, TOPIC, BODY, 1, tags="TagA", keys=("K1",))
    assert made.topic == TOPIC


def test_encode(benchmark: BenchmarkFixture) -> None:
    first = message(0)
    record = benchmark(codec.encode, first, phy_offset=0, queue_offset=0, store_timestamp_ms=1)
    assert codec.decode(record).body == BODY


@since("encode_into")
def test_encode_into(benchmark: BenchmarkFixture) -> None:
    buffer = bytearray(1024)
    place = {"phy_offset": 0, "queue_offset": 0, "store_timestamp_ms": 1}
    size = benchmark(codec.encode_into, buffer, 0, message(0), **place)
    assert codec.decode(buffer).msg_size == size


@since("encode_many")
def test_encode_many(benchmark: BenchmarkFixture) -> None:
    messages = [message(number) for number in range(MANY)]
    assert benchmark(codec.encode_many, messages, phy_offset=0, store_timestamp_ms=1)


def test_decode(benchmark: BenchmarkFixture, log: bytes) -> None:
    assert benchmark(codec.decode, log).body == BODY


def test_decode_and_read(benchmark: BenchmarkFixture, log: bytes) -> None:
    """All that a consumer looks at, of a view that nobody has asked yet."""

    def read() -> tuple[object, ...]:
        view = codec.decode(log)
        return view.topic, view.body, view.tags, view.keys, view.queue_offset

    assert benchmark(read)[0] == TOPIC


@since("decode_all")
def test_decode_all(benchmark: BenchmarkFixture, log: bytes) -> None:
    assert len(benchmark(codec.decode_all, log)) == RECORDS


def test_encode_properties(benchmark: BenchmarkFixture) -> None:
    text = benchmark(codec.encode_properties, PROPERTIES)
    assert codec.decode_properties(text) == PROPERTIES


def test_decode_properties(benchmark: BenchmarkFixture) -> None:
    text = codec.encode_properties(PROPERTIES)
    assert benchmark(codec.decode_properties, text) == PROPERTIES


def test_pack_cq(benchmark: BenchmarkFixture) -> None:
    assert len(benchmark(codec.pack_cq, 248_000, 248, 2_598_919)) == 20


def test_unpack_cq(benchmark: BenchmarkFixture) -> None:
    entry = codec.pack_cq(248_000, 248, 2_598_919)
    assert benchmark(codec.unpack_cq, entry, 0) == (248_000, 248, 2_598_919)


def test_scan(benchmark: BenchmarkFixture, log: bytes) -> None:
    assert benchmark(codec.scan, log).num_rows == RECORDS


@pytest.mark.parametrize("length", [128, 1024, 65536])
def test_crc32(benchmark: BenchmarkFixture, length: int) -> None:
    assert benchmark(codec.body_crc, b"x" * length)
