"""One split read: the rows that it owns, and the damage."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, TypeVar

from rmqcore.errors import DataLossError, SplitError
from rmqcore.offline.log.damage import DamageRange
from rmqcore.offline.log.walk import Blank, LogWalk, Sink, damage_of
from rmqcore.spark.splits.split import Split
from rmqcore.spark.splits.split_start import (
    SplitStart,
    ends_resynced,
    find_split_start,
    is_skipped,
    unanimous_start,
    walk_to,
)

Rows = TypeVar("Rows")


class SplitScan(Generic[Rows]):
    """The walk over one split.

    Parameters
    ----------
    split : Split
    sink : Sink
        Made with ``stop_offset=stop_offset(split, ...)``.
    verify_crc : bool
        Leave out records that fail their CRC; they are damage either way.

    Attributes
    ----------
    damage : list of DamageRange
        Ranges that start in the split; whole, also where they go on behind it.
    start_phy_offset : int or None
        Where the split's first record or damage begins, once `run` has begun; None when nothing of the file's log lies there.
    end_phy_offset : int
        After `run`: where the first record or damage after the split begins.
    resynced : set of int
        Starts of records that were found by search, behind damage.
    """

    def __init__(self, split: Split, sink: Sink[Rows], *, verify_crc: bool = False) -> None:
        self.split = split
        self.damage: list[DamageRange] = []
        self.resynced: set[int] = set()
        self.start_phy_offset: int | None = None
        self.end_phy_offset = split.start
        self._sink = sink
        self._verify_crc = verify_crc

    def run(self) -> Iterator[Rows]:
        """Yield what the sink gathered each time it is full and at the end.

        Raises
        ------
        SplitError
            The next split begins elsewhere than this one ends.
        DataLossError
            With `Split.must_reach`: the walk does not come to the split's end.
        """
        split = self.split
        try:
            found, told = self._find_start(), self._next_split_start()
        except FileNotFoundError:  # the owner of a live store has cleaned it since it was listed
            self._miss_file()
            return
        self.start_phy_offset = found.phy_offset
        if found.phy_offset is not None:
            self.end_phy_offset = found.phy_offset  # also where no record starts in the split
        if found.resynced and found.phy_offset is not None:
            self.resynced.add(found.phy_offset)
        if found.phy_offset is None or (split.end is not None and found.phy_offset >= split.end):
            self._check_end(found, told)
            return
        walk = LogWalk(
            [split.file.read_until(split.end)],
            self._sink,
            self.damage,
            verify_crc=self._verify_crc,
            start=found.phy_offset,
            stop=split.end,
            aligned_start=True,
            shape=split.shape,
        )
        seen = 0
        for rows in walk.run():
            assert not isinstance(rows, Blank)
            seen = self._note_resynced(seen)
            yield rows
        self._note_resynced(seen)
        self._end_walk(walk, told)

    # ---- both ends ----------------------------------------------------------------------------------

    def _find_start(self) -> SplitStart:
        split = self.split
        if split.aligned:
            return SplitStart(split.start, resynced=False)
        if split.walk_to_start:
            return walk_to(split.file, split.shape, split.start)
        return find_split_start(split.file, split.shape, split.start, split.max_record_size)

    def _next_split_start(self) -> int | None:
        """Where the task of the next split will begin by the rule; None when the rule does not tell, or nobody asks."""
        split = self.split
        if not split.check_end or split.end is None:
            return None
        return unanimous_start(split.file, split.shape, split.end, split.max_record_size)

    def _end_walk(self, walk: LogWalk[Rows], told: int | None) -> None:
        split = self.split
        if any(one.kind == "missing_file" for one in self.damage):
            self._miss_file()
            return
        self.end_phy_offset = end = walk.end_phy_offset
        if walk.stopped:
            # A window is read to its end: the next split's task reports bad sectors behind this split.
            self.damage[:] = [
                one for one in self.damage if one.kind != "unreadable" or one.start_phy_offset < end
            ]
        if split.end is not None and end >= split.end:
            self._check_end(SplitStart(end, ends_resynced(self.damage, end)), told)
        elif (
            not walk.stopped
        ):  # the file's log ends here; when stopped, the reader's own end lies before the boundary
            self._check_end(SplitStart(None, resynced=False), told)
            self._check_reached()

    def _check_reached(self) -> None:
        split, end = self.split, self.end_phy_offset
        if split.must_reach and split.end is not None and end < split.end:
            raise DataLossError(
                split.broker,
                end,
                None,
                f"{split.file.name} went on to {split.end} when the batch was planned: it was cut since, or a network "
                "filesystem does not show its end everywhere",
            )

    def _check_end(self, own: SplitStart, told: int | None) -> None:
        """Compare where the rule lets the next split begin with what the walk has met at the boundary.

        The first split of a file begins where every walk does. So by induction each split begins where the one before it ends,
        or one of them raises. A boundary where the rule does not tell needs no check: the next split walks to it.
        """
        split = self.split
        if told is None or split.end is None or SplitStart(told, resynced=False) == own:
            return
        expected = "nothing" if own.phy_offset is None else str(own.phy_offset)
        if own.resynced:
            expected += ", behind damage"
        raise SplitError(split.file.name, split.end, told, expected)

    # ---- damage -------------------------------------------------------------------------------------

    def _miss_file(self) -> None:
        """The file is gone: this split's share of it is missing."""
        split, file = self.split, self.split.file
        end = file.file_from_offset + split.shape.file_size if split.end is None else split.end
        self.damage[:] = damage_of(
            file,
            split.start - file.file_from_offset,
            end - file.file_from_offset,
            "missing_file",
            "file",
            "present",
            "deleted while it was read",
        )

    def _note_resynced(self, seen: int) -> int:
        for found in self.damage[seen:]:
            if is_skipped(found):
                self.resynced.add(found.end_phy_offset)
        return len(self.damage)


def stop_offset(split: Split, end_phy_offset: int | None = None) -> int | None:
    """The first CommitLog offset that a sink must leave alone: the split's end, or a reader's own before it."""
    ends = [end for end in (split.end, end_phy_offset) if end is not None]
    return min(ends, default=None)
