"""One pass over the old log: copies records that prove themselves, notes all other bytes and the queues' records."""

from __future__ import annotations

import os
from bisect import bisect_right
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from rmqcore._native.format.codec import DelayLevels
from rmqcore._native.scan import places
from rmqcore._native.scan.batch import Batch
from rmqcore._native.scan.places import Gaps
from rmqcore._native.scan.scan import ColumnScan
from rmqcore._native.threads.descriptor import Descriptor
from rmqcore.config import MessageStoreConfig
from rmqcore.disk.inside.files import open_file
from rmqcore.disk.queue_files import BatchTopics
from rmqcore.engine.dispatch.dispatcher import QUEUE_COLUMNS
from rmqcore.engine.dispatch.multi_dispatch import MultiDispatch
from rmqcore.maintenance.rebuild.queue_runs import QueueRuns, ints, longs
from rmqcore.maintenance.salvage.close_gaps import moved_to, with_longer_properties
from rmqcore.maintenance.salvage.filler import LEAST
from rmqcore.maintenance.salvage.new_log import BLANK_SIZE, PIECE, NewLog, cut_meanwhile
from rmqcore.maintenance.salvage.queue_claims import QueueClaims
from rmqcore.offline.log.damage import DamageList, DamageRange
from rmqcore.offline.log.log_files import LogFile, mapped_file_size
from rmqcore.offline.log.long_record import MOST_WHOLE, LongRecords
from rmqcore.offline.log.walk import Blank, LogWalk, Progress
from rmqcore.offline.log.watched_scan import WatchedScan
from rmqcore.offline.log.window import record_at
from rmqcore.vocabulary.rocketmq_versions import readable_records
from rmqcore.vocabulary.sysflag import BORNHOST_V6, STOREHOST_V6

BATCH_ROWS, BATCH_BYTES = 262_144, 16 << 20
TOPIC_ROOM = 8 << 20
MOST_PUT = 64 << 10
"""Runs of up to this many bytes pass through memory if the batch has gaps to close."""
Bools = npt.NDArray[np.bool_]
Longs = npt.NDArray[np.int64]


@dataclass
class Copied:
    """Result of the pass.

    Attributes
    ----------
    messages, message_bytes : int
        Records that are in the new log.
    newest_ms : int
        The greatest store time among them.
    last_phy_offset, end_phy_offset : int
        CommitLog offsets of the last of them, and behind it.
    """

    messages: int = 0
    message_bytes: int = 0
    newest_ms: int = 0
    last_phy_offset: int = 0
    end_phy_offset: int = 0


class LogCopy:
    """Copies the log.

    Parameters
    ----------
    files : list of LogFile
        Of the old log, by offset.
    target : NewLog
    config : MessageStoreConfig
        Delay levels, file size, the entries to make, whether each record must have a ``__CRC32#``, and the release of
        RocketMQ that must be able to read them.
    batch_topics : BatchTopics
        Topics whose records have no place in ordinary queues.
    claims : QueueClaims
    damage : DamageList
        Receives the lost ranges.

    Attributes
    ----------
    copied : Copied
    moved : dict of int to int
        New CommitLog offsets of the records that moved (`close_gaps`), by their old ones.
    """

    def __init__(
        self,
        files: list[LogFile],
        target: NewLog,
        config: MessageStoreConfig,
        batch_topics: BatchTopics,
        claims: QueueClaims,
        damage: DamageList,
    ) -> None:
        levels = DelayLevels(config.delay_levels_ms)
        self._files = _without_overlaps(files)
        self._target = target
        self._file_size = config.mapped_file_size_commit_log
        self._asks_for_prop_crc = config.force_verify_prop_crc
        self._for_version = config.for_version
        self._readable = readable_records(config.for_version)
        self._multi = MultiDispatch(config, levels)
        self._runs = QueueRuns(batch_topics)
        self._claims = claims
        self._damage = damage
        self._failing: dict[int, tuple[object, object]] = {}
        self._columns = ColumnScan(
            QUEUE_COLUMNS,
            delay_levels=levels,
            batch_rows=BATCH_ROWS,
            batch_bytes=BATCH_BYTES,
            topic_room=TOPIC_ROOM,
        )
        self._end = 0
        self._source: Descriptor | None = None
        self._source_number = -1
        self._source_start = 0
        self._part, self._part_from = b"", 0
        self.copied = Copied()
        self.moved: dict[int, int] = {}

    def run(self, progress: Progress | None) -> Copied:
        """Copy all sound records.

        Raises
        ------
        OSError
            A file cannot be read or written.
        StoreError
            A file was cut during the copy.
        """
        walk: LogWalk[Batch] = LogWalk(
            self._files,
            WatchedScan(self._columns, self._watch),
            self._damage,
            verify_crc=True,
            long_records=LongRecords(),
            progress=progress,
        )
        try:
            for batch in walk.run():
                assert not isinstance(batch, Blank)
                if len(batch):
                    self._take(batch)
            self._hand_on()
        finally:
            if self._source is not None:
                self._source.close()
        return self.copied

    # ---- records that are not copied ----------------------------------------------------------------

    def _watch(self, buf: Any, begin: int, end: int, phy_offset: int, gaps: Gaps | None) -> None:
        if not 0 < end - begin <= MOST_WHOLE:  # the body of a longer record is not all here
            return
        asked = self._asks_for_prop_crc
        failures = places.prop_crc_failures(buf, begin, end, 0, required=asked, gaps=gaps)[1]
        if failures:
            found = places.prop_crc_failures(buf, begin, end, failures, required=asked, gaps=gaps)[
                2
            ]
            self._failing.update((phy_offset + at, (expected, own)) for at, expected, own in found)
        enough = False
        for entry in self._multi.entries(buf, begin, end, 0, gaps=gaps):
            enough = self._runs.put_entry(*entry)
        if enough:
            self._columns.end_batch()

    def _left_out(self, batch: Batch, phy_offsets: Longs, sizes: Longs) -> Bools:
        """Mark the records that a new log cannot have, and note them as lost."""
        out = np.zeros(len(phy_offsets), np.bool_)
        if self._failing:
            out |= np.isin(phy_offsets, np.fromiter(self._failing, np.int64))
            for at in np.flatnonzero(out).tolist():
                phy_offset = int(phy_offsets[at])
                self._lose(
                    phy_offset, int(sizes[at]), "prop_crc", "__CRC32#", *self._failing[phy_offset]
                )
            self._failing.clear()
        ends = phy_offsets + sizes
        before = np.maximum.accumulate(np.concatenate(([self._end], ends[:-1])))
        misplaced = (phy_offsets < before) | (
            phy_offsets % self._file_size + sizes > self._file_size - BLANK_SIZE
        )
        for at in np.flatnonzero(misplaced & ~out).tolist():
            self._lose(
                int(phy_offsets[at]),
                int(sizes[at]),
                "record",
                "place",
                f"inside a file of {self._file_size} bytes",
                "across its end, or in another file's bytes",
            )
        out |= misplaced
        self._drop_unreadable(batch, phy_offsets, sizes, out)
        return out

    def _drop_unreadable(self, batch: Batch, phy_offsets: Longs, sizes: Longs, out: Bools) -> None:
        """Leave out records that the release of `for_version` cannot read: it would cut the log there."""
        most = self._readable.most_topic_bytes
        found: list[tuple[str, str, str, Bools]] = []
        if most is not None:
            lengths = [len(name.encode(errors="replace")) for name in self._columns.topics(0)]
            long = np.array(lengths, np.int64)[ints(batch, "topic_id")] > most
            found.append(("TOPICLENGTH", f"at most {most}", "more", long))
        if not self._readable.ipv6_hosts:
            v6 = (ints(batch, "sys_flag") & (BORNHOST_V6 | STOREHOST_V6)) != 0
            found.append(("BORNHOST or STOREHOST", "IPv4", "IPv6", v6))
        for field, expected, value, rows in found:
            for at in np.flatnonzero(rows & ~out).tolist():
                self._lose(
                    int(phy_offsets[at]),
                    int(sizes[at]),
                    "record",
                    field,
                    f"{expected} for RocketMQ {self._for_version}",
                    value,
                )
            out |= rows

    def _lose(
        self, phy_offset: int, size: int, kind: str, field: str, expected: object, found: object
    ) -> None:
        name = self._files[self._number_of(phy_offset)].name
        self._damage.append(
            DamageRange(phy_offset, phy_offset + size, kind, name, field, expected, found)
        )

    # ---- records that are copied --------------------------------------------------------------------

    def _take(self, batch: Batch) -> None:
        phy_offsets = longs(batch, "phy_offset")
        sizes = ints(batch, "msg_size").astype(np.int64)
        times = longs(batch, "store_timestamp_ms")
        out = self._left_out(batch, phy_offsets, sizes)
        self._copy_runs(phy_offsets, sizes, times, out)
        if self._runs.hold(self._columns, batch, out if out.any() else None):
            self._hand_on()
        kept = np.flatnonzero(~out)
        if not len(kept):
            return
        starts = phy_offsets[kept]
        ends = starts + sizes[kept]
        self._end = int(ends[-1])
        done = self.copied
        self.copied = replace(
            done,
            messages=done.messages + len(kept),
            message_bytes=done.message_bytes + int(sizes[kept].sum()),
            newest_ms=max(done.newest_ms, int(times[kept].max())),
            last_phy_offset=self.moved.get(int(starts[-1]), int(starts[-1])),
            end_phy_offset=self._end,
        )

    def _copy_runs(self, phy_offsets: Longs, sizes: Longs, times: Longs, out: Bools) -> None:
        """Copy the records of a batch, one run without gaps at a time; mark the records that cannot be placed."""
        kept = np.flatnonzero(~out)
        starts = phy_offsets[kept]
        ends = starts + sizes[kept]
        bounds = [0, *(np.flatnonzero(starts[1:] != ends[:-1]) + 1).tolist(), len(kept)]
        gaps = starts[1:] - np.maximum(ends[:-1], starts[1:] - starts[1:] % self._file_size)
        tiny = bool(((gaps > 0) & (gaps < LEAST)).any())
        for at, stop in pairwise(bounds if len(kept) else []):
            first, row, begin = at, int(kept[at]), int(starts[at])
            gap = begin - max(self._target.end, begin - begin % self._file_size)
            if 0 < gap < LEAST and not self._follow(begin, gap, int(sizes[row]), int(times[row])):
                expected = f"none, or {LEAST} bytes"
                self._lose(begin, int(sizes[row]), "record", "gap before it", expected, "less")
                out[row] = True
                first += 1  # the gap behind it is long enough
            elif begin in self.moved:
                first += 1
            if first == stop:
                continue
            begin, end, last = int(starts[first]), int(ends[stop - 1]), int(starts[stop - 1])
            timestamp_ms = int(times[kept[first]])
            if tiny and end - begin <= MOST_PUT:
                self._target.put(self._read(begin, end), begin, timestamp_ms, last=last)
            else:
                source = self._open(begin)
                self._target.copy(source, self._source_start, begin, end, timestamp_ms, last=last)

    def _follow(self, begin: int, gap: int, size: int, timestamp_ms: int) -> bool:
        """Close the gap before a record, which is too small for a filler; return False if that is not possible."""
        if self._target.end == begin - gap and begin % self._file_size > gap:
            return self._target.close_gap(begin)
        # At the start of a file no record lies before the gap.
        target = begin - gap
        longer = with_longer_properties(moved_to(self._read(begin, begin + size), target), gap)
        if longer is None:
            return False
        self._target.put(longer, target, timestamp_ms, last=target)
        self.moved[begin] = target
        return True

    def _read(self, begin: int, end: int) -> bytes:
        """Return bytes of the old log; reads 1 MiB at a time."""
        at = begin - self._part_from
        if not 0 <= at <= at + end - begin <= len(self._part):
            source, pos = self._open(begin), begin - self._source_start
            most = self._files[self._source_number].size - pos
            self._part = os.pread(source.fileno(), min(most, max(end - begin, PIECE)), pos)
            self._part_from, at = begin, 0
        data = self._part[at : at + end - begin]
        if len(data) < end - begin:
            raise cut_meanwhile(self._files[self._number_of(begin)].name)
        return data

    def _open(self, phy_offset: int) -> Descriptor:
        """Return the open file of the old log that holds a record."""
        number = self._number_of(phy_offset)
        if number != self._source_number or self._source is None:
            if self._source is not None:
                self._source.close()
            self._source = open_file(str(self._files[number].path), os.O_RDONLY)
            self._source_number = number
            self._source_start = self._files[number].file_from_offset
        return self._source

    def _number_of(self, phy_offset: int) -> int:
        """Return the number of the old log's file that holds a record."""
        return bisect_right(self._files, phy_offset, key=lambda file: file.file_from_offset) - 1

    def _hand_on(self) -> None:
        for place, offsets, entries in self._runs.held():
            if self.moved:
                places = entries["phy_offset"]
                for at in np.flatnonzero(np.isin(places, np.fromiter(self.moved, np.int64))):
                    entries["phy_offset"][at] = self.moved[int(places[at])]
            self._claims.add(place, offsets, entries)


def _without_overlaps(files: list[LogFile]) -> list[LogFile]:
    """The files, each with the bytes before the next one: a byte of the log lies in one file.

    A file inside another one whose name fits no file, and that does not begin with a record of its place, is left out: a copy
    under a wrong name took the place of the bytes of the right one.
    """
    size = mapped_file_size(files)
    kept: list[LogFile] = []
    for file in files:
        start = file.file_from_offset
        if (
            not kept
            or start >= kept[-1].end_offset
            or start % size == 0
            or record_at([file], start)
        ):
            kept.append(file)
    files = kept
    bounds = [*(file.file_from_offset for file in files[1:]), None]
    return [
        file if end is None else replace(file, size=min(file.size, end - file.file_from_offset))
        for file, end in zip(files, bounds, strict=True)
    ]
