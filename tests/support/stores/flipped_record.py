"""A store in whose log one bit of a record's place is flipped."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import rmqcore
from rmqcore import Message, MessageView

SIZES: dict[str, Any] = {
    "mapped_file_size_commit_log": 64 << 10,
    "mapped_file_size_consume_queue": 2000,
    "max_hash_slot_num": 100,
    "max_index_num": 400,
}


def flipped(root: Path, position: int | None, mask: int, which: int = -1) -> MessageView:
    """Make a closed store with bits flipped in a record of Orders 0, and return the record as it was.

    Parameters
    ----------
    root
    position
        Of the byte in the record; None: the first one of its topic.
    mask
        Bits to flip.
    which
        The record, by its number in the queue.
    """
    with rmqcore.open(root, services=False, **SIZES) as store:
        for number in range(40):
            topic, queue_id = ("Orders", "Bills")[number % 2], number % 4 // 2
            store.put(Message(topic, b"x" * 300, queue_id, keys=[f"k{number}"])).raise_for_status()
        while store.dispatch_behind_bytes:
            store.dispatch_once()
    with rmqcore.read(root) as reader:
        view = [one for one in reader.messages() if (one.topic, one.queue_id) == ("Orders", 0)][
            which
        ]
    path = root / "commitlog" / f"{0:020}"
    data = bytearray(path.read_bytes())
    at = position if position is not None else bytes(view.raw).rindex(b"Orders")
    data[view.phy_offset + at] ^= mask
    path.write_bytes(data)
    return view
