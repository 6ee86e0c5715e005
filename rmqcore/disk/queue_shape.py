"""Problems visible in a queue's files: missing files, places without an entry, entries that do not increase.

The entries of a queue lie in the order of the CommitLog. So if files or entries are missing, their neighbours show the
part of the log with their messages.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rmqcore._native.format.cq import rising_prefix
from rmqcore._native.format.cq_arrays import unpack_cq_entries
from rmqcore._native.format.layout import CQ_FILLER_SIZE, CQ_STORE_UNIT_SIZE
from rmqcore.disk.paths import MAX_OFFSET
from rmqcore.disk.queue_files import Entries, QueueFile
from rmqcore.disk.read_range import opened

Flags = npt.NDArray[np.bool_]
Longs = npt.NDArray[np.int64]

LEAST_DELAY_MS = 1000
"""The smallest unit of messageDelayLevel is a second, so every delay is a multiple of it."""


ENTRIES_READ = 1 << 14
"""Entries to read in one call: they stay in a core's cache."""


@dataclass(frozen=True, slots=True)
class Suspect:
    """Places of a queue whose entries may be missing or wrong.

    Attributes
    ----------
    begin, end : int
        Queue offsets [begin, end).
    log_begin, log_end : int
        CommitLog offsets between which their messages lie, by the neighbouring entries.
    reason : str
    sure : bool
        True if an entry is missing or wrong; False if a sound queue may look the same.
    """

    begin: int
    end: int
    log_begin: int
    log_end: int
    reason: str
    sure: bool = True


@dataclass(frozen=True, slots=True)
class Judged:
    """Entries of a file, judged by themselves and their neighbours.

    Attributes
    ----------
    sound, filler : array of bool
        Entries that point into the log and lie in its order; fillers.
    lower, upper : array of int64
        Starts and ends of the messages of the sound entries.
    at : array of int64
        Indexes of the sound entries.
    """

    sound: Flags
    filler: Flags
    at: Longs
    lower: Longs
    upper: Longs


def judge(entries: Entries, log_end: int, last_end: int) -> Judged:
    """Classify entries as sound, fillers or others; the message before the first entry ends at CommitLog offset `last_end`."""
    phy_offset = entries["phy_offset"].astype(np.int64)
    msg_size = entries["msg_size"].astype(np.int64)
    filler = (phy_offset == 0) & (msg_size == CQ_FILLER_SIZE)
    inside = (phy_offset >= 0) & (msg_size > 0) & (phy_offset <= log_end - msg_size) & ~filler
    at = np.flatnonzero(inside)
    lower = phy_offset[at]
    upper = lower + msg_size[at]
    # If two entries are out of order, either may be the wrong one.
    back = lower[1:] < upper[:-1]
    odd = np.zeros(len(at), bool)
    odd[1:] |= back
    odd[:-1] |= back
    if len(at) and lower[0] < last_end:
        odd[0] = True
    inside[at[odd]] = False
    kept = ~odd
    return Judged(inside, filler, at[kept], lower[kept], upper[kept])


def may_be_deliver_times(tags_codes: Longs, stored_ms: Longs) -> Flags:
    """Return a mask of the tags codes that some messageDelayLevel can make for messages stored at `stored_ms`.

    A flipped bit never turns one into another, and fewer than one in a thousand random values pass.
    """
    whole: Flags = tags_codes % LEAST_DELAY_MS == stored_ms % LEAST_DELAY_MS
    return whole & (tags_codes >= stored_ms)


class QueueShape:
    """Searches the files of one queue for missing and wrong entries.

    Parameters
    ----------
    files : sequence of QueueFile
        Oldest first.
    log_min, log_end : int
        Start and end of the CommitLog.
    known_from : int
        CommitLog offset from which the entries of messages are known to be correct, or are compared with the log
        anyway.
    """

    def __init__(
        self, files: Sequence[QueueFile], log_min: int, log_end: int, known_from: int
    ) -> None:
        self._files = files
        self._log_min = log_min
        self._log_end = log_end
        self._known_from = known_from
        self._found: list[Suspect] = []
        self._last_end = -1
        self._bad_from = -1
        self._first_sound = (-1, -1)
        self._end = 0  # queue offset behind the last sound entry

    def is_plain(self, end: int) -> bool:
        """True if the queue has one file that starts at queue offset 0, is not full and did not lose its end."""
        return (
            len(self._files) == 1
            and not self._files[0].is_short
            and self._files[0].first_offset == 0
            and 0 < end < self._files[0].entry_count
        )

    def suspects(self, *, thorough: bool, end: int, stale: bool) -> tuple[int, list[Suspect]]:
        """Find places that may be wrong; return the queue offset behind the last sound entry, and the places.

        Parameters
        ----------
        thorough : bool
            Read every entry; otherwise the first and last of each file, and all of files with holes.
        end : int
            Queue offset at which the queue's recovery found its end.
        stale : bool
            Bytes that are not zero lie behind that end.
        """
        previous: QueueFile | None = None
        for file in self._files:
            if previous is not None and self._bad_from < 0:
                follows = previous.first_offset + previous.entry_count
                self._bad_from = follows if file.first_offset > follows else -1
            previous = file
            holds_end = file.first_offset <= end < file.first_offset + file.entry_count
            if thorough or (stale and holds_end) or not self._looks_whole(file, end):
                count = file.entry_count
                if holds_end and not stale:  # behind it are zeros
                    count = end - file.first_offset
                if not self._take_rising(file, count):
                    self._take(file.first_offset, self._entries(file, count))
        self._ask_before_the_first()
        self._ask_behind_the_last(end, stale=stale)
        return self._end, self._found

    def _entries(self, file: QueueFile, count: int) -> Entries:
        return unpack_cq_entries(file.read(0, count).ljust(count * CQ_STORE_UNIT_SIZE, b"\0"))

    def _looks_whole(self, file: QueueFile, end: int) -> bool:
        """Judge a file by its first and its last entry, if these are sound and it has no holes."""
        count = min(file.entry_count, end - file.first_offset)
        if count <= 0:
            return False
        with opened(file.path, os.O_RDONLY) as fd:
            if _has_hole(fd, count * CQ_STORE_UNIT_SIZE):
                return False
            last = (count - 1) * CQ_STORE_UNIT_SIZE
            data = os.pread(fd, CQ_STORE_UNIT_SIZE, 0)
            if count > 1:
                data += os.pread(fd, CQ_STORE_UNIT_SIZE, last)
        judged = judge(unpack_cq_entries(data), self._log_end, max(self._last_end, 0))
        if not judged.sound.all():
            return False
        self._go_on(file.first_offset, int(judged.lower[0]), int(judged.upper[-1]))
        self._end = file.first_offset + count
        return True

    def _take_rising(self, file: QueueFile, count: int) -> bool:
        """Judge a file whose entries are all sound, as nearly all are: arrays of them take fifty times as long."""
        if count <= 0 or self._end > file.first_offset:
            return False
        lower, end = -1, max(self._last_end, 0)
        with opened(file.path, os.O_RDONLY) as fd:
            for begin in range(0, count, ENTRIES_READ):
                wanted = min(ENTRIES_READ, count - begin)
                data = os.pread(fd, wanted * CQ_STORE_UNIT_SIZE, begin * CQ_STORE_UNIT_SIZE)
                if begin == 0 and len(data) >= CQ_STORE_UNIT_SIZE:
                    lower = int(unpack_cq_entries(data[:CQ_STORE_UNIT_SIZE])["phy_offset"][0])
                sound, end = rising_prefix(data, self._log_end, end)
                if sound < wanted:
                    return False
        self._go_on(file.first_offset, lower, end)
        self._end = file.first_offset + count
        return True

    def _take(self, first: int, entries: Entries) -> None:
        """Judge all entries of a file."""
        judged = judge(entries, self._log_end, max(self._last_end, 0))
        bad = ~(judged.sound | judged.filler)
        for begin, _ in runs(bad):
            self._take_sound(first, judged, int(np.searchsorted(judged.at, begin)))
            if self._bad_from < 0:
                self._bad_from = first + begin
        self._take_sound(first, judged, len(judged.at))

    def _take_sound(self, first: int, judged: Judged, stop: int) -> None:
        """Process the sound entries before number `stop` that were not processed yet."""
        start = int(np.searchsorted(judged.at, self._end - first))
        if start < stop:
            self._go_on(
                first + int(judged.at[start]), int(judged.lower[start]), int(judged.upper[stop - 1])
            )
            self._end = first + int(judged.at[stop - 1]) + 1

    def _go_on(self, queue_offset: int, phy_offset: int, end_phy_offset: int) -> None:
        """Note a sound entry: a run of wrong places ends before it."""
        if self._first_sound[0] < 0:
            self._first_sound = queue_offset, phy_offset
        if self._bad_from >= 0:
            lower = max(self._last_end, self._log_min)
            upper = min(phy_offset, self._known_from)
            text = f"queue offsets {self._bad_from} to {queue_offset - 1} have no valid entries"
            self._found.append(
                Suspect(self._bad_from, queue_offset, lower, max(lower, upper), text)
            )
            self._bad_from = -1
        self._last_end = max(self._last_end, end_phy_offset)

    # ---- the ends -----------------------------------------------------------------------------------

    def _ask_before_the_first(self) -> None:
        """Suspect missing entries before the first one if its message is not the log's oldest."""
        first, phy_offset = self._first_sound
        upper = min(phy_offset if first >= 0 else MAX_OFFSET, self._known_from)
        if first != 0 and upper > self._log_min and (first < 0 or phy_offset >= self._log_min):
            text = (
                f"the queue starts at queue offset {first}"
                if first > 0
                else "the queue has no entries"
            )
            self._found.append(Suspect(0, max(first, 0), self._log_min, upper, text, sure=False))

    def _ask_behind_the_last(self, end: int, *, stale: bool) -> None:
        """Suspect missing files behind a full last file; bytes behind the end may have been entries."""
        lower = max(self._last_end, self._log_min)
        if self._end <= 0 or lower >= self._known_from:
            return
        short = self._files[-1].is_short
        if short:
            text = f"the last file is short; the queue ends at queue offset {self._end}"
        elif self._end % self._files[0].entry_count == 0:
            text = f"the queue ends at queue offset {self._end}, where a file ends"
        elif stale or 0 <= self._bad_from < end:
            text = f"there are bytes behind the queue's end at queue offset {self._end}"
        else:
            return
        self._found.append(
            Suspect(self._end, MAX_OFFSET, lower, self._known_from, text, sure=short)
        )


def runs(flags: Flags) -> list[tuple[int, int]]:
    """Return start and end of each run of set flags."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], flags, [False]]).astype(np.int8)))
    return list(zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True))


def _has_hole(fd: int, size: int) -> bool:
    """Return True if a file's first `size` bytes have a page that was never written; False if that is unknown."""
    if os.fstat(fd).st_size < size:
        return True
    if not hasattr(os, "SEEK_HOLE"):
        return False
    try:
        return os.lseek(fd, 0, os.SEEK_HOLE) < size
    except OSError as error:
        if error.errno not in (errno.ENXIO, errno.EINVAL):
            raise
        return False  # the file system does not report holes
