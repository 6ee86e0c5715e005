"""The records of a file that a reader of a store at rest finds, also behind damage."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from rmqcore._native.scan.batch import Batch
from rmqcore._native.scan.scan import ColumnScan
from rmqcore.offline.log.damage import DamageRange
from rmqcore.offline.log.log_files import LogFile, LogShape
from rmqcore.offline.log.walk import Blank, LogWalk
from rmqcore.spark.stream.tail import Ends, ends_unfinished, first_sound, record_ends


class PassingWalk:
    """The records of a file from a record's start on, and the damage between them. The bounds are those of `LogWalk`.

    Parameters
    ----------
    file : LogFile
    start : int
        CommitLog offset in the file.
    shape : LogShape
        Of the whole log.
    batch_rows : int
    stop : int, optional
        CommitLog offset: records that begin there or behind it are not read.
    stops_at_damage : bool
        End at the first damage that has sound records behind it.
    holds_back : bool
        A broker may be writing the file: hold back the newest records until they are proven whole. These are records at
        the log's end that fail their CRC, and a last record whose properties end in zeros.
    next_file : LogFile, optional
        The file behind the file in which the log seems to end. It begins with zeros, which may be damage.

    Attributes
    ----------
    at_blank, unfinished, damage, searched, met
        As of `rmqcore.spark.stream.tail.SoundWalk`; `met` grows during `run`.
    """

    def __init__(
        self,
        file: LogFile,
        start: int,
        shape: LogShape,
        *,
        batch_rows: int,
        stop: int | None = None,
        stops_at_damage: bool = False,
        holds_back: bool = False,
        next_file: LogFile | None = None,
    ) -> None:
        self._file = file
        self._stops_at_damage = stops_at_damage
        self._holds_back = holds_back
        self._next_file = next_file
        self.at_blank = False
        self.unfinished = False
        self.damage: DamageRange | None = None
        self.searched = False
        self.met: list[DamageRange] = []
        self._walk: LogWalk[Batch] = LogWalk(
            [file],
            ColumnScan(("phy_offset", "msg_size"), stop_offset=stop, batch_rows=batch_rows),
            self.met,
            start=start,
            stop=stop,
            aligned_start=True,
            shape=shape,
            blanks=True,
        )
        # Records held back: the last sound one, and those behind it that fail their CRC.
        self._held: list[Ends] = []
        self._last_sound: tuple[int, int] | None = None
        self._failed: set[int] = set()
        self._seen = 0

    def run(self) -> Iterator[Ends]:
        """Yield the ends of the records.

        Raises
        ------
        FileNotFoundError
            The file was deleted.
        """
        for found in self._walk.run():
            if isinstance(found, Blank):
                self.at_blank = True
                continue
            if self._stops_at_damage and self._note_gap():
                yield from self._before_damage(found)
                return
            if len(found):
                yield from self._whole(found) if self._holds_back else [record_ends(found)]
        if self._stops_at_damage and self._note_gap():
            return
        last = self.met[-1].kind if self.met else None
        if last == "missing_file":
            raise FileNotFoundError(self._file.location)
        self.unfinished = last == "torn_tail"
        self.searched = not self._walk.stopped
        if not self.at_blank and not self._walk.stopped and self._next_file is not None:
            self.at_blank = first_sound(self._next_file) is not None
        yield from self._rest()

    def _note_gap(self) -> bool:
        self.damage = next((found for found in self.met if found.kind == "record"), None)
        self.searched = self.damage is not None
        return self.searched

    def _before_damage(self, batch: Batch) -> Iterator[Ends]:
        assert self.damage is not None
        if len(batch):
            ends = record_ends(batch)
            yield ends[: np.searchsorted(ends, self.damage.start_phy_offset, side="right")]

    # ---- the newest records -------------------------------------------------------------------------

    def _whole(self, batch: Batch) -> Iterator[Ends]:
        """Yield the held-back records and those of a batch, up to the record before the last sound one."""
        ends = record_ends(batch)
        starts = np.asarray(batch.buffer("phy_offset")).view(np.int64)[: len(batch)]
        self._failed.update(
            one.start_phy_offset for one in self.met[self._seen :] if one.kind == "crc"
        )
        self._seen = len(self.met)
        at = len(ends) - 1
        while at >= 0 and int(starts[at]) in self._failed:
            at -= 1
        if at >= 0:
            yield from self._held
            yield ends[:at]
            self._held = []
            self._last_sound = (int(starts[at]), int(ends[at]))
            self._failed = {start for start in self._failed if start > starts[-1]}
        self._held.append(ends[max(at, 0) :])

    def _rest(self) -> Iterator[Ends]:
        """Yield the held-back records that are whole."""
        if self.at_blank or not self._held:
            yield from self._held
            return
        last = 0
        if self._last_sound is not None:
            unread: list[OSError] = []
            with self._file.open(lambda start, end, error: unread.append(error)) as source:
                last = 0 if ends_unfinished(source, *self._last_sound) else 1
        self.unfinished |= sum(map(len, self._held)) > last
        yield self._held[0][:last]
