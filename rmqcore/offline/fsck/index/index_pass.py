"""The pass that checks every IndexFile entry against its record, and every key of a record against the index.

Keys are compared by hash and offset, a batch of the log at a time: usually the entries are exactly the batch's keys
in order. Otherwise both are counted. Java's own recovery leaves keys out and repeats others, and stores before 5.4 do
not index tags, so a key without an entry is no error; an entry that fits no key is an error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from rmqcore.codec import index_key_hash
from rmqcore.disk.paths import StorePaths
from rmqcore.offline.fsck.file_kinds import note_other_name, note_unreadable
from rmqcore.offline.fsck.findings import ERROR, WARNING, Findings
from rmqcore.offline.fsck.index.index_entries import Entries, IndexStream, Int64
from rmqcore.offline.fsck.index.index_file import check_ends, check_file, file_path
from rmqcore.offline.fsck.index.missing_keys import Missing, note_missing
from rmqcore.offline.fsck.log_batch import LogBatch
from rmqcore.offline.fsck.log_pass import LogAudit
from rmqcore.offline.index.index_files import IndexFileReader, find_index_files
from rmqcore.queries.index_match import Match, are_tags, match_entries, time_diffs

MOST_LOOKS = 20_000
MOST_KEYS = 1 << 20
"""How many keys are compared at once."""
MOST_ENTRIES = 1 << 20
"""And with how many entries: a sound index has one for each key, and few are there twice."""


class IndexAudit:
    """Compares the log's batches with the index files; with `in_rocksdb` there need not be any.

    Attributes
    ----------
    checked : int
        Entries compared with records.
    """

    def __init__(
        self,
        paths: StorePaths,
        log: LogAudit,
        findings: Findings,
        *,
        live: bool,
        in_rocksdb: bool = False,
    ) -> None:
        self.checked = 0
        self._in_rocksdb = in_rocksdb
        self._log = log
        self._findings = findings
        self._live = live
        self.readers = self._find(paths)
        self._stream = IndexStream(self.readers, self._check_file, self._unreadable, self._look_at)
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
        """Find the index files in log order: their names are wall time, which may go back."""
        found = find_index_files(
            paths,
            unreadable=lambda path, error: self._note_unreadable(f"index/{Path(path).name}", error),
        )
        own = []
        for reader in found:
            if reader.link_of is None:
                own.append(reader)
            else:
                note_other_name(file_path(reader), f"index/{reader.link_of}", self._findings)
        return sorted(own, key=lambda reader: (reader.header.begin_phy_offset, reader.path.name))

    def _unreadable(self, reader: IndexFileReader, error: OSError) -> None:
        self._note_unreadable(file_path(reader), error)

    def _note_unreadable(self, path: str, error: OSError) -> None:
        note_unreadable(path, error, self._findings)

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
        begin, self._done = self._done, batch.end_phy_offset
        missing: Int64 | None = None
        last = -1
        for parts in self._groups(begin, self._done):
            match, last_fitting = self._compare(batch, parts)
            last = max(last, last_fitting)
            missing = (
                match.missing
                if missing is None
                else np.intersect1d(missing, match.missing, assume_unique=True)
            )
        assert missing is not None
        self._count_missing(batch, missing, last)

    def _groups(self, begin: int, end: int) -> Iterator[list[Entries]]:
        """Yield the entries of [begin, end): those of a sound index in one group, any number of wrong ones in several."""
        parts: list[Entries] = []
        count = 0
        for entries in self._stream.take_below(end):
            early = int(np.searchsorted(entries.phy_offset, begin))
            if early:
                self._look_at(entries.part(0, early))
            if early < len(entries):
                parts.append(entries.part(early, None))
                count += len(parts[-1])
            if count > MOST_ENTRIES:
                yield parts
                parts, count = [], 0
        yield parts

    def _compare(self, batch: LogBatch, parts: list[Entries]) -> tuple[Match, int]:
        """Compare entries with the keys of a batch; answer also the place of the last one that fits, or -1."""
        phy_offset = _joined([part.phy_offset for part in parts], np.int64)
        hashes = _joined([part.key_hash for part in parts], np.int32)
        self.checked += len(phy_offset)
        if len(phy_offset) and len(batch.key_hashes):
            self._missing.merge(self._missing_at_end)
            self._missing_at_end = Missing()
        match = match_entries(
            batch.phy_offset, batch.key_offsets, batch.key_hashes, phy_offset, hashes
        )
        self._note_wrong(parts, np.flatnonzero(match.rows < 0), match.on_record)
        start = 0
        for part in parts:
            self._check_times(batch, part, match.rows[start : start + len(part)])
            start += len(part)
        fits = match.rows >= 0
        return match, int(phy_offset[fits][-1]) if fits.any() else -1

    def _count_missing(self, batch: LogBatch, missing: Int64, last: int) -> None:
        if not len(missing):
            return
        rows = np.searchsorted(batch.key_offsets, missing, side="right") - 1
        tags = are_tags(missing, batch.key_offsets, batch.tags_code, rows)
        offsets = batch.phy_offset[rows]
        behind = offsets > last
        self._missing.add(offsets[~behind], int(tags[~behind].sum()))
        self._missing_at_end.add(offsets[behind], int(tags[behind].sum()))

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
        by_hash = field == "KEYHASH"
        expected = "a hash of the record's keys" if by_hash else "the start of a record"
        found: Any = entries.key_hash if by_hash else entries.phy_offset

        def describe(place: int) -> tuple[str, object]:
            return f"entry {entries.index[place]} {what}", expected

        self._note_each(entries, places, field, found, describe, f"more: an entry {what}")

    def _check_times(self, batch: LogBatch, entries: Entries, rows: Int64) -> None:
        """Check TIMEDIFF: whole seconds after the file's begin, but the first entry may count from the file before."""
        begin = entries.reader.header.begin_timestamp_ms
        if begin <= 0:
            return
        expected = time_diffs(batch.store_timestamp_ms[rows], begin)
        wrong = np.flatnonzero((entries.time_diff != expected) & (rows >= 0) & (entries.index != 1))

        def describe(place: int) -> tuple[str, object]:
            message = (
                f"entry {entries.index[place]}: TIMEDIFF is {entries.time_diff[place]} s, its "
                f"record is {expected[place]} s after the file's start"
            )
            return message, int(expected[place])

        self._note_each(
            entries, wrong, "TIMEDIFF", entries.time_diff, describe, "more: a wrong TIMEDIFF"
        )

    def _note_each(
        self,
        entries: Entries,
        places: Int64,
        field: str,
        found: npt.NDArray[Any],
        describe: Callable[[int], tuple[str, object]],
        more: str,
    ) -> None:
        """Note a finding for each place, as `describe` words it with what it expects; `more` sums up the rest past the limit."""
        path = file_path(entries.reader)
        closer = min(len(places), self._findings.room("index_entry"))
        for place in places[:closer].tolist():
            message, expected = describe(place)
            self._findings.add(
                "index_entry",
                ERROR,
                path,
                message,
                phy_offset=int(entries.phy_offset[place]),
                field=field,
                expected=expected,
                found=int(found[place]),
            )
        if closer < len(places):
            self._findings.add("index_entry", ERROR, path, more, count=len(places) - closer)

    # ---- single entries -----------------------------------------------------------------------------

    def _look_at(self, entries: Entries) -> None:
        """Look at entries that are not where the log is: expired ones are skipped, others out of order are checked singly."""
        places = np.flatnonzero(entries.phy_offset >= self._log.log_min)
        negative = np.flatnonzero(entries.phy_offset < 0)
        self._note_entries(entries, negative, "PHYOFFSET", "points before the log")
        for place in places.tolist():
            self._looks += 1
            if self._looks > MOST_LOOKS:
                message = "more entries are out of order and were not checked"
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
                index_key_hash(view.topic, key) for key in keys if key
            }:
                self._note_entries(
                    entries, np.array([place]), "KEYHASH", "fits no key of its record"
                )

    def finish(self, *, growing: bool) -> None:
        """Judge the entries that are left at the end of the log; with `growing` the log has no settled end."""
        for entries in self._stream.rest():
            at = int(np.searchsorted(entries.phy_offset, self._done))
            self._look_at(entries.part(0, at))
            if at < len(entries) and not (growing or self._log.end_unreadable):
                self._note_beyond(entries.part(at, None))
        if self._in_rocksdb and not self.readers:
            return
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
            "index_entry",
            ERROR,
            file_path(entries.reader),
            f"{len(entries)} entries, {entries.index[0]} the first, point at or past the log's end",
            phy_offset=phy_offset,
            field="PHYOFFSET",
            expected=f"less than {self._done}",
            found=phy_offset,
            count=len(entries),
        )


def _joined(arrays: list[npt.NDArray[Any]], kind: type[Any]) -> npt.NDArray[Any]:
    return (
        arrays[0] if len(arrays) == 1 else np.concatenate(arrays) if arrays else np.empty(0, kind)
    )
