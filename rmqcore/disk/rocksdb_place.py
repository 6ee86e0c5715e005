"""Recognises queues in RocksDB."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from rmqcore.disk.paths import StorePaths
from rmqcore.disk.store_kinds import first_topic, in_rocksdb, is_of_database


def rocksdb_place(paths: StorePaths) -> Path | None:
    """Find the directory of the database from which a store's queues are read; None where there are files of queues.

    A broker that writes both (rocksdbCQDoubleWriteEnable) reads the files, unless it is set otherwise.
    """
    place = in_rocksdb(paths)
    return None if place is None or first_topic(paths.consumequeue) is not None else place


def holds_database(names: Mapping[str, bool]) -> bool:
    """Return True if a directory with these names is a database without file queues; each name says if it is a directory."""
    return not any(names.values()) and any(map(is_of_database, names))
