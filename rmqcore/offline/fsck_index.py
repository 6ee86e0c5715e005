"""Every IndexFile entry against its record, and every key of a record against the index.

Keys are compared by hash and offset, a batch of the log at a time: usually the entries are exactly the batch's keys
in order. Otherwise both are counted. Java's own recovery leaves keys out and repeats others, and stores before 5.4 do
not index tags, so a key that is not there is no error; an entry that fits no key is.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from rmqcore._native.index import key_hash
from rmqcore.engine.paths import StorePaths
from rmqcore.offline.findings import ERROR, WARNING, Findings
from rmqcore.offline.fsck_batch import Flags, LogBatch
from rmqcore.offline.fsck_index_file import check_ends, check_file, file_path
from rmqcore.offline.fsck_index_missing import Missing, note_missing
from rmqcore.offline.fsck_index_stream import Entries, IndexStream, Int32, Int64
from rmqcore.offline.fsck_log import LogAudit
from rmqcore.offline.index_files import IndexFileReader, find_index_files

MOST_LOOKS = 20_000
MOST_KEYS = 1 << 20
"""Keys compared at once."""

INT32_MAX = 0x7FFFFFFF


class IndexAudit:
    """Compares the log's batches with the index.

    Attributes
    ----------
    checked : int
        Entries compared with records.
    """

    def __init__(self, paths: StorePaths, log: LogAudit, findings: Findings, *, live: bool) -> None:
        self.checked = 0
        self._log = log
        self._findings = findings
        self._live = live
        self.readers = self._find(paths)
        self._stream = IndexStream(self.readers, self._check_file, self._unreadable)
        self._done = log.log_min
        self._looks = 0
        self._missing = Missing()
        self._missing_at_end = Missing()

    @property
    def total_bytes(self) -> int:
        """Bytes of all index files."""
        return sum(reader.size for reader in self.readers)

    def _check_file(self, reader: IndexFileReader) -> None:
        live = self._live and reader is self.readers[-1]
        check_file(reader, self._findings, live=live)
        if not live and reader.header.index_count > 1:
            check_ends(reader, self._findings, self._log)

    def _find(self, paths: StorePaths) -> list[IndexFileReader]:
        """Index files in log order: names are wall time, which may go back."""
        try:
            found = find_index_files(paths)
        except OSError as error:
            self._note_unreadable("index", error)
            return []
        return sorted(found, key=lambda reader: (reader.header.begin_phy_offset, reader.path.name))

    def _unreadable(self, reader: IndexFileReader, error: OSError) -> None:
        self._note_unreadable(file_path(reader), error)

    def _note_unreadable(self, path: str, error: OSError) -> None:
        self._findings.add(
            "unreadable",
            ERROR,
            path,
            str(error),
            field="bytes",
            expected="readable",
            found=str(error),
        )

    # ---- one batch ----------------------------------------------------------------------------------

    def add(self, batch: LogBatch) -> None:
        """Compare a batch of records with the entries of its part of the log."""
        start = 0
        while start < len(batch):
            most = int(batch.key_offsets[start]) + MOST_KEYS
            stop = int(np.searchsorted(batch.key_offsets, most, side="right")) - 1
            stop = min(max(stop, start + 1), len(batch))
            self._add(batch if stop - start == len(batch) else batch.part(start, stop))
            start = stop

    def _add(self, batch: LogBatch) -> None:
        end = batch.end_phy_offset
        rows = np.repeat(np.arange(len(batch)), np.diff(batch.key_offsets))
        parts = []
        for entries in self._stream.take_below(end):
            early = int(np.searchsorted(entries.phy_offset, self._done))
            if early:
                self._look_at(entries.part(0, early))
            if early < len(entries):
                parts.append(entries.part(early, None))
        self._done = end
        phy_offset = _joined([part.phy_offset for part in parts], np.int64)
        hashes = _joined([part.key_hash for part in parts], np.int32)
        self.checked += len(phy_offset)
        if len(phy_offset) and len(rows):
            self._missing.merge(self._missing_at_end)
            self._missing_at_end = Missing()
        if np.array_equal(hashes, batch.key_hashes) and np.array_equal(
            phy_offset, batch.phy_offset[rows]
        ):
            found_rows: Int64 = rows
        else:
            found_rows = self._compare(batch, rows, parts, phy_offset, hashes)
        start = 0
        for part in parts:
            self._check_times(batch, part, found_rows[start : start + len(part)])
            start += len(part)

    def _compare(
        self, batch: LogBatch, rows: Int64, parts: list[Entries], phy_offset: Int64, hashes: Int32
    ) -> Int64:
        """Count keys and entries; answer each entry's row in the batch, -1 for those that fit none."""
        at = np.minimum(np.searchsorted(batch.phy_offset, phy_offset), len(batch) - 1)
        on_record = batch.phy_offset[at] == phy_offset
        wanted = (rows << 31) | batch.key_hashes
        found = np.where(on_record & (hashes >= 0), (at << 31) | hashes, -1)
        fits = _holds(np.sort(wanted), found)
        self._note_wrong(parts, np.flatnonzero(~fits), on_record)
        missing = np.flatnonzero(~_holds(np.sort(found), wanted))
        if len(missing):
            tags = (missing == batch.key_offsets[rows[missing] + 1] - 1) & (
                batch.tags_code[rows[missing]] != 0
            )
            offsets = batch.phy_offset[rows[missing]]
            last = int(phy_offset[fits][-1]) if fits.any() else -1
            behind = offsets > last
            self._missing.add(offsets[~behind], int(tags[~behind].sum()))
            self._missing_at_end.add(offsets[behind], int(tags[behind].sum()))
        return np.where(fits, at, -1)

    def _note_wrong(
        self, parts: list[Entries], wrong: Int64, on_record: npt.NDArray[np.bool_]
    ) -> None:
        start = 0
        for part in parts:
            own = wrong[(wrong >= start) & (wrong < start + len(part))] - start
            off_record = ~on_record[own + start]
            lost = np.zeros(len(own), bool)
            lost[off_record] = self._log.damage.holds(part.phy_offset[own[off_record]])
            self._note_entries(part, own[~off_record], "KEYHASH", "fits no key of its record")
            self._note_entries(
                part, own[off_record & ~lost], "PHYOFFSET", "points where no record starts"
            )
            start += len(part)

    def _note_entries(self, entries: Entries, places: Int64, field: str, what: str) -> None:
        values: Any = entries.key_hash if field == "KEYHASH" else entries.phy_offset
        closer = min(len(places), self._findings.room("index_entry"))
        for place in places[:closer].tolist():
            self._findings.add(
                "index_entry", ERROR, file_path(entries.reader), f"entry {entries.index[place]} {what}",
                phy_offset=int(entries.phy_offset[place]), field=field, expected="a hash of the record's keys" if
                field == "KEYHASH" else "the start of a record", found=int(values[place]),
            )  # fmt: skip
        if closer < len(places):
            left = len(places) - closer
            self._findings.add(
                "index_entry",
                ERROR,
                file_path(entries.reader),
                f"more: an entry {what}",
                count=left,
            )

    def _check_times(self, batch: LogBatch, entries: Entries, rows: Int64) -> None:
        """TIMEDIFF is whole seconds after the file's begin; the first entry may count from the file before."""
        begin = entries.reader.header.begin_timestamp_ms
        if begin <= 0:
            return
        expected = np.clip((batch.store_timestamp_ms[rows] - begin) // 1000, 0, INT32_MAX)
        wrong = np.flatnonzero((entries.time_diff != expected) & (rows >= 0) & (entries.index != 1))
        closer = min(len(wrong), self._findings.room("index_entry"))
        for place in wrong[:closer].tolist():
            self._findings.add(
                "index_entry", ERROR, file_path(entries.reader),
                f"entry {entries.index[place]}: TIMEDIFF is {entries.time_diff[place]} s, its record is "
                f"{expected[place]} s behind the file's begin",
                phy_offset=int(entries.phy_offset[place]), field="TIMEDIFF", expected=int(expected[place]),
                found=int(entries.time_diff[place]),
            )  # fmt: skip
        if closer < len(wrong):
            left = len(wrong) - closer
            self._findings.add(
                "index_entry",
                ERROR,
                file_path(entries.reader),
                "more: a wrong TIMEDIFF",
                count=left,
            )

    # ---- single entries -----------------------------------------------------------------------------

    def _look_at(self, entries: Entries) -> None:
        """Entries that point before the batch: expired, or out of order and looked at one by one."""
        places = np.flatnonzero(entries.phy_offset >= self._log.log_min)
        negative = np.flatnonzero(entries.phy_offset < 0)
        self._note_entries(entries, negative, "PHYOFFSET", "points before the log")
        for place in places.tolist():
            self._looks += 1
            if self._looks > MOST_LOOKS:
                message = "more entries out of order, not looked at"
                left = int((places >= place).sum())
                self._findings.add(
                    "index_entry", WARNING, file_path(entries.reader), message, count=left
                )
                return
            self.checked += 1
            view = self._log.record(int(entries.phy_offset[place]))
            where = entries.phy_offset[place : place + 1]
            if view is None:
                if not self._log.damage.holds(where)[0]:
                    self._note_entries(
                        entries, np.array([place]), "PHYOFFSET", "points where no record starts"
                    )
                continue
            keys = [view.uniq_key or "", *view.keys, f"T#{view.tags}"]
            if int(entries.key_hash[place]) not in {
                key_hash(view.topic, key) for key in keys if key
            }:
                self._note_entries(
                    entries, np.array([place]), "KEYHASH", "fits no key of its record"
                )

    def finish(self, *, growing: bool) -> None:
        """Judge what is left when the log has ended; `growing`: it did not, there was no end to wait for."""
        for entries in self._stream.rest():
            at = int(np.searchsorted(entries.phy_offset, self._done))
            self._look_at(entries.part(0, at))
            if at < len(entries) and not growing:
                self._note_beyond(entries.part(at, None))
        note_missing(
            self._findings,
            self._missing,
            self._missing_at_end,
            files=bool(self.readers),
            live=self._live,
        )

    def _note_beyond(self, entries: Entries) -> None:
        phy_offset = int(entries.phy_offset[0])
        self._findings.add(
            "index_entry", ERROR, file_path(entries.reader),
            f"{len(entries)} entries, {entries.index[0]} the first, point at or past the log's end",
            phy_offset=phy_offset, field="PHYOFFSET", expected=f"less than {self._done}", found=phy_offset,
            count=len(entries),
        )  # fmt: skip


def _joined(arrays: list[npt.NDArray[Any]], kind: type[Any]) -> npt.NDArray[Any]:
    return (
        arrays[0] if len(arrays) == 1 else np.concatenate(arrays) if arrays else np.empty(0, kind)
    )


def _holds(ordered: Int64, values: Int64) -> Flags:
    """Which values are among the ordered ones; `numpy.isin` takes ten times as long."""
    if not len(ordered):
        return np.zeros(len(values), bool)
    found: Flags = ordered[np.minimum(np.searchsorted(ordered, values), len(ordered) - 1)] == values
    return found
