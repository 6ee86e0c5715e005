"""The reduce stages of a queue rebuild: pieces of queues in, files out.

Entries of which each has the queue offset behind that of the record before it go to the places these offsets say, whatever
builds the other files of the queue. Where a queue's offsets repeat, lack or go back, what a broker's append makes of a record
hangs on all the records before it: such a queue is played back in the order of the log, by one task.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import groupby, pairwise
from pathlib import Path

import numpy as np

from rmqcore.offline.damage import DamageRange
from rmqcore.offline.hidden_records import HiddenRecords
from rmqcore.offline.queue_runs import ENTRY, Entries, Offsets, Place
from rmqcore.offline.rebuild_queues import FILLER, QueueBuilder, without_place
from rmqcore.spark.commit import StagedFile
from rmqcore.spark.commit_attempt import Attempt
from rmqcore.spark.rebuild_items import Piece


@dataclass(frozen=True, slots=True)
class FilePart:
    """What belongs into one file of a queue.

    Attributes
    ----------
    place : (str, int)
    file_number : int
    received : int
        Items.
    first_offset, last_offset : int
        Queue offsets.
    name : str
        The file's.
    file : StagedFile or None
        None: the offsets do not follow each other, and nothing was written.
    """

    place: Place
    file_number: int
    received: int
    first_offset: int = -1
    last_offset: int = -1
    name: str = ""
    file: StagedFile | None = None


@dataclass(frozen=True, slots=True)
class PlayedQueue:
    """A queue that was played back.

    Attributes
    ----------
    place : (str, int)
    received : int
        Items.
    entries, filled, ignored : int
        As `QueueBuilder` counts.
    files : dict
        Name -> StagedFile.
    """

    place: Place
    received: int
    entries: int
    filled: int
    ignored: int
    files: dict[str, StagedFile] = field(default_factory=dict)


class FileReduce:
    """Builds the files of a shuffle partition, whose pieces are sorted by queue, file and sequence."""

    def __init__(self, job_folder: Path, file_size: int) -> None:
        self._job_folder = job_folder
        self._file_size = file_size

    def results(self, pieces: Iterable[Piece], /) -> Iterator[object]:
        """A `FilePart` for each file, and the reports as they are."""
        attempt = Attempt(self._job_folder)
        groups = groupby(pieces, key=lambda piece: (piece.topic, piece.queue_id, piece.file_number))
        for (topic, _, file_number), group in groups:
            if topic is None:
                yield from (report_of(piece) for piece in group)
            else:
                yield self._file_part(attempt, file_number, group)
        attempt.sync()

    def _file_part(self, attempt: Attempt, file_number: int, pieces: Iterator[Piece]) -> FilePart:
        received, next_offset = 0, -1
        place: Place = "", 0
        runs: list[tuple[Offsets, Entries]] = []
        for piece in pieces:
            offsets, entries = piece.items()
            place = piece.place
            follows = received == 0 or (runs and offsets[0] == next_offset)
            if follows and np.all(np.diff(offsets) == 1) and without_place(place, offsets) == 0:
                runs.append((offsets, entries))
            else:
                runs.clear()  # there may be any number of them
            received += len(offsets)
            next_offset = int(offsets[-1]) + 1
        if not runs:
            return FilePart(place, file_number, received)
        ((name, file),) = build(attempt, place, self._file_size, runs)[1].items()
        first = int(runs[0][0][0])
        return FilePart(place, file_number, received, first, next_offset - 1, name, file)


class QueueReplay:
    """Plays back the queues of a shuffle partition, whose pieces are sorted by queue and sequence."""

    def __init__(self, job_folder: Path, file_size: int, damage: list[DamageRange]) -> None:
        self._job_folder = job_folder
        self._file_size = file_size
        self._damage = damage

    def results(self, pieces: Iterable[Piece], /) -> Iterator[object]:
        """A `PlayedQueue` for each queue, and the reports as they are."""
        attempt = Attempt(self._job_folder)
        groups = groupby(pieces, key=lambda piece: (piece.topic, piece.queue_id))
        for (topic, queue_id), group in groups:
            if topic is None:
                yield from (report_of(piece) for piece in group)
                continue
            place, runs = (topic, queue_id), _Counted(group)
            builder, files = build(attempt, place, self._file_size, runs, self._damage)
            counts = builder.entries, builder.filled, builder.ignored
            yield PlayedQueue(place, runs.received, *counts, files)
        attempt.sync()


class _Counted:
    """The runs of pieces, and how many items they had."""

    def __init__(self, pieces: Iterator[Piece]) -> None:
        self.received = 0
        self._pieces = pieces

    def __iter__(self) -> Iterator[tuple[Offsets, Entries]]:
        for piece in self._pieces:
            offsets, entries = piece.items()
            self.received += len(offsets)
            yield offsets, entries


def build(
    attempt: Attempt,
    place: Place,
    file_size: int,
    runs: Iterable[tuple[Offsets, Entries]],
    damage: list[DamageRange] | None = None,
) -> tuple[QueueBuilder, dict[str, StagedFile]]:
    """Build files of one queue from its entries in order, and describe them by name."""
    root = attempt.folder
    builder = QueueBuilder(root, file_size, HiddenRecords(damage or []).before)
    try:
        for offsets, entries in runs:
            builder.add_run(place, offsets, entries)
    finally:
        builder.close()
    return builder, {path.name: describe(attempt, path) for path in builder.paths}


def describe(attempt: Attempt, path: Path) -> StagedFile:
    """What a queue file holds; fillers and free places are no rows."""
    entries = np.fromfile(path, ENTRY)
    used = entries[(entries["msg_size"] != 0) & (entries["msg_size"] != FILLER["msg_size"][0])]
    offsets = used["phy_offset"]
    first, last = (int(offsets.min()), int(offsets.max())) if len(offsets) else (-1, -1)
    return attempt.stage(path, len(used), first, last)


def report_of(piece: Piece) -> object:
    """What a map task had to say."""
    return pickle.loads(piece.blob)  # noqa: S301 - our own tasks' bytes


def is_whole(parts: list[FilePart]) -> bool:
    """Whether the files of one queue, each built for itself, are what one append after the other makes."""
    files = []
    for part in sorted(parts, key=lambda part: part.file_number):
        if part.file is None:
            return False
        files.append((part, part.file))
    return all(
        one.last_offset + 1 == other.first_offset
        and file.end_phy_offset < next_file.start_phy_offset
        for (one, file), (other, next_file) in pairwise(files)
    )
