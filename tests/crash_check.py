"""What must hold of a directory that a crash leaves: acknowledged messages are there, queues are dense, fsck finds nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import rmqcore
from rmqcore import Message
from rmqcore.engine.store import MessageStore
from rmqcore.offline.fsck import fsck

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
    """A message whose put was answered with PUT_OK."""

    topic: str
    queue_id: int
    queue_offset: int
    phy_offset: int
    number: int

    @property
    def body(self) -> bytes:
        return body_of(self.number)

    @property
    def key(self) -> str:
        return f"K{self.number}"

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def body_of(number: int) -> bytes:
    """A body that belongs to one number and to no other, of a length that varies."""
    return f"{number}:".encode() * (1 + number * 7 % 60)


def make_message(number: int, *, topics: int = 2, queues: int = 2, wait: bool = True) -> Message:
    """Message number `number`."""
    topic, queue_id = f"T{number % topics}", number // topics % queues
    properties = {} if wait else {"WAIT": "false"}
    return Message(
        topic, body_of(number), queue_id, keys=(f"K{number}",), tags="A", properties=properties
    )


def put(store: MessageStore, number: int, **how: Any) -> Acked | None:
    """Put message number `number`; None when it was not answered with PUT_OK."""
    message = make_message(number, **how)
    result = store.put(message)
    if result.status.name != "PUT_OK":
        return None
    return Acked(message.topic, message.queue_id, result.queue_offset, result.phy_offset, number)


def drain(store: MessageStore) -> None:
    """Dispatch all there is."""
    while store.dispatch_once():
        pass
    assert store.dispatch_behind_bytes == 0, store.stats()


def check_directory(
    root: Path, acked: Iterable[Acked], config: Mapping[str, Any] = TINY, *, twice: bool = True
) -> dict[str, Any]:
    """Open it as after a crash and hold it against what was acknowledged; answer what the recovery did."""
    store = rmqcore.open(root, services=False, **config)
    try:
        drain(store)
        check_store(store, acked)
        end = store.max_phy_offset
        report = {"cut_bytes": store.recovery.cut_bytes, "max_phy_offset": end}
    finally:
        store.close()
    if end:
        found = fsck(root)
        assert found.exit_code == 0, [str(finding) for finding in found.findings]
    if twice:
        again = rmqcore.open(root, services=False, **config)
        with again:
            assert again.recovery.cut_bytes == 0
            assert again.max_phy_offset == end
            drain(again)
            check_store(again, acked)
    return report


def check_store(store: MessageStore, acked: Iterable[Acked]) -> None:
    """Hold an open and dispatched store against what was acknowledged."""
    seen: dict[int, tuple[str, int, int, int]] = {}
    for topic, queue_id in store.queues():
        low, high = store.min_offset(topic, queue_id), store.max_offset(topic, queue_id)
        at = low
        while at < high:
            with store.get(topic, queue_id, at) as result:
                assert result.status.name == "FOUND", (topic, queue_id, at, high, result.status)
                for view in result.messages:
                    assert view.queue_offset == at, (topic, queue_id, at, view.queue_offset)
                    number = int(view.body.split(b":", 1)[0])
                    assert view.body == body_of(number)
                    assert number not in seen, "a message came twice"
                    seen[number] = topic, queue_id, at, view.phy_offset
                    at += 1
                assert result.next_begin_offset == at
    for one in acked:
        place = one.topic, one.queue_id, one.queue_offset, one.phy_offset
        assert seen.get(one.number) == place, f"acknowledged {one}, found {seen.get(one.number)}"
        found = store.lookup(one.phy_offset)
        assert found is not None and found.body == one.body
        hits = store.query(one.topic, one.key, 64)
        assert [hit.phy_offset for hit in hits.messages].count(one.phy_offset) == 1, one
