"""Readers beside a writer, all threads of one process: how much of its speed alone each keeps."""

from __future__ import annotations

import pathlib
import statistics
import tempfile
import threading
import time
from collections.abc import Callable
from functools import partial

from bench import build
from bench.report import Row
from rmqcore import Message, MessageStore
from rmqcore import open as open_store

TOPIC, OLD = "BenchTopic", "OldTopic"
QUEUES = 4
BODY = b"x" * 128
BACKLOG = 400_000
SECONDS = 2.0
ROUNDS = 5
KEPT = 0.6
"""Of its speed alone each side is to keep as much beside the others."""

Work = Callable[[threading.Event], int]
"""Works until it is told to stop; answers how many messages it took."""


def beside() -> list[Row]:
    """A producer alone, a consumer alone, and a producer with one and two consumers."""
    rates: dict[tuple[int, int], list[tuple[float, float]]] = {}
    build.BUILD.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory(dir=build.BUILD) as folder,
        open_store(pathlib.Path(folder, "store")) as store,
    ):
        fill(store)
        for _ in range(ROUNDS):
            for sides in ((1, 0), (0, 1), (1, 1), (1, 2)):
                rates.setdefault(sides, []).append(together(store, *sides))
    alone = middle(rates[1, 0], 0), middle(rates[0, 1], 1)
    rows = []
    for consumers in (1, 2):
        found = rates[1, consumers]
        for side, name in enumerate(("producer", "each consumer")):
            kept = middle(found, side) / alone[side]
            measured = f"{middle(found, side) / 1e6:.2f} M/s, alone {alone[side] / 1e6:.2f}"
            title = f"{name}, of a producer and {consumers} reading older messages"
            required = KEPT if consumers == 2 else None
            rows.append(Row("beside each other", title, measured, kept, required))
    return rows


def middle(rates: list[tuple[float, float]], side: int) -> float:
    return statistics.median(pair[side] for pair in rates)


def fill(store: MessageStore) -> None:
    messages = [Message(OLD, BODY, i % QUEUES, "TagA", f"k{i}") for i in range(1_000)]
    for _ in range(BACKLOG // len(messages)):
        store.put_many(messages)
    store.wait_dispatched()


def together(store: MessageStore, producers: int, consumers: int) -> tuple[float, float]:
    """Messages a second of one producer, and of one consumer in the middle."""
    works: list[Work] = [partial(produce, store)] * producers
    works += [partial(consume, store, queue_id) for queue_id in range(consumers)]
    stop = threading.Event()
    rates = [0.0] * len(works)

    def run(number: int, work: Work) -> None:
        began = time.perf_counter()
        count = work(stop)
        rates[number] = count / (time.perf_counter() - began)

    threads = [threading.Thread(target=run, args=pair) for pair in enumerate(works)]
    for thread in threads:
        thread.start()
    time.sleep(SECONDS)
    stop.set()
    for thread in threads:
        thread.join()
    store.wait_dispatched()
    put, got = rates[:producers], rates[producers:]
    return sum(put), statistics.mean(got) if got else 0.0


def produce(store: MessageStore, stop: threading.Event) -> int:
    put = store.put
    count = 0
    while not stop.is_set():
        for i in range(256):
            put(Message(TOPIC, BODY, i % QUEUES, "TagA", f"k{i}"))
        count += 256
    return count


def consume(store: MessageStore, queue_id: int, stop: threading.Event) -> int:
    count = queue_offset = 0
    while not stop.is_set():
        result = store.get(OLD, queue_id, queue_offset)
        got = len(result.bodies())
        queue_offset = result.next_begin_offset if got else 0
        count += got
    return count
