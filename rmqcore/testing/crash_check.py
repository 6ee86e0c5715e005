"""Checks of a directory after a crash: acknowledged messages exist, queues have no holes, fsck finds no fault."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import rmqcore
from rmqcore.codec.message import Message
from rmqcore.engine.store.store import MessageStore
from rmqcore.offline.fsck import fsck
from rmqcore.testing.verdict import broken, hold
from rmqcore.vocabulary.properties import WAIT

TINY: dict[str, Any] = {
    "mapped_file_size_commit_log": 16 * 1024,
    "mapped_file_size_consume_queue": 20 * 16,
    "max_hash_slot_num": 16,
    "max_index_num": 64,
    "commit_log_recover_max_num": 1_000_000,  # so few bytes a file: dispatch may be more than 10 behind
}
"""Files so small that a few hundred messages roll all of them."""


@dataclass(frozen=True)
class Acked:
    """A message whose put returned PUT_OK."""

    topic: str
    queue_id: int
    queue_offset: int
    phy_offset: int
    number: int

    @property
    def body(self) -> bytes:
        """The body of the message."""
        return body_of(self.number)

    @property
    def key(self) -> str:
        """The key of the message."""
        return f"K{self.number}"

    def as_dict(self) -> dict[str, Any]:
        """Return the attributes by name."""
        return asdict(self)


def body_of(number: int) -> bytes:
    """Return the body for a number, which no other number has, of a length that varies."""
    return f"{number}:".encode() * (1 + number * 7 % 60)


def make_message(number: int, *, topics: int = 2, queues: int = 2, wait: bool = True) -> Message:
    """Return message number `number`."""
    topic, queue_id = f"T{number % topics}", number // topics % queues
    properties = {} if wait else {WAIT: "false"}
    return Message(
        topic, body_of(number), queue_id, keys=(f"K{number}",), tags="A", properties=properties
    )


def put(store: MessageStore, number: int, **how: Any) -> Acked | None:
    """Put message number `number`; return None if the status is not PUT_OK."""
    message = make_message(number, **how)
    result = store.put(message)
    if result.status.name != "PUT_OK":
        return None
    return Acked(message.topic, message.queue_id, result.queue_offset, result.phy_offset, number)


def drain(store: MessageStore) -> None:
    """Dispatch the whole log."""
    while store.dispatch_once():
        pass
    hold(store.dispatch_behind_bytes == 0, "dispatch stays behind:", store.stats())


def check_directory(
    root: Path, acked: Iterable[Acked], config: Mapping[str, Any] = TINY, *, twice: bool = True
) -> dict[str, Any]:
    """Open a directory as after a crash and compare it with the acknowledged messages; return the recovery's report."""
    acked = list(acked)
    store = rmqcore.open(root, services=False, **config)
    try:
        drain(store)
        check_store(store, acked)
        end = store.max_phy_offset
        report = {"cut_bytes": store.recovery.cut_bytes, "max_phy_offset": end}
    finally:
        store.close()
    if end:
        found = fsck(root, commitlog=config.get("store_path_commit_log"))
        hold(found.exit_code == 0, "fsck after the recovery:", *map(str, found.findings[:5]))
    if twice:
        with rmqcore.open(root, services=False, **config) as again:
            cut = again.recovery.cut_bytes
            hold(cut == 0, "the second open cuts", cut, "bytes")
            hold(again.max_phy_offset == end, "the second open ends at", again.max_phy_offset, end)
            drain(again)
            check_store(again, acked)
    return report


def check_store(store: MessageStore, acked: Iterable[Acked]) -> None:
    """Compare an open and dispatched store with the acknowledged messages."""
    seen: dict[int, tuple[str, int, int, int]] = {}
    for topic, queue_id in store.queues():
        _walk(store, topic, queue_id, seen)
    for one in acked:
        place = one.topic, one.queue_id, one.queue_offset, one.phy_offset
        hold(seen.get(one.number) == place, "acknowledged:", one, "found:", seen.get(one.number))
        found = store.lookup(one.phy_offset)
        hold(found is not None and found.body == one.body, "lookup does not find", one)
        hits = store.query(one.topic, one.key, 64)
        times = [hit.phy_offset for hit in hits.messages].count(one.phy_offset)
        hold(times == 1, "by its key", one, "is found", times, "times")


def _walk(
    store: MessageStore, topic: str, queue_id: int, seen: dict[int, tuple[str, int, int, int]]
) -> None:
    """Read a whole queue, and check that it has no hole, and every message once, at its place and with its body."""
    at, high = store.min_offset(topic, queue_id), store.max_offset(topic, queue_id)
    while at < high:
        with store.get(topic, queue_id, at) as result:
            hold(result.status.name == "FOUND", topic, queue_id, at, "of", high, result.status.name)
            for view in result.messages:
                place = topic, queue_id, at, view.phy_offset
                hold(
                    view.queue_offset == at,
                    "queue offset",
                    view.queue_offset,
                    "is served at",
                    place,
                )
                number = number_of(view.body)
                hold(view.body == body_of(number), "another body than was put, at", place)
                hold(
                    number not in seen, "message", number, "came twice, at", seen.get(number), place
                )
                seen[number] = place
                at += 1
            hold(result.next_begin_offset == at, topic, queue_id, at, result.next_begin_offset)


def number_of(body: bytes) -> int:
    """Return the number of the message with this body."""
    number, colon, _ = body.partition(b":")
    if not (colon and number.isdigit()):
        broken("a body that was never put:", body[:40])
    return int(number)
