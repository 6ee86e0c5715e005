"""Checks that the database of RocksDB queues is readable, before its entries are compared with the log."""

from __future__ import annotations

import os

from rmqcore.disk.paths import StorePaths
from rmqcore.errors import RocksdbError
from rmqcore.offline.fsck.file_kinds import OtherNames
from rmqcore.offline.fsck.findings import ERROR, WARNING, Findings
from rmqcore.offline.rocksdb.database import QueueDatabase
from rmqcore.offline.rocksdb.queue_keys import CHECKPOINT_TOPIC, edge_of, queue_of_edge


class RocksdbNames:
    """Stands in for `QueueNames` where the queues are in a database.

    Parameters
    ----------
    paths : StorePaths
    database : QueueDatabase
    findings : Findings

    Attributes
    ----------
    other_names : OtherNames
        None: queues of a database have no files.
    total_bytes : int
        0: what is read of the database is not known beforehand.
    unlisted : set of str
        Queues whose entries cannot be read.
    """

    def __init__(self, paths: StorePaths, database: QueueDatabase, findings: Findings) -> None:
        self.other_names = OtherNames(findings)
        self.total_bytes = 0
        self.unlisted: set[str] = set()
        self._root = paths.root
        self._database = database
        self._findings = findings

    def check(self) -> bool:
        """Open the database and read where all queues begin and end; answer whether that could be done.

        Raises
        ------
        RocksdbMissingError
            The package that reads it is not installed.
        """
        try:
            odd = sum(not _is_sound(key, value) for key, value in self._database.offset_rows())
        except RocksdbError as error:
            self.unreadable(str(error.filename), error)
            return False
        if odd:
            self._findings.add(
                "rocksdb",
                WARNING,
                self._database.place.name,
                f"{odd} rows of column family offset do not belong to a queue, and were not checked",
                field="key",
                expected="topic, max or min, and queue id",
                found="another key or value",
                count=odd,
            )
        return True

    def unreadable(self, path: str, error: OSError) -> None:
        """Note that the database, or a queue of it, cannot be read; nothing more is said of that queue."""
        shown = os.path.relpath(path, self._root)
        self.unlisted.add(shown)
        self._findings.add(
            "rocksdb",
            ERROR,
            shown,
            error.strerror or str(error),
            field="database",
            expected="readable",
            found="damaged",
        )


def _is_sound(key: bytes, value: bytes) -> bool:
    queue = queue_of_edge(key)
    if queue is None:
        return False
    return len(value) == 8 if queue[0] == CHECKPOINT_TOPIC else edge_of(value) is not None
