"""A position in the log of one store. It moves forward over whole records, as far as limits and the log's end allow."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np

from rmqcore.offline.log.damage import DamageRange
from rmqcore.offline.log.log_files import LogFile
from rmqcore.offline.queues.log_end import newest_dispatched
from rmqcore.spark.splits.written import STEP, some_apart
from rmqcore.spark.storage.locations import StoreLocation
from rmqcore.spark.storage.store_location import QUEUE_PARTS
from rmqcore.spark.stream.files import OffsetInFile, StreamFiles
from rmqcore.spark.stream.limits import Allowance
from rmqcore.spark.stream.passing import PassingWalk
from rmqcore.spark.stream.tail import Ends, Search, SoundWalk, first_sound

TailGuard = Literal["crc", "consumequeue", "none"]
OnDamage = Literal["wait", "skip", "fail"]
LARGEST_BATCH = 65536


@dataclass(frozen=True)
class StreamRules:
    """Rules of a stream: where a log in use ends, and the reaction to a missing part of the log.

    Attributes
    ----------
    tail_guard : {"crc", "consumequeue", "none"}
        Where the log ends. ``crc``: at the first place of its last file without a whole record; damage in that file is
        passed when the file is full. ``consumequeue``: behind the newest message that is in a queue. ``none``: behind
        the last record that a reader of the store at rest finds, behind any damage.
    fail_on_data_loss : bool
        Raise if a part of the log is missing; else warn and continue behind it.
    on_damage : {"wait", "skip", "fail"}, optional
        Reaction to damage in the last file that has sound records behind it. By default ``wait``; with a guard other
        than ``crc`` it is ``skip``, since that guard accepts the records behind the damage.
    """

    tail_guard: TailGuard = "crc"
    fail_on_data_loss: bool = True
    on_damage: OnDamage | None = None

    @property
    def at_damage(self) -> OnDamage:
        """The reaction to damage: the given one, or the default of the guard."""
        return self.on_damage or ("wait" if self.tail_guard == "crc" else "skip")


class StoreCursor:
    """Moves over the log of one store. It sees the files that existed when it was made.

    If the allowance limits only bytes, full files are passed unread. Other files are walked; no rows are built.

    Parameters
    ----------
    location : StoreLocation
    start : int
        CommitLog offset at which a record begins or ends.
    rules : StreamRules
    stop : int, optional
        CommitLog offset beyond which the position never moves.
    search : Search, optional
        Whether and where to search for damage at the end of the log; by default there is a search.
    files : StreamFiles, optional
        The files of the store, if the caller has listed them.

    Attributes
    ----------
    position : int
        CommitLog offset behind the records passed so far: the end of a record, or the beginning of a file.
    unfinished : bool
        The log ends in an incomplete record.
    damage : DamageRange or None
        Damage with sound records behind it, at which the log ends for this stream.
    searched : bool
        A search was made: if `damage` is None, there is no damage.
    places : list of int
        CommitLog offsets behind some of the records passed, a few for each mebibyte walked: a batch may be cut there.
    """

    def __init__(
        self,
        location: StoreLocation,
        start: int,
        rules: StreamRules,
        *,
        stop: int | None = None,
        search: Search | None = None,
        files: StreamFiles | None = None,
    ) -> None:
        self.files = files or StreamFiles(location, fail_on_data_loss=rules.fail_on_data_loss)
        self.position = start
        self.unfinished = False
        self.damage: DamageRange | None = None
        self.searched = False
        self.places: list[int] = []
        self._rules = rules
        self._search = search or Search()
        self._walks: list[SoundWalk | PassingWalk] = []
        self._at_blank = False
        self._missed = -1
        if rules.tail_guard == "consumequeue":
            written = dispatched_end(location)
            stop = written if stop is None else min(stop, written)
        self._stop = stop

    def advance(self, allowance: Allowance) -> None:
        """Move forward until the allowance is spent, the stop is reached or the log ends."""
        while not allowance.spent:
            place = self._here()
            if place is None or not self._pass_file(place, allowance):
                break
        if allowance.limited and allowance.spent:
            self._pass_blank()

    def passed_damage(self) -> list[DamageRange]:
        """Return the damage between records in the last file of the log, up to the position."""
        found = {one.start_phy_offset: one for walk in self._walks for one in walk.met}
        return [
            one
            for start, one in sorted(found.items())
            if start < self.position and one.kind not in {"crc", "torn_tail"}
        ]

    def _here(self) -> OffsetInFile | None:
        if self._stop is not None and self.position >= self._stop:
            return None
        place = self.files.find(self.position)
        if place is not None:
            self.position = place.phy_offset
        return place

    def _pass_file(self, place: OffsetInFile, allowance: Allowance) -> bool:
        """Pass the records of a file, up to the limit; return True if the next file follows."""
        whole = self._stop is None or place.file_end <= self._stop
        byte_count = place.file_end - place.phy_offset
        if (
            place.sealed
            and whole
            and allowance.records is None
            and (allowance.byte_count is None or byte_count <= allowance.byte_count)
        ):
            allowance.take(0, byte_count)
            self.position = place.file_end
            return True
        try:
            for ends in self._ends(place, allowance):
                if self._take(ends, allowance) < len(ends):
                    return False
        except FileNotFoundError:  # the broker deleted the file: list the directory again
            self._miss(place)
            return True
        if not whole or allowance.spent:
            return False
        if place.sealed or (self._at_blank and place.next_file is not None):
            self.position = place.file_end
            return True
        self._note_next_file(place)
        return False

    def _note_next_file(self, place: OffsetInFile) -> None:
        """Note damage from here into the next file, which begins with zeros like an unwritten file."""
        waits = self._rules.at_damage != "skip" and self.searched and self._search.behind_zeros
        if not waits or self.damage is not None or place.next_file is None or self._at_blank:
            return
        found = first_sound(place.next_file)
        if found is not None:
            self.damage = DamageRange(
                self.position,
                found,
                "record",
                place.file.name,
                "record",
                "a record or BLANK",
                "neither",
            )

    def _miss(self, place: OffsetInFile) -> None:
        self.files.refresh()
        if place.file.file_from_offset == self._missed:
            # The file is still listed: the listings of this filesystem are stale.
            self.files.lost(self.position, place.file_end, "its file was deleted")
            self.position = place.file_end
        self._missed = place.file.file_from_offset

    def _take(self, ends: Ends, allowance: Allowance) -> int:
        """Move over the records that the allowance permits, and return their number."""
        count = len(ends)
        if self._stop is not None:
            count = int(np.searchsorted(ends, self._stop, side="right"))
        if allowance.records is not None:
            count = min(count, allowance.records)
        if allowance.byte_count is not None:
            reached = np.searchsorted(ends, self.position + allowance.byte_count)
            count = min(count, int(reached) + 1)
        if count:
            end = int(ends[count - 1])
            allowance.take(count, end - self.position)
            last = self.places[-1] if self.places else self.position
            self.places += some_apart(ends[:count], last, STEP)
            self.position = end
        return count

    def _ends(self, place: OffsetInFile, allowance: Allowance) -> Iterator[Ends]:
        """Yield the ends of the records behind a place, batch by batch."""
        self._at_blank = self.unfinished = self.searched = False
        self.damage = None
        walk = self._walk(place, min(allowance.records or LARGEST_BATCH, LARGEST_BATCH))
        if not place.sealed:
            self._walks.append(walk)
        yield from walk.run()
        self._at_blank = walk.at_blank
        self.unfinished = walk.unfinished
        self.damage = walk.damage
        self.searched = walk.searched and not place.sealed

    def _walk(self, place: OffsetInFile, batch_rows: int) -> SoundWalk | PassingWalk:
        passes = place.sealed or self._rules.at_damage == "skip"
        guarded = not place.sealed and self._rules.tail_guard == "crc"
        if guarded and not passes:
            return SoundWalk(
                place.file, place.phy_offset, batch_rows=batch_rows, search=self._search
            )
        return PassingWalk(
            place.file,
            place.phy_offset,
            self.files.shape,
            batch_rows=batch_rows,
            stop=None if guarded else self._stop,
            stops_at_damage=not passes,
            holds_back=guarded,
            next_file=None if place.sealed or not passes else place.next_file,
        )

    def _pass_blank(self) -> None:
        """Move over the BLANK if the limit was reached at a file's last record: then the file can be deleted."""
        place = self._here()
        if place is None or place.next_file is None:
            return
        if self._stop is not None and place.file_end > self._stop:
            return
        if is_blank(place.file, place.phy_offset):
            self.position = place.file_end


def is_blank(file: LogFile, phy_offset: int) -> bool:
    """Return True if a BLANK lies at an offset of a file."""
    try:
        walk = SoundWalk(file, phy_offset, batch_rows=1)
        return next(walk.run(), None) is None and walk.at_blank
    except FileNotFoundError:
        return False


def dispatched_end(location: StoreLocation) -> int:
    """Return the CommitLog offset behind the newest message that is in a queue."""
    with location.local_copy(*QUEUE_PARTS) as paths:
        return newest_dispatched(paths).end
