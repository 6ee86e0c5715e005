"""Stores whose logs, queues and indexes have many small files, for tests of what is deleted."""

from __future__ import annotations

import time
from typing import Any

from rmqcore import Message, MessageStore

NOON = 1_773_144_000_000
"""A moment in March 2026, milliseconds."""


def settings(file_size: int, **more: Any) -> dict[str, Any]:
    """Files of the log of so many bytes, and small ones of queues and index; expired files go at any hour."""
    return {
        "services": False,
        "mapped_file_size_commit_log": file_size,
        "mapped_file_size_consume_queue": 400,
        "max_hash_slot_num": 16,
        "max_index_num": 40,
        "delete_when": ";".join(f"{hour:02}" for hour in range(24)),
        **more,
    }


def another_hour(now_ms: int = NOON) -> str:
    """An hour for `delete_when` that is not that of the moment, in whatever time zone."""
    return f"{(time.localtime(now_ms / 1000).tm_hour + 12) % 24:02}"


def fill(store: MessageStore, files: int) -> None:
    """Put messages of two topics until the log has so many files with something in them; all in the queues and on disk."""
    file_size, number = store.config.mapped_file_size_commit_log, 0
    while store.max_phy_offset < files * file_size - file_size // 2:
        store.put(Message(f"T{number % 2}", bytes(1000), 0, keys=f"k{number}")).raise_for_status()
        number += 1
    settle(store)


def settle(store: MessageStore) -> None:
    """Bring the log to disk and into the queues."""
    store.flush()
    while store.dispatch_once():
        pass
