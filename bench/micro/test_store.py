"""An open store without threads: what a caller waits for."""

from __future__ import annotations

from itertools import count
from typing import Any

from pytest_benchmark.fixture import BenchmarkFixture

from bench.micro.conftest import RECORDS, TOPIC, message
from rmqcore import Message, MessageStore

BATCH = 256


def test_put(benchmark: BenchmarkFixture, store: MessageStore) -> None:
    numbers = count()

    def fresh() -> tuple[tuple[Message], dict[str, Any]]:
        return (message(next(numbers)),), {}

    put = benchmark.pedantic(store.put, setup=fresh, rounds=20_000, warmup_rounds=1000)  # type: ignore[no-untyped-call]
    put.raise_for_status()


def test_put_many(benchmark: BenchmarkFixture, store: MessageStore) -> None:
    def fresh() -> tuple[tuple[list[Message]], dict[str, Any]]:
        return ([message(number) for number in range(BATCH)],), {}

    many = benchmark.pedantic(store.put_many, setup=fresh, rounds=300, warmup_rounds=20)  # type: ignore[no-untyped-call]
    assert len(many) == BATCH


def test_get(benchmark: BenchmarkFixture, store: MessageStore) -> None:
    with benchmark(store.get, TOPIC, 0, 0, 32) as found:
        assert len(found.messages) == 32


def test_query(benchmark: BenchmarkFixture, store: MessageStore) -> None:
    key = f"K{RECORDS // 2}"
    assert benchmark(store.query, TOPIC, key, 32).messages
