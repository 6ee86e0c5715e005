"""The pass that checks the index in RocksDB: it can be read, and its entries lead to records with their keys."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby, islice

import numpy as np

from rmqcore._native.format.codec import MessageView
from rmqcore.disk.store_kinds import INDEX_DATABASE
from rmqcore.errors import RocksdbError
from rmqcore.offline.fsck.findings import ERROR, INFO, WARNING, Findings
from rmqcore.offline.fsck.log_pass import LogAudit
from rmqcore.offline.rocksdb.index_database import IndexDatabase
from rmqcore.offline.rocksdb.index_keys import LAST_OFFSET, LAST_TIME, Row, row_of, texts_of

CHUNK = 1 << 14
"""Entries that are sorted by offset before their records are read: those of a message lie apart."""
MOST_COMPARED = 1_000_000
"""Entries that are compared with their records, which are read one by one; of others the shape is checked."""


class IndexDatabaseAudit:
    """Compares the index in RocksDB with the log.

    Parameters
    ----------
    database : IndexDatabase
    findings : Findings

    Attributes
    ----------
    checked : int
        Entries compared with records.
    holds_index : bool
        The database has an index, not only timers or transactions.

    Raises
    ------
    RocksdbMissingError
        The package that reads it is not installed.
    """

    def __init__(self, database: IndexDatabase, findings: Findings) -> None:
        self.checked = 0
        self.holds_index = True
        self._database = database
        self._findings = findings
        self._readable = True
        try:
            self.holds_index = database.end() is not None
        except RocksdbError as error:
            self._unreadable(error)

    def _unreadable(self, error: RocksdbError) -> None:
        self._readable = False
        self._findings.add(
            "rocksdb",
            ERROR,
            INDEX_DATABASE,
            f"{error.filename}: {error.strerror}",
            field="database",
            expected="readable",
            found="damaged",
        )

    def finish(self, log: LogAudit, *, unclean: bool) -> None:
        """Compare the entries; `unclean` allows entries behind the end of the log."""
        if not self._readable:
            return
        try:
            entries = self._rows()
            while rows := list(islice(entries, CHUNK)):
                self._compare(log, rows, unclean=unclean)
        except RocksdbError as error:
            self._unreadable(error)
        if self.checked >= MOST_COMPARED:
            self._findings.add(
                "index_entry",
                INFO,
                INDEX_DATABASE,
                f"{self.checked} entries were compared with their records, others only with the end of the log",
            )

    def _rows(self) -> Iterator[Row]:
        for key, value in self._database.rows():
            row = row_of(key, value)
            if row is not None:
                yield row
            elif key not in (LAST_OFFSET, LAST_TIME):
                self._note(None, f"the entry {key!r} is not a key of the index")

    def _compare(self, log: LogAudit, rows: list[Row], *, unclean: bool) -> None:
        for phy_offset, group in groupby(sorted(rows), key=lambda row: row.phy_offset):
            texts = [row.text for row in group]
            if phy_offset >= log.log_end:
                if not (unclean or log.end_unreadable):
                    self._note(
                        phy_offset,
                        "points at or past the log's end",
                        texts,
                        f"less than {log.log_end}",
                    )
            elif phy_offset >= log.log_min and self.checked < MOST_COMPARED:
                self.checked += len(texts)
                self._compare_with(log.record(phy_offset), phy_offset, texts, log)
            elif phy_offset < 0:
                self._note(phy_offset, "points before the log", texts)

    def _compare_with(
        self, view: MessageView | None, phy_offset: int, texts: list[bytes], log: LogAudit
    ) -> None:
        if view is None:
            if not log.damage.holds(np.array([phy_offset]))[0]:
                self._note(phy_offset, "points where no record starts", texts)
            return
        own = texts_of(view.topic, view.uniq_key or "", view.keys, view.tags)
        wrong = [text for text in texts if text not in own]
        if wrong:
            self._note(phy_offset, "fits no key of its record", wrong)

    def _note(
        self,
        phy_offset: int | None,
        what: str,
        texts: list[bytes] | None = None,
        expected: str = "the start of a record with that key",
    ) -> None:
        shown = f"entry {texts[0].decode(errors='replace')} {what}" if texts else what
        self._findings.add(
            "index_entry",
            WARNING,
            INDEX_DATABASE,
            shown,
            phy_offset=phy_offset,
            field="key",
            expected=expected,
            found=shown,
            count=len(texts or [b""]),
        )
