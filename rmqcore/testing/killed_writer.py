"""A program to be killed: it puts, reads, closes and opens, and prints the messages that the store has acknowledged.

Each line is one write, and complete or missing: ``{"acked": [...]}`` after an acknowledgement, ``{"broken": "..."}``
when a reader got a message that was never put, ``{}`` when the store is open.
"""

from __future__ import annotations

import json
import os
import random
import threading
from pathlib import Path
from typing import Any

import rmqcore
from rmqcore.engine.store.store import MessageStore
from rmqcore.testing.crash_check import Acked, body_of, make_message, number_of, put
from rmqcore.testing.verdict import PromiseBrokenError, hold

RECENT = 200  # messages that the readers ask for


def say(**what: Any) -> None:
    """Write a line in one system call."""
    os.write(1, json.dumps(what).encode() + b"\n")


def life_settings(rng: random.Random) -> dict[str, Any]:
    """Choose the settings that may change from one open of a store to the next."""
    return {
        "flush_interval_commit_log": rng.choice((1, 20, 500)),
        "flush_commit_log_least_pages": rng.choice((0, 4)),
        "flush_interval_consume_queue": rng.choice((1, 20, 1000)),
        "flush_consume_queue_thorough_interval": rng.choice((1, 50, 60_000)),
        "enabled_append_prop_crc": rng.random() < 0.3,
        "warm_maped_file_enable": rng.random() < 0.2,
    }


class Life:
    """One open of the store: four threads that put, and readers.

    Parameters
    ----------
    store : MessageStore
    first : int
        Number of the first message.
    rng : random.Random
    readers : int
    """

    def __init__(self, store: MessageStore, first: int, rng: random.Random, readers: int) -> None:
        self._store = store
        self._guard = threading.Lock()
        self._next = first
        self._rng = rng
        self._readers = readers
        self._recent: list[Acked] = []
        self._over = threading.Event()

    def run(self, quota: int) -> int:
        """Have each thread put `quota` times; return the number of the next message."""
        seeds = [self._rng.randrange(1 << 30) for _ in range(4 + self._readers)]
        writers = [threading.Thread(target=self._write, args=(quota, s)) for s in seeds[:4]]
        readers = [threading.Thread(target=self._read, args=(s,)) for s in seeds[4:]]
        for thread in writers + readers:
            thread.start()
        for thread in writers:
            thread.join()
        self._over.set()
        for thread in readers:
            thread.join()
        return self._next

    def _take(self, count: int) -> range:
        with self._guard:
            first = self._next
            self._next += count
        return range(first, first + count)

    def _write(self, quota: int, seed: int) -> None:
        rng = random.Random(seed)
        for _ in range(quota):
            numbers = self._take(rng.choice((1, 1, 1, 1, 7)))
            if len(numbers) == 1:
                one = put(self._store, numbers[0])
                assert one is not None
                self._told([one])
            else:
                self._told(put_many(self._store, numbers))

    def _told(self, acked: list[Acked]) -> None:
        say(acked=[one.as_dict() for one in acked])
        self._recent = [*self._recent, *acked][-RECENT:]

    def _read(self, seed: int) -> None:
        rng = random.Random(seed)
        while not self._over.wait(0.001):
            recent = self._recent
            if not recent:
                continue
            try:
                look(self._store, rng.choice(recent), rng)
            except PromiseBrokenError as problem:
                say(broken=str(problem))


def put_many(store: MessageStore, numbers: range) -> list[Acked]:
    """Put messages in one call; all must be stored."""
    messages = [make_message(number) for number in numbers]
    result = store.put_many(messages)
    result.raise_for_status()
    return [
        Acked(message.topic, message.queue_id, int(queue_offset), int(phy_offset), number)
        for message, queue_offset, phy_offset, number in zip(
            messages, result.queue_offsets, result.phy_offsets, numbers, strict=True
        )
    ]


def look(store: MessageStore, one: Acked, rng: random.Random) -> None:
    """Read an acknowledged message in one of the ways; it may not be dispatched yet."""
    way = rng.randrange(3)
    if way == 0:
        view = store.lookup(one.phy_offset)
        hold(view is not None and view.body == one.body, "lookup does not find", one)
    elif way == 1:
        with store.get(one.topic, one.queue_id, one.queue_offset, 32) as result:
            for at, view in enumerate(result.messages, one.queue_offset):
                hold(view.queue_offset == at, "queue offset", view.queue_offset, "is served at", at)
                hold(view.body == body_of(number_of(view.body)), "another body than was put", at)
                hold(at != one.queue_offset or view.body == one.body, "another message than", one)
    else:
        hits = store.query(one.topic, one.key, 64).messages
        hold(all(one.key in view.keys for view in hits), "a query answers another key than", one)


def write(root: str, config: dict[str, Any], first: int, seed: int, readers: int = 2) -> None:
    """Open the store, put and read, and close it, again and again until the process is killed."""
    rng = random.Random(seed)
    while True:
        quota = rng.choice((1, 10, 200, 1000))
        with rmqcore.open(Path(root), **{**config, **life_settings(rng)}) as store:
            say()
            first = Life(store, first, rng, readers).run(quota)
