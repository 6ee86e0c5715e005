"""Which records ask for which places of the queues, and where two ask for one, which of them has it.

In a sound queue the queue offsets of the records rise by one from record to record of the log, so a queue is one run. A gap
between two runs is messages that the log lost. A run that goes back was written twice: the topic was deleted and made again, a
recovery has cut the log and stale records lie behind the new ones, or damage has changed the number in a record.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from rmqcore._native.queues.queue_table import is_directory_name, log_room, most_queue_offset
from rmqcore.disk.set_aside import IMPOSSIBLE, NAMES_NO_QUEUE, TAKEN, SetAside
from rmqcore.maintenance.rebuild.queue_runs import Entries, Offsets
from rmqcore.vocabulary.topics import QueueKey

MOST_RUNS = 1_000_000
"""Runs that are remembered, of some 250 bytes each; a store that is sound but for its damage has a few more than queues."""


@dataclass(slots=True)
class ClaimedRun:
    """Records of one queue whose queue offsets rise by one, in the order of the log.

    Attributes
    ----------
    first, end : int
        Queue offsets: of the first record, and behind the last one.
    first_phy, last_phy : int
        CommitLog offsets of records, between which all of them lie.
    """

    first: int
    end: int
    first_phy: int
    last_phy: int


EntryOf = Callable[[QueueKey, int], int]
"""The CommitLog offset in the old queue's entry at a queue offset; -1 without one."""


class QueueClaims:
    """Gathers the runs of all queues.

    Attributes
    ----------
    complete : bool
        All runs are remembered.
    """

    def __init__(self) -> None:
        self.complete = True
        self._runs: dict[QueueKey, list[ClaimedRun]] = {}
        self._count = 0

    def add(self, place: QueueKey, offsets: Offsets, entries: Entries) -> None:
        """Note the next records of a queue, in the order of the log."""
        phy_offsets = entries["phy_offset"]
        bounds = [0, *(np.flatnonzero(np.diff(offsets) != 1) + 1).tolist(), len(offsets)]
        known = self._runs.get(place)
        for begin, end in pairwise(bounds):
            first, stop = int(offsets[begin]), int(offsets[end - 1]) + 1
            last_phy = int(phy_offsets[end - 1])
            if known and known[-1].end == first:
                known[-1].end, known[-1].last_phy = stop, last_phy
                continue
            if self._count >= MOST_RUNS:
                self.complete = False
                return
            self._count += 1
            if known is None:
                known = self._runs[place] = []
            known.append(ClaimedRun(first, stop, int(phy_offsets[begin]), last_phy))

    def places(self) -> Iterator[tuple[QueueKey, list[ClaimedRun]]]:
        """The queues, by topic and queue id, with the runs that they have."""
        for place in sorted(self._runs):
            yield place, self._runs[place]

    def has(self, place: QueueKey) -> bool:
        """Return True if a queue has records."""
        return place in self._runs

    def settle(self, file_size: int, entry_of: EntryOf) -> list[SetAside]:
        """Decide between records that ask for one place, and which ask for one that cannot be; what is left of each queue rises.

        Parameters
        ----------
        file_size : int
            Bytes of a queue file.
        entry_of : callable
            As `EntryOf`: the old queue knows to which of two records consumers were led.
        """
        aside: list[SetAside] = []
        for place, runs in list(self._runs.items()):
            if not is_directory_name(place[0]) or "�" in place[0] or place[1] < 0:
                aside += [_aside(place, run, NAMES_NO_QUEUE) for run in runs]
                del self._runs[place]
            elif len(runs) > 1 or not 0 <= runs[0].first <= most_queue_offset(file_size):
                queue = _Contested(place, file_size, entry_of)
                for run in runs:
                    queue.add(run)
                self._runs[place] = queue.kept
                aside += queue.aside
                if not queue.kept:
                    del self._runs[place]
        return aside


class _Contested:
    """One queue with several runs: those that are kept, which rise, and the others."""

    def __init__(self, place: QueueKey, file_size: int, entry_of: EntryOf) -> None:
        self.kept: list[ClaimedRun] = []
        self.aside: list[SetAside] = []
        self._place = place
        self._most = most_queue_offset(file_size)
        self._file_entries = file_size // 20
        self._entry_of = entry_of

    def add(self, run: ClaimedRun) -> None:
        """Add the next run of the log."""
        if not 0 <= run.first <= self._most:
            self._put_aside(run, IMPOSSIBLE)
            return
        if self.kept and run.first < self.kept[-1].end:
            if self._is_better(run):
                self._cut_back(run.first)
            else:
                end = self.kept[-1].end
                self._put_aside(
                    _part(run, run.first, min(run.end, end)),
                    TAKEN,
                )
                if run.end <= end:
                    return
                run = _part(run, end, run.end)
        if self.kept and self._is_too_far(run):
            self._put_aside(run, "the log is too short for the messages before it")
            return
        self.kept.append(run)

    def _is_better(self, run: ClaimedRun) -> bool:
        """Return True if a run that goes back has the places, and not the records before it."""
        known = self._entry_of(self._place, run.first)
        if known >= 0:
            if known == run.first_phy:
                return True
            at = bisect_right(self.kept, known, key=lambda one: one.first_phy) - 1
            if at >= 0 and known <= self.kept[at].last_phy:
                return False
        if run.first == 0 and run.end > 1:
            return True  # the topic was made again
        more = min(run.end, self.kept[-1].end) - run.first
        for one in reversed(self.kept):  # which rise: no further than there are messages in the run
            more -= max(0, one.end - max(one.first, run.first))
            if more <= 0 or one.first <= run.first:
                break
        return more > 0

    def _cut_back(self, to: int) -> None:
        while self.kept and self.kept[-1].end > to:
            last = self.kept.pop()
            begin = max(last.first, to)
            self._put_aside(_part(last, begin, last.end), "a later record has its queue offset")
            if begin > last.first:
                self.kept.append(_part(last, last.first, begin))

    def _is_too_far(self, run: ClaimedRun) -> bool:
        last = self.kept[-1]
        gap = run.first - last.end
        if gap <= 0 or gap <= log_room(self._place[0], last.last_phy, last.last_phy, run.first_phy):
            return False
        return run.end - run.first == 1 or gap > self._file_entries

    def _put_aside(self, run: ClaimedRun, why: str) -> None:
        self.aside.append(_aside(self._place, run, why))


def _part(run: ClaimedRun, first: int, end: int) -> ClaimedRun:
    return ClaimedRun(first, end, run.first_phy, run.last_phy)


def _aside(place: QueueKey, run: ClaimedRun, why: str) -> SetAside:
    return SetAside(*place, run.first, run.end - 1, run.first_phy, run.last_phy, why)
