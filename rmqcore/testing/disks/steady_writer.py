"""A program to be killed: it writes at a steady rate into a store with all its threads, and reads at the same time."""

from __future__ import annotations

import random
import threading
import time
from pathlib import Path
from typing import Any

import rmqcore
from rmqcore.codec.message import Message
from rmqcore.engine.store.store import MessageStore
from rmqcore.services import clean
from rmqcore.testing.crash_check import Acked, body_of, number_of
from rmqcore.testing.killed_writer import look, say
from rmqcore.testing.verdict import PromiseBrokenError, hold

MESSAGES_A_SECOND = 1000
PAD = "x" * 12_000  # a property of each message: many bytes in few messages to check
TOLD_AT_ONCE = 20
TOPICS = 2
HELD_S = 0.2


def write(root: str, config: dict[str, Any], first: int, seed: int, faster: int) -> None:
    """Open the store, and put and read until the process is killed."""
    clean.FIRST /= faster
    store = rmqcore.open(Path(root), **config)
    say()
    recent: list[Acked] = []
    for target in (_query, _consume):
        threading.Thread(target=_told, args=(target, store, recent, seed), daemon=True).start()
    _steadily(store, first, recent)


def _steadily(store: MessageStore, first: int, recent: list[Acked]) -> None:
    began, done, refused = time.monotonic(), 0, 0
    waiting: list[Acked] = []
    while True:
        ahead = began + done / MESSAGES_A_SECOND - time.monotonic()
        if ahead > 0.005:
            time.sleep(ahead)
        number = first + done
        done += 1
        one = _put(store, number)
        if one is None:
            refused += 1
            time.sleep(0.01)
            continue
        waiting.append(one)
        if len(waiting) >= TOLD_AT_ONCE:
            say(acked=[one.as_dict() for one in waiting], refused=refused)
            recent[:] = [*recent[-100:], *waiting]
            waiting, refused = [], 0


def _put(store: MessageStore, number: int) -> Acked | None:
    topic, queue_id = f"T{number % TOPICS}", number // TOPICS % 2
    properties = {"PAD": PAD}
    result = store.put(Message(topic, body_of(number), queue_id, "A", (f"K{number}",), properties))
    if result.status.name != "PUT_OK":
        return None
    return Acked(topic, queue_id, result.queue_offset, result.phy_offset, number)


def _told(read: Any, store: MessageStore, recent: list[Acked], seed: int) -> None:
    try:
        read(store, recent, random.Random(seed))
    except PromiseBrokenError as problem:
        say(broken=str(problem))


def _query(store: MessageStore, recent: list[Acked], rng: random.Random) -> None:
    """Query messages that were put just before."""
    while True:
        time.sleep(0.003)
        if recent:
            look(store, rng.choice(recent[-30:]), rng)


def _consume(store: MessageStore, _recent: list[Acked], rng: random.Random) -> None:
    """Follow the queues from their first message on, slower than the writer, and hold some results for a while."""
    at = dict.fromkeys(
        ((f"T{number}", queue_id) for number in range(TOPICS) for queue_id in (0, 1)), 0
    )
    while True:
        time.sleep(0.01)
        for (topic, queue_id), queue_offset in at.items():
            with store.get(topic, queue_id, queue_offset) as result:
                # As in Java, messages whose file was deleted after the last cleaning of the queue are skipped.
                begin = result.messages[0].queue_offset if len(result.messages) else queue_offset
                hold(begin >= queue_offset, begin, "is served at", queue_offset)
                for expected, view in enumerate(result.messages, begin):
                    hold(view.queue_offset == expected, view.queue_offset, "is served at", expected)
                    hold(view.body == body_of(number_of(view.body)), "a body that was never put")
                if rng.random() < 0.02:
                    time.sleep(HELD_S)
                    for view in result.messages:  # its file may be deleted by now
                        hold(view.body == body_of(number_of(view.body)), "a held view changed")
                at[topic, queue_id] = result.next_begin_offset
