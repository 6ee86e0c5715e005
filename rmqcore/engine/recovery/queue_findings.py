"""Comparison of a recovery's part of the log with the queues, and its findings; files are only read.

A recovery compares:

1. Every record of the recovery's scan; after a clean exit only those of the newest `CLEAN_BYTES`, but all of them if
   these records or the signs of 3 and 4 show a fault.
2. After an unclean exit, or where a queue has entries behind its last record, older files, newest first, until
   ``recover_check_bytes`` of log have been compared.
3. Files of any age with messages whose entries are missing or wrong by the queues' own files (`QueueShape`).
4. If a sound queue may look the same (it starts behind offset 0, or ends where a file ends): files before or behind its
   entries, until ``recover_check_bytes`` of log have been compared without a finding.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field

import numpy as np

from rmqcore._native.files.mapped_file import MappedFile
from rmqcore._native.format.layout import CQ_FILLER_SIZE, CQ_STORE_UNIT_SIZE
from rmqcore._native.scan.batch import Batch
from rmqcore._native.scan.scan import ColumnScan
from rmqcore.config import MessageStoreConfig
from rmqcore.disk.misnamed import Misnamed
from rmqcore.disk.queue_shape import Suspect
from rmqcore.engine.log.commitlog import CommitLog
from rmqcore.engine.queues.consume_queues import ConsumeQueues
from rmqcore.engine.recovery import heal
from rmqcore.engine.recovery.file_scan import LostBytes, PassedOver
from rmqcore.engine.recovery.misnamed import (
    misnamed_among,
    misnamed_at_the_end,
)
from rmqcore.engine.recovery.queue_end import QueueEnds
from rmqcore.engine.recovery.queue_maker import QueueMaker
from rmqcore.engine.recovery.record_compare import Longs, RecordCompare, Unplaced
from rmqcore.vocabulary.topics import QueueKey

MADE_QUEUES = 256
"""Most queues to make during the scan. Each batch costs a write for each of its queues: for more queues the log is read
again, in larger batches."""

CLEAN_BYTES = 16 << 20
"""Bytes of the log to compare after a clean exit. Comparing the whole scan made the open of a closed store 1.4 times as
long."""


@dataclass
class QueueFindings:
    """Findings of a recovery's comparison of the log with the queues.

    Attributes
    ----------
    compared_records, compared_bytes : int
        Records with an entry, and bytes, of the compared part of the log.
    compared_from : int
        CommitLog offset from which all records were compared.
    differing_entries, refused_records : int
        Entries that are missing or wrong; records that no queue accepts.
    differing : dict
        Start of a CommitLog file to the number of missing or wrong entries of its messages.
    ends : dict
        Topic and queue id to the queue offset behind the last record, for queues whose records were compared.
    file_ends : dict
        The same by the queue's files, for queues whose files show missing or wrong entries.
    reasons : list of str
        Faults that the queues' files show.
    damage : list of PassedOver
        Bytes without sound records: in files before the recovery's scan, and ranges that the scan passed over.
    distrust : str
        Reason to compare a store without an abort file as after a crash; empty if it was not.
    misnamed : list of Misnamed
        Entries whose records name another place.
    keeps_misnamed : bool
        True if all of them stay: after a clean exit every record had its entry. After a crash the log decides, and
        those at the end of a queue are removed.
    """

    compared_records: int = 0
    compared_bytes: int = 0
    files: int = 0
    compared_from: int = 0
    differing_entries: int = 0
    refused_records: int = 0
    differing: dict[int, int] = field(default_factory=dict)
    ends: dict[QueueKey, int] = field(default_factory=dict)
    file_ends: dict[QueueKey, int] = field(default_factory=dict)
    reasons: list[str] = field(default_factory=list)
    damage: list[PassedOver] = field(default_factory=list)
    distrust: str = ""
    misnamed: list[Misnamed] = field(default_factory=list)
    keeps_misnamed: bool = False

    @property
    def staying(self) -> list[Misnamed]:
        """The misnamed entries that stay; no second entry is made at the places that their records name."""
        return [one for one in self.misnamed if self.keeps_misnamed or not one.at_the_end]

    def end_of(self, place: QueueKey) -> int | None:
        """Return the queue offset before which a queue's entries are healed; None: no limit."""
        end = self.ends.get(place)
        return self.file_ends.get(place) if end is None else end

    def as_dict(self) -> dict[str, object]:
        """Return the fields for a report."""
        return {
            "compared_records": self.compared_records,
            "compared_bytes": self.compared_bytes,
            "compared_from": self.compared_from,
            "differing_entries": self.differing_entries,
            "refused_records": self.refused_records,
            "heal_files": [[start, self.differing[start]] for start in sorted(self.differing)],
            "heal_reasons": list(self.reasons),
            "misnamed": [asdict(one) for one in self.misnamed],
            "keeps_misnamed": self.keeps_misnamed,
            "passed_over": [[one.start_phy_offset, one.end_phy_offset] for one in self.damage],
        }


@dataclass(frozen=True, slots=True)
class Lacking:
    """A part of the log in which a queue may have messages without entries; `sure`: it does."""

    lower: int
    upper: int
    sure: bool


class QueueCheck:
    """Make the `QueueFindings` of a recovery: first `add` for each batch of the recovery's scan, then `finish`.

    Parameters
    ----------
    commitlog : CommitLog
    queues : ConsumeQueues
    config : MessageStoreConfig
    most_bytes : int
        Bytes of older files to compare, by 2 and 4 above.
    compare_from : int
        CommitLog offset from which the scan passes records, as if it started there.
    none_held : bool
        True if the store has no queue.
    maker : QueueMaker, optional
        Makes the queues of the compared records: no queue exists, and the scan starts at the log's start.
    """

    def __init__(
        self,
        commitlog: CommitLog,
        queues: ConsumeQueues,
        config: MessageStoreConfig,
        most_bytes: int,
        compare_from: int = 0,
        *,
        none_held: bool = False,
        maker: QueueMaker | None = None,
    ) -> None:
        self.records = RecordCompare(queues, config, commitlog.delay_levels, none_held=none_held)
        self.found = QueueFindings()
        self._log = commitlog
        self._queues = queues
        self._config = config
        self._files: Sequence[MappedFile] = commitlog.files.files
        self._starts = [file.file_from_offset for file in self._files]
        self._most_bytes = most_bytes
        self._compare_from = compare_from
        self._maker = maker
        self._begin = -1  # offset of the first record compared
        self._left_out: set[int] = set()  # starts of files with records that were left out
        self._wanted_more = False
        self._compared: set[int] = set()  # starts of files
        places = config.consume_queue_file_size // CQ_STORE_UNIT_SIZE
        self._ends = QueueEnds(queues, self._starts[0] if self._starts else 0, places)
        # For each file: the lowest queue offset of each queue there, and its record's offset.
        self._lows: dict[int, dict[QueueKey, tuple[int, int]]] = {}
        self._differing: set[QueueKey] = set()
        self._unplaced: list[Longs] = []  # CommitLog offsets of records
        self._claims: dict[QueueKey, list[Longs]] = {}

    # ---- the recovery's scan ------------------------------------------------------------------------

    def add(self, scan: ColumnScan, batch: Batch, begin: int) -> None:
        """Compare a batch whose first record lies at CommitLog offset `begin`."""
        if self._begin < 0:
            self._begin = begin
        found = self.records.compare(scan, batch)
        if len(self._differing) < len(self.records):
            self._differing.update(map(self.records.place, found.differing_numbers()))
        self._note_unplaced(self.records.unplaced(scan, batch, found))
        self._count(self._file_of(begin), found.differing, found.refused, found.count)
        self._make(scan, batch, has_light=found.has_light)

    def _make(self, scan: ColumnScan, batch: Batch, *, has_light: bool) -> None:
        """Write the records' entries if all queues can be made in the order of the log; else remove those made."""
        if self._maker is None:
            return
        if has_light or len(self.records) > MADE_QUEUES or not self.is_in_order:
            self._maker.stop()
            self._maker = None
        else:
            self._maker.take(scan, batch)

    def _file_of(self, phy_offset: int) -> int:
        return self._starts[bisect_right(self._starts, phy_offset) - 1]

    def _count(self, start: int, differing: int, refused: int, compared: int) -> None:
        self.found.compared_records += compared
        self.found.refused_records += refused
        if differing:
            self.found.differing_entries += differing
            self.found.differing[start] = self.found.differing.get(start, 0) + differing

    def finish(
        self, start_phy_offset: int, end_phy_offset: int, *, clean_exit: bool
    ) -> QueueFindings:
        """Compare older files and return the findings.

        A queue that ends earlier than its files show ends in other files, and the next open reads these whole. So if a
        queue does, this open reads as much as after a crash, even after a clean exit.

        Parameters
        ----------
        start_phy_offset, end_phy_offset : int
            Start and end of the recovery's scan.
        clean_exit : bool
            True if the store had no abort file, and only zeros lie behind the end of the log.
        """
        self._end = end_phy_offset
        begin = start_phy_offset
        if self._compare_from > start_phy_offset:
            begin = self._begin if self._begin >= 0 else end_phy_offset
        scanned = [s for s in self._starts if start_phy_offset <= s < max(end_phy_offset, 1)]
        self._note_seen(begin, self.records)
        self._compared.update(s for s in scanned if s >= begin)
        self._left_out.update(s for s in scanned if s < begin)
        if self._left_out and not clean_exit:
            self._wanted_more = True
            return self.found
        self.found.compared_bytes = end_phy_offset - begin
        self._compare_older(begin, thorough=not clean_exit)
        if clean_exit:
            self.found.distrust = self._queue_behind_its_records()
        if self.found.distrust:
            self.found.reasons.clear()
            self.found.file_ends.clear()
            self._compare_older(begin, thorough=True)
        elif clean_exit:
            self._keep_misnamed()
        self.found.files = len(self._compared)
        return self.found

    @property
    def is_half(self) -> bool:
        """True if batches were skipped but the findings require them: another QueueCheck must compare everything."""
        found = self.found
        odd = bool(found.reasons or found.distrust or found.misnamed)
        odd = odd or found.differing_entries + found.refused_records > 0
        return bool(self._left_out) and (self._wanted_more or odd)

    @property
    def is_in_order(self) -> bool:
        """True if each queue's records increase one by one from queue offset 0, and none was refused or skipped."""
        if self._left_out or self.found.refused_records or self.found.damage:
            return False
        return all(
            seen.backs == seen.first == 0 and seen.last + 1 == seen.rows
            for seen in self.records.seen_by_number()
            if seen.rows
        )

    def _compare_older(self, scan_start: int, *, thorough: bool) -> None:
        """Compare the required files before the scan, and find the ends of the queues."""
        if thorough:
            for start in [s for s in reversed(self._starts) if s < scan_start]:
                if self.found.compared_bytes >= self._most_bytes:
                    break
                self._compare_file(start)
        known_from, seen = self._contiguous_from(scan_start), self._ends.places()
        suspects = self._queues.suspects(
            self._starts[0], self._end, known_from, seen, thorough=thorough
        )
        self._unseen = [place for place, _, _ in suspects if place not in seen]
        self._ask_where_shape_is_wrong(suspects)
        self._ask_behind_the_ends(suspects)
        self._ask_before_the_beginnings(suspects)
        self.found.compared_from = self._contiguous_from(scan_start)
        self.found.ends.clear()
        for place, start in self._ends.newest.items():
            end = self._ends.end(place) if start >= self.found.compared_from else None
            if end is not None:
                self.found.ends[place] = end
        self._find_misnamed()

    def _find_misnamed(self) -> None:
        self.found.misnamed.clear()
        for place in (*self.found.ends, *self._unseen):
            queue, end = self._queues.find(*place), self.found.ends.get(place, 0)
            if queue is not None and queue.last_file >= 0 and queue.max_offset > end:
                self.found.misnamed += misnamed_at_the_end(
                    self._log, self._end, self._queues, queue, end
                )
        if self._unplaced:
            known = {(one.topic, one.queue_id, one.queue_offset) for one in self.found.misnamed}
            wanted = np.unique(np.concatenate(self._unplaced))
            self.found.misnamed += [
                one
                for one in misnamed_among(self._log, self._end, self._queues, wanted)
                if (one.topic, one.queue_id, one.queue_offset) not in known
                and not self._is_claimed((one.topic, one.queue_id), one.queue_offset)
            ]

    def _is_claimed(self, place: QueueKey, queue_offset: int) -> bool:
        """Return True if a record names a place that holds another record's entry: entries are not at their places."""
        return any(bool((held == queue_offset).any()) for held in self._claims.get(place, ()))

    def _note_unplaced(self, found: Unplaced) -> None:
        """Note records that have no entry at their places, if an entry elsewhere may lead to them."""
        dispatched = found.phy_offsets[found.phy_offsets < self._queues.max_phy_offset]
        if len(dispatched):
            self._unplaced.append(dispatched)
        for place, held in found.claims.items():
            self._claims.setdefault(place, []).append(held)

    def _keep_misnamed(self) -> None:
        """Keep misnamed entries: end each of their queues behind them."""
        self.found.keeps_misnamed = bool(self.found.misnamed)
        for one in self.found.misnamed:
            if not one.at_the_end:
                continue
            place = one.topic, one.queue_id
            self.found.ends[place] = max(self.found.ends.get(place, 0), one.queue_offset + 1)

    def _queue_behind_its_records(self) -> str:
        """Describe a queue whose last entry lies behind its last record and leads to none of its own; else empty."""
        lost = LostBytes(self._starts, self._log.file_size, self.found.damage)
        misnamed = {(one.topic, one.queue_id) for one in self.found.misnamed if one.at_the_end}
        for place in (*self.found.ends, *self._unseen):
            queue = self._queues.find(*place)
            if queue is None or queue.max_offset <= self.found.ends.get(place, 0):
                continue
            if place in misnamed:
                continue
            if place in self.found.ends or queue.max_phy_offset > self.found.compared_from:
                last = queue.max_offset - 1
                entry = self._queues.read_places(*place, last, 1)[0]
                if lost.held(entry, self._starts[0], self._end):
                    continue
                if not heal.names_queue(self._log, self._end, self._queues, queue, last, entry):
                    return f"queue {place[0]} {place[1]} has entries behind its last message"
        return ""

    # ---- one older file -----------------------------------------------------------------------------

    def _compare_file(self, start: int) -> bool:
        """Compare a file unless it was compared; return True if entries of its messages are missing or wrong."""
        if start in self._left_out:
            self._wanted_more = True
        if start in self._compared or start in self._left_out:
            return False
        self._compared.add(start)
        healer = heal.Healer(self._log, self._queues, self._config, self._end, place=False)
        healer.heal_file(self._files[self._starts.index(start)])
        result = healer.result
        self._differing.update(map(healer.records.place, healer.differing))
        self.found.compared_bytes += result.compared_bytes
        self.found.damage += result.damage
        for unplaced in healer.unplaced:
            self._note_unplaced(unplaced)
        self._count(
            start, result.differing_entries, result.refused_records, result.compared_records
        )
        self._note_seen(start, healer.records)
        return result.differing_entries > 0

    def _note_seen(self, start: int, records: RecordCompare) -> None:
        """Note ends and starts of the queues with records in a file, or in the scan that started there."""
        for seen in records.seen_by_number():
            if not seen.rows:
                continue
            self._ends.note(start, seen)
            place = seen.topic, seen.queue_id
            self._lows.setdefault(start, {})[place] = seen.low, seen.low_phy

    def _contiguous_from(self, start: int) -> int:
        """Return the start of the unbroken run of compared files that ends with this file."""
        at = bisect_right(self._starts, start) - 1
        if self._starts[at] in self._left_out:
            return start
        while at > 0 and self._starts[at - 1] in self._compared:
            at -= 1
        return min(start, self._starts[at])

    # ---- what the queues' files show ----------------------------------------------------------------

    def _files_between(self, begin: int, end: int) -> Iterable[int]:
        """Return the starts of the files with bytes of a range of the log, newest first."""
        size = self._log.file_size
        return [s for s in reversed(self._starts) if s < end and s + size > begin]

    def _ask_where_shape_is_wrong(
        self, suspects: list[tuple[QueueKey, int, list[Suspect]]]
    ) -> None:
        asked: set[int] = set()
        for place, end, found in suspects:
            for suspect in found:
                if suspect.sure:
                    self.found.file_ends[place] = end
                    self.found.reasons.append(f"{place[0]} {place[1]}: {suspect.reason}")
                    asked.update(self._files_between(suspect.log_begin, suspect.log_end))
        for start in sorted(asked, reverse=True):
            self._compare_file(start)

    def _ask_behind_the_ends(self, suspects: list[tuple[QueueKey, int, list[Suspect]]]) -> None:
        """Compare the log behind the last entries of queues that may lack their newest files."""
        asked: set[int] = set()
        for place, end, found in suspects:
            for suspect in found:
                seen = self._ends.newest.get(place, -1) >= suspect.log_end
                if not suspect.sure and suspect.begin > 0 and not seen:
                    self.found.file_ends.setdefault(place, end)
                    asked.update(self._files_between(suspect.log_begin, suspect.log_end))
        self._compare_while_fruitful(sorted(asked, reverse=True))

    def _ask_before_the_beginnings(
        self, suspects: list[tuple[QueueKey, int, list[Suspect]]]
    ) -> None:
        """Compare the log before the first entries of queues that may lack older files."""
        lacking = {
            place: Lacking(suspect.log_begin, suspect.log_end, sure=False)
            for place, _, found in suspects
            for suspect in found
            if not suspect.sure and suspect.begin == 0
        }
        if not lacking and not self._differing:
            return
        looked_at: dict[QueueKey, int] = {}
        lows: dict[QueueKey, tuple[int, int]] = {}  # of the files from the newest to this one
        fruitless = 0
        for start in reversed(self._starts):
            for place in self._differing | lacking.keys():
                low, phy_offset = lows.get(place, (-1, -1))
                above = place in lacking and phy_offset > lacking[place].upper
                if low >= 0 and looked_at.get(place) != low and not above:
                    looked_at[place] = low
                    lacking.pop(place, None)
                    if low > 0 and self._begins_at(place, low):
                        lacking[place] = self._lacks(place, low, phy_offset)
            end = start + self._log.file_size
            wanted = [one for one in lacking.values() if start < one.upper and end > one.lower]
            if start not in self._compared and wanted:
                if any(one.sure for one in wanted):
                    self._compare_file(start)
                elif fruitless < self._most_bytes:
                    fruitless = 0 if self._compare_file(start) else fruitless + self._log.file_size
            lows.update(self._lows.get(start, {}))

    def _lacks(self, place: QueueKey, low: int, phy_offset: int) -> Lacking:
        """Return the part of the log with a queue's messages before its queue offset `low`, which have no entries."""
        queue = self._queues.find(*place)
        if queue is not None and 0 < queue.max_offset < low and queue.max_phy_offset < phy_offset:
            return Lacking(queue.max_phy_offset, phy_offset, sure=True)
        return Lacking(self._starts[0], phy_offset, sure=False)

    def _begins_at(self, place: QueueKey, queue_offset: int) -> bool:
        """Return True if a queue has no entry before a queue offset."""
        queue = self._queues.find(*place)
        if queue is None or queue.first_file < 0:
            return True
        before = self._queues.read_places(*place, queue_offset - 1, 1)[0]
        size = int(before["msg_size"])
        return size <= 0 or (size == CQ_FILLER_SIZE and int(before["phy_offset"]) == 0)

    def _compare_while_fruitful(self, starts: Iterable[int]) -> None:
        fruitless = 0
        for start in starts:
            if fruitless >= self._most_bytes:
                return
            if start not in self._compared:
                fruitless = 0 if self._compare_file(start) else fruitless + self._log.file_size
