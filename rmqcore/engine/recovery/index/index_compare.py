"""Index files compared with the log: a file's chains with its entries, its entries with the keys of the records."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from rmqcore._native.index.index_reader import INDEX_ENTRY_DTYPE, IndexFinding
from rmqcore._native.scan.batch import Batch
from rmqcore._native.scan.scan import ColumnScan
from rmqcore.config import MessageStoreConfig
from rmqcore.disk.index.index_check import check_index_file, two_versions_counted
from rmqcore.disk.index.index_entries import read_entries
from rmqcore.disk.paths import MAX_OFFSET
from rmqcore.engine.dispatch.dispatcher import Dispatcher
from rmqcore.engine.index.index_file import IndexFile
from rmqcore.engine.recovery.index.log_look import LogLook
from rmqcore.engine.recovery.index.signs import IndexDamage, NoQueues, places_proven
from rmqcore.engine.recovery.scan import Progress
from rmqcore.queries.index_match import are_tags, match_entries, time_diffs

Int64 = npt.NDArray[np.int64]
_NOTHING = np.empty(0, INDEX_ENTRY_DTYPE)


def check_chains(
    files: Sequence[IndexFile], progress: Progress | None = None
) -> IndexDamage | None:
    """Check the chains of each file: an entry must lead to the next older one of its slot, a slot to its newest entry.

    Raises
    ------
    OSError
        A file cannot be read.
    """
    done, total = 0, sum(file.file_size for file in files)
    for number, file in enumerate(files):
        check = check_index_file(
            file.path, file.file_size, file.found, file.native.slot_count, limit=8
        )
        wrong = [finding for finding in check.findings if not is_harmless(finding, file)]
        if wrong:
            index, field, expected, found = wrong[0]
            where = {"slot": f"slot {index}: "}.get(field, f"entry {index}: " if index else "")
            return IndexDamage(
                number, f"index/{file.name}: {where}{field} is {found}, expected {expected}"
            )
        done += file.file_size
        if progress is not None:
            progress(done, total)
    return None


def is_harmless(finding: IndexFinding, file: IndexFile) -> bool:
    """Return True if a sound file can have this: its clock went back, or two RocketMQ versions counted its slots."""
    return finding.field == "endTimestamp" or two_versions_counted(finding, file.found.index_count)


def compare_with_log(
    files: Sequence[IndexFile],
    log: LogLook,
    config: MessageStoreConfig,
    log_end: int,
    *,
    most_bytes: int,
    progress: Progress | None = None,
) -> tuple[IndexDamage | None, int]:
    """Compare the entries of the newest `most_bytes` of the indexed log with its records.

    Parameters
    ----------
    files : sequence of IndexFile
        Oldest first, without findings of `find_signs` and `check_chains`.
    log : CommitLog
    config : MessageStoreConfig
    log_end : int
        CommitLog offset behind the last record.
    most_bytes : int
        Most bytes of log to compare.
    progress : callable, optional
        Called with (bytes done, bytes in all).

    Returns
    -------
    (IndexDamage or None, int)
        The second is the number of log bytes read.

    Raises
    ------
    OSError
        A file cannot be read.
    """
    end = max((file.found.end_phy_offset for file in files), default=-1)
    begin = max(log.min_offset, end - most_bytes)
    if most_bytes <= 0 or end < begin or not places_proven(config):
        return None, 0
    start = _record_at(files, log, begin)
    sink = IndexCompare(files, start)
    feed = Dispatcher(log, NoQueues(), sink, config)
    feed.cq_from, feed.index_from = MAX_OFFSET, start
    while sink.damage is None and feed.index_from <= end and feed.dispatch_once(log_end):
        if progress is not None:
            progress(min(feed.index_from, end) - start, end - start)
    return sink.finish(), min(feed.index_from, log_end) - start


def _record_at(files: Sequence[IndexFile], log: LogLook, phy_offset: int) -> int:
    """Return the start of a record behind an offset that an index entry names, else the start of the log file."""
    for file in files:
        header = file.found
        if header.index_count > 1 and header.end_phy_offset >= phy_offset:
            if header.begin_phy_offset > phy_offset:
                break
            for _, entries in read_entries(
                file.path, file.native.slot_count, 1, header.index_count
            ):
                at = int(np.searchsorted(entries["phy_offset"], phy_offset))
                if at < len(entries):
                    return int(entries["phy_offset"][at])
    return max((start for start in log.file_starts() if start <= phy_offset), default=phy_offset)


@dataclass(slots=True)
class _Part:
    """Entries of one file, in order; `index` is the number of the first."""

    number: int
    index: int
    entries: npt.NDArray[Any]


class IndexCompare:
    """Receives batches of the log, as an index does, and compares their keys with the index's entries."""

    def __init__(self, files: Sequence[IndexFile], start: int) -> None:
        self.damage: IndexDamage | None = None
        self._files = files
        self._end = files[-1].found.end_phy_offset
        self._parts = self._read(start)
        self._next: _Part | None = next(self._parts, None)

    def _read(self, start: int) -> Iterator[_Part]:
        for number, file in enumerate(self._files):
            header = file.found
            if header.index_count <= 1 or header.end_phy_offset < start:
                continue
            for index, entries in read_entries(
                file.path, file.native.slot_count, 1, header.index_count
            ):
                early = int(np.searchsorted(entries["phy_offset"], start))
                if early < len(entries):
                    yield _Part(number, index + early, entries[early:])

    def _take_up_to(self, phy_offset: int) -> list[_Part]:
        """Return the next entries whose messages lie at an offset or before it."""
        taken = []
        while self._next is not None:
            part = self._next
            at = int(np.searchsorted(part.entries["phy_offset"], phy_offset, side="right"))
            if at:
                taken.append(_Part(part.number, part.index, part.entries[:at]))
            if at < len(part.entries):
                self._next = _Part(part.number, part.index + at, part.entries[at:])
                break
            self._next = next(self._parts, None)
        return taken

    def put_batch(self, scan: ColumnScan, batch: Batch, from_phy_offset: int) -> None:  # noqa: ARG002
        """Compare the rows from an offset on with the entries up to the last row."""
        if self.damage is not None:
            return
        phy_offsets = np.frombuffer(batch.buffer("phy_offset"), np.int64)
        first = int(np.searchsorted(phy_offsets, from_phy_offset))
        stop = int(np.searchsorted(phy_offsets, self._end, side="right"))
        if first >= stop:
            return
        rows = slice(first, stop)
        offsets = np.frombuffer(batch.buffer("key_hashes", "offsets"), np.int32)
        hashes = np.frombuffer(batch.buffer("key_hashes"), np.int32)
        self._compare(
            phy_offsets[rows],
            offsets[first : stop + 1] - offsets[first],
            hashes[offsets[first] : offsets[stop]],
            np.frombuffer(batch.buffer("tags_code"), np.int64)[rows],
            np.frombuffer(batch.buffer("store_timestamp_ms"), np.int64)[rows],
        )

    def _compare(
        self,
        phy_offsets: Int64,
        key_offsets: npt.NDArray[np.int32],
        key_hashes: npt.NDArray[np.int32],
        tags_codes: Int64,
        times: Int64,
    ) -> None:
        parts = self._take_up_to(int(phy_offsets[-1]))
        entries = np.concatenate([part.entries for part in parts]) if parts else _NOTHING
        match = match_entries(
            phy_offsets,
            key_offsets,
            key_hashes,
            entries["phy_offset"].astype(np.int64),
            entries["key_hash"].astype(np.int32),
        )
        start = 0
        for part in parts:
            self._check_part(part, match.rows[start : start + len(part.entries)], times)
            start += len(part.entries)
        if len(match.missing):
            rows = np.searchsorted(key_offsets, match.missing, side="right") - 1
            # Versions before 5.4 did not index tags. Keys of the newest message are always put again.
            lost = rows[
                ~are_tags(match.missing, key_offsets, tags_codes, rows)
                & (phy_offsets[rows] < self._end)
            ]
            if len(lost):
                self._note_missing(int(phy_offsets[lost[0]]))

    def _check_part(self, part: _Part, rows: Int64, times: Int64) -> None:
        file = self._files[part.number]
        wrong = rows < 0
        expected = time_diffs(times[rows], file.found.begin_timestamp_ms)
        if part.index == 1:
            # Times of the first entry count from the end of the file before it, which is unknown for the oldest file.
            before = self._files[part.number - 1].found if part.number else None
            expected[0] = (
                part.entries["time_diff"][0]
                if before is None
                else time_diffs(times[rows[:1]], before.end_timestamp_ms)[0]
            )
        wrong |= part.entries["time_diff"] != expected
        if wrong.any():
            at = int(np.argmax(wrong))
            self._note(
                part.number, f"entry {part.index + at} is not what the log says of its message"
            )

    def _note_missing(self, phy_offset: int) -> None:
        number = next(
            number
            for number, file in enumerate(self._files)
            if file.found.end_phy_offset >= phy_offset
        )
        self._note(number, f"a key of the message at {phy_offset} has no entry")

    def _note(self, number: int, what: str) -> None:
        if self.damage is None or number < self.damage.number:
            self.damage = IndexDamage(number, f"index/{self._files[number].name}: {what}")

    def finish(self, looked_up_to: int = MAX_OFFSET) -> IndexDamage | None:
        """Return the damage found; entries that no record matched point at a place without a record.

        Parameters
        ----------
        looked_up_to : int
            CommitLog offset behind the last record compared; entries from there on are of messages not looked at.
        """
        ahead = self._next
        if ahead is not None and int(ahead.entries["phy_offset"][0]) >= looked_up_to:
            ahead = None
        if self.damage is None and ahead is not None:
            self._note(ahead.number, f"entry {ahead.index} points where no record starts")
        return self.damage
