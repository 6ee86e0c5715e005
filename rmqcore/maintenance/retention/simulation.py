"""Simulation of future cleaning rounds: the engine's rules with a clock that runs ahead and disks that fill."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

from rmqcore.engine.clean.report import CleanReason
from rmqcore.engine.clean.rules import CleanRules, Trigger
from rmqcore.maintenance.retention.growing_disks import FOREVER, SPREAD, GrowingDisks

QUARTER_MS = 900_000
"""Each time zone of today differs from UTC by a multiple of this: no hour starts between two multiples."""
MOST_ROUNDS = 200_000
"""Rounds at which something may change; a forecast of more ends there."""


@dataclass(slots=True)
class SimulatedFile:
    """A file of the log.

    Attributes
    ----------
    file_from_offset, end_offset : int
    mtime_ms : int or None
        None as long as it is written.
    disk_bytes : int
    device : int
        Number of its disk, or `SPREAD` or `ELSEWHERE`.
    """

    file_from_offset: int
    end_offset: int
    mtime_ms: int | None
    disk_bytes: int
    device: int


@dataclass(frozen=True, slots=True)
class Gone:
    """A file that a round has deleted."""

    file_from_offset: int
    time_ms: int
    reason: CleanReason


class Simulation:
    """Runs the rounds that can change the log or its disks, and skips the others.

    Parameters
    ----------
    files : iterable of SimulatedFile
        Oldest first; the last one is being written.
    end_phy_offset : int
        Where the log ends.
    disks : GrowingDisks
    rules : CleanRules
    interval_ms : int
        Between two rounds (`clean_resource_interval`).
    bytes_per_second : float
        Growth of the log, as long as puts are taken.
    now_ms : int
        The first round.

    Attributes
    ----------
    now_ms : int
        Of the last round.
    gone : list of Gone
    reached : dict of int to int
        Percentage to the time at which the disk was first used by it or more.
    puts_refused_ms, full_ms : int or None
        When puts were first refused, and a disk was first full.
    points : list of (int, int, int)
        Time, bytes of the log and used percentage after each round that was looked at.
    whole : bool
        True if `run` reached its end before `MOST_ROUNDS`.
    """

    def __init__(
        self,
        files: Iterable[SimulatedFile],
        end_phy_offset: int,
        disks: GrowingDisks,
        rules: CleanRules,
        interval_ms: int,
        bytes_per_second: float,
        now_ms: int,
    ) -> None:
        self.now_ms = now_ms
        self.gone: list[Gone] = []
        self.reached: dict[int, int] = {}
        self.puts_refused_ms: int | None = None
        self.full_ms: int | None = None
        self.points: list[tuple[int, int, int]] = []
        self.whole = True
        self._files = deque(files)
        self._file_size = (
            self._files[-1].end_offset - self._files[-1].file_from_offset if self._files else 0
        )
        self._end = float(end_phy_offset)
        self._disks = disks
        self._rules = rules
        self._interval = max(interval_ms, 1)
        self._rate = bytes_per_second / 1000
        self._rounds = 0
        self._quiet: float | None = None
        self._log_bytes = float(sum(file.disk_bytes for file in self._files))
        self._refused = False
        self._highest = -1

    @property
    def growing(self) -> float:
        """Bytes a millisecond that are put now."""
        return 0.0 if self._refused or self._disks.full or not self._files else self._rate

    def run(self, until_ms: int) -> None:
        """Run all rounds up to a time; a later call continues from there."""
        if self._quiet is None:
            self._quiet = self._round()
        while self.now_ms + self._quiet <= until_ms:
            if self._rounds >= MOST_ROUNDS or len(self._files) > MOST_ROUNDS:
                self.whole = False
                return
            self._rounds += 1
            self._advance(math.ceil(self._quiet / self._interval) * self._interval)
            self._quiet = self._round()
        self._note_end(until_ms)

    # ---- one round ----------------------------------------------------------------------------------

    def _round(self) -> float:
        """Run a round; return the milliseconds until a round may change something, at least one interval."""
        trigger = self._rules.look(self.now_ms, self._disks.use())
        if trigger.full is not None:
            self._refused = True
            if self.puts_refused_ms is None:
                self.puts_refused_ms = self.now_ms
        elif trigger.roomy:
            self._refused = False
        self._note()
        deleted = self._delete(trigger) if trigger.pulled else 0
        if deleted:
            self._note()
        return self._interval if deleted else max(self._quiet_for(), self._interval)

    def _delete(self, trigger: Trigger) -> int:
        forced, deleted = False, 0
        while self._files and deleted < self._rules.batch:
            file = self._files[0]
            due = self._due(file, trigger)
            if due is None:
                break
            forced |= due == "forced"
            self.gone.append(
                Gone(file.file_from_offset, self.now_ms, trigger.reason(forced=forced))
            )
            self._files.popleft()
            self._log_bytes -= file.disk_bytes
            self._disks.free(file.device, file.disk_bytes)
            if self._disks.shared is not None:
                self._disks.shared.length -= file.end_offset - file.file_from_offset
            deleted += 1
        return deleted

    def _due(self, file: SimulatedFile, trigger: Trigger) -> str | None:
        mtime_ms = self.now_ms if file.mtime_ms is None else file.mtime_ms
        return self._rules.due(
            file.end_offset,
            math.floor(self._end) - 1,
            trigger,
            lambda: self._rules.is_over(mtime_ms, self.now_ms),
        )

    def _note(self) -> None:
        percent = self._disks.percent
        for level in range(self._highest + 1, percent + 1):
            self.reached[level] = self.now_ms
        self._highest = max(self._highest, percent)
        if self.full_ms is None and self._disks.full:
            self.full_ms = self.now_ms
        self.points.append((self.now_ms, round(self._log_bytes), percent))

    def _note_end(self, until_ms: int) -> None:
        """Note the state at the end of a run, before which no file is deleted and no percentage changes."""
        grown = self.growing * max(until_ms - self.now_ms, 0)
        end_ms = max(until_ms, self.now_ms)
        self.points.append((end_ms, round(self._log_bytes + grown), self._disks.percent))

    # ---- between two rounds -------------------------------------------------------------------------

    def _quiet_for(self) -> float:
        """Milliseconds in which no round deletes anything, and no disk gets another percentage."""
        until = FOREVER
        if self.growing > 0:
            until = self._disks.log_bytes_until_next() / self.growing
            if self._disks.shared is not None:  # it grows by whole files
                until = min(until, (self._files[-1].end_offset - self._end) / self.growing)
        if not self._files:
            return until
        oldest = self._files[0]
        if oldest.mtime_ms is None or oldest.end_offset > math.floor(self._end) - 1:
            if self.growing > 0:
                until = min(until, (oldest.end_offset + 1 - self._end) / self.growing)
            return max(until, 1)
        over = oldest.mtime_ms + self._rules.reserved_ms - self.now_ms
        if over > 0:
            return max(min(until, over), 1)
        return min(until, self._until_hour())

    def _until_hour(self) -> int:
        """Return the milliseconds until an hour of `delete_when` may start."""
        quarter = self.now_ms - self.now_ms % QUARTER_MS + QUARTER_MS
        while not self._rules.is_hour(quarter):
            quarter += QUARTER_MS
        return quarter - self.now_ms

    def _advance(self, milliseconds: int) -> None:
        rate = self.growing
        before, self._end = self._end, self._end + rate * milliseconds
        if rate > 0:
            self._fill_files(before, rate)
        grown = self._end - before
        self._log_bytes += grown
        self._disks.grow(grown)
        self.now_ms += milliseconds

    def _fill_files(self, before: float, rate: float) -> None:
        """Fill the files that the log's end has passed, and start the next ones."""
        while True:
            newest = self._files[-1]
            taken = min(self._end, newest.end_offset) - max(before, newest.file_from_offset)
            newest.disk_bytes += math.ceil(max(taken, 0))
            if self._end < newest.end_offset:
                return
            newest.mtime_ms = self.now_ms + math.floor((newest.end_offset - before) / rate)
            begin = newest.end_offset
            self._files.append(SimulatedFile(begin, begin + self._file_size, None, 0, SPREAD))
            if self._disks.shared is not None:
                self._disks.shared.length += self._file_size
            if len(self._files) > MOST_ROUNDS:
                self._end = float(begin)  # a forecast of more ends here
                return
