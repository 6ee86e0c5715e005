"""Which part of the log a recovery compares with the queues, and what it finds there; files are only read.

1. Every record that the recovery's scan goes over; after a clean exit those of the newest `CLEAN_BYTES`, and all of them where
   these, or the signs of 3 and 4, show anything.
2. After an unclean exit, or where a queue has entries behind its last record, older files, newest first, until
   ``recover_check_bytes`` of log have been compared.
3. Files in which messages lie whose entries the queues' own files show to be missing or wrong, however old (`QueueShape`).
4. Where a sound queue may look the same (it begins behind offset 0, or ends where a file ends): files before or behind its
   entries, until ``recover_check_bytes`` of log have been compared without finding anything.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field

import numpy as np

from rmqcore._native.format.layout import CQ_FILLER_SIZE, CQ_STORE_UNIT_SIZE
from rmqcore._native.put.mapped_file import MappedFile
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
"""So many queues are made at most while the scan goes over the log. Each batch costs a write for each of its queues: for many of
them the log is read once more, in larger batches."""

CLEAN_BYTES = 16 << 20
"""So much of the log is compared after a clean exit. All of the scan made the open of a closed store take 1.4 times as long."""


@dataclass
class QueueFindings:
    """What a recovery found in comparing the log with the queues.

    Attributes
    ----------
    compared_records, compared_bytes : int
        Records with an entry, and bytes of the log, of `files` CommitLog files.
    compared_from : int
        From this CommitLog offset on everything was compared.
    differing_entries, refused_records : int
        Entries that are missing or wrong; records that no queue takes.
    differing : dict
        Start of a CommitLog file to how many entries of its messages are missing or wrong.
    ends : dict
        Topic and queue id to the queue offset behind the last record, where the log was asked.
    file_ends : dict
        The same by the files of those queues whose files show something missing or wrong.
    reasons : list of str
        What the queues' files show.
    damage : list of PassedOver
        Bytes without sound records: in files before the recovery's scan, and what that passed over.
    distrust : str
        Why a store without an abort file was compared as after a crash; empty when it was not.
    misnamed : list of Misnamed
        Entries whose records name another place.
    keeps_misnamed : bool
        All of them stay: the exit was clean, so that every record had its entry. After a crash the log is right, and entries at
        the end of a queue go.
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
        """The misnamed entries that stay; their records get no second entry at the places that they name."""
        return [one for one in self.misnamed if self.keeps_misnamed or not one.at_the_end]

    def end_of(self, place: QueueKey) -> int | None:
        """The queue offset before which a queue's entries are made right; None when nothing limits it."""
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
    """A part of the log in which a queue may have messages without entries; `sure`: it has."""

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
        Bytes of older files that are compared, as 2 and 4 above say.
    compare_from : int
        The scan gives the records that start at this CommitLog offset or behind it, as if it began there.
    none_held : bool
        There is no queue.
    maker : QueueMaker, optional
        Makes the queues of the records that are compared: there is no queue, and the scan begins where the log does.
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
        self._begin = -1  # where the first record lies that was compared
        self._left_out: set[int] = set()  # starts of files, of which records were left out
        self._wanted_more = False
        self._compared: set[int] = set()  # starts of files
        places = config.consume_queue_file_size // CQ_STORE_UNIT_SIZE
        self._ends = QueueEnds(queues, self._starts[0] if self._starts else 0, places)
        # By file: the lowest queue offset of each queue there, and where its record lies.
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
        """Write the entries of the records, if all queues can be made in the order of the log; else remove what was written."""
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
        """Go on with older files.

        A queue that ends earlier than its files say ends in other files, and the next open reads these whole. So where one does,
        this open reads what it reads after a crash, however the last exit was.

        Parameters
        ----------
        start_phy_offset, end_phy_offset : int
            The recovery's scan.
        clean_exit : bool
            There was no abort file, and nothing lies behind the end of the log.
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
        """Go over the files before the scan that are asked for, and find the ends of the queues."""
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
        """Whether a record names a place at which another one's entry lies: the queue's entries are not where they belong."""
        return any(bool((held == queue_offset).any()) for held in self._claims.get(place, ()))

    def _note_unplaced(self, found: Unplaced) -> None:
        """Note records that have no entry at their places, if an entry elsewhere may lead to them."""
        dispatched = found.phy_offsets[found.phy_offsets < self._queues.max_phy_offset]
        if len(dispatched):
            self._unplaced.append(dispatched)
        for place, held in found.claims.items():
            self._claims.setdefault(place, []).append(held)

    def _keep_misnamed(self) -> None:
        """Let each queue with such entries end behind them."""
        self.found.keeps_misnamed = bool(self.found.misnamed)
        for one in self.found.misnamed:
            if not one.at_the_end:
                continue
            place = one.topic, one.queue_id
            self.found.ends[place] = max(self.found.ends.get(place, 0), one.queue_offset + 1)

    def _queue_behind_its_records(self) -> str:
        """Name a queue that ends behind its last record with an entry that is none of its own, if there is one."""
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
        """Compare a file unless that was done; answer whether entries of its messages are missing or wrong."""
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
        """Note the ends and beginnings of queues that have records in a file, or in the scan that began there."""
        for seen in records.seen_by_number():
            if not seen.rows:
                continue
            self._ends.note(start, seen)
            place = seen.topic, seen.queue_id
            self._lows.setdefault(start, {})[place] = seen.low, seen.low_phy

    def _contiguous_from(self, start: int) -> int:
        """From where on all files were compared, up to a file that was."""
        at = bisect_right(self._starts, start) - 1
        if self._starts[at] in self._left_out:
            return start
        while at > 0 and self._starts[at - 1] in self._compared:
            at -= 1
        return min(start, self._starts[at])

    # ---- what the queues' files show ----------------------------------------------------------------

    def _files_between(self, begin: int, end: int) -> Iterable[int]:
        """Starts of the files with bytes of a range of the log, newest first."""
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
        """Compare what lies behind the last entries of queues that may lack their newest files."""
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
        """Compare what lies before the first entries of queues that may lack older ones."""
        lacking = {
            place: Lacking(suspect.log_begin, suspect.log_end, sure=False)
            for place, _, found in suspects
            for suspect in found
            if not suspect.sure and suspect.begin == 0
        }
        if not lacking and not self._differing:
            return
        looked_at: dict[QueueKey, int] = {}
        lows: dict[QueueKey, tuple[int, int]] = {}  # in the files from the newest to this one
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
        """Where the messages of a queue lie that come before its queue offset `low`, which have no entries."""
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
