"""The reduce stages of a queue rebuild: pieces of queues in, files out.

If each entry has the queue offset behind that of the entry before it, entries belong at the places of these offsets, so
each file of a queue can be built by itself. If a queue's offsets repeat, are missing or decrease, the effect of a
broker's append depends on all records before it: then one task plays back the queue in the order of the log.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import groupby, pairwise
from pathlib import Path

import numpy as np

from rmqcore._native.format.cq_arrays import CQ_DTYPE
from rmqcore._native.format.layout import CQ_FILLER_SIZE
from rmqcore.disk.set_aside import SetAside
from rmqcore.maintenance.rebuild.queue_builder import QueueBuilder, count_unplaceable
from rmqcore.maintenance.rebuild.queue_runs import Entries, Offsets
from rmqcore.spark.output.attempt import Attempt
from rmqcore.spark.output.part_output import StagedFile
from rmqcore.spark.rebuild.queue_pieces import Piece
from rmqcore.vocabulary.topics import QueueKey


@dataclass(frozen=True, slots=True)
class FilePart:
    """The items of one file of a queue, and the file made of them.

    Attributes
    ----------
    place : (str, int)
    file_number : int
    received : int
        Number of items.
    first_offset, last_offset : int
        Queue offsets of the first and the last item.
    name : str
        Name of the file.
    file : StagedFile or None
        None: the offsets are not consecutive, and nothing was written.
    """

    place: QueueKey
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
        Number of items.
    entries, filled, ignored : int
        As `QueueBuilder` counts.
    files : dict
        Name -> StagedFile.
    set_aside : tuple of SetAside
        As of `QueueBuilder`.
    """

    place: QueueKey
    received: int
    entries: int
    filled: int
    ignored: int
    files: dict[str, StagedFile] = field(default_factory=dict)
    set_aside: tuple[SetAside, ...] = ()


class FileReduce:
    """Builds the files of a shuffle partition, whose pieces are sorted by queue, file and sequence."""

    def __init__(self, job_folder: Path, file_size: int) -> None:
        self._job_folder = job_folder
        self._file_size = file_size

    def results(self, pieces: Iterable[Piece], /) -> Iterator[object]:
        """Yield a `FilePart` for each file, and the reports unchanged."""
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
        place: QueueKey = "", 0
        runs: list[tuple[Offsets, Entries]] = []
        for piece in pieces:
            offsets, entries = piece.items()
            place = piece.place
            follows = received == 0 or (runs and offsets[0] == next_offset)
            placeable = count_unplaceable(place, offsets, self._file_size) == 0
            if follows and np.all(np.diff(offsets) == 1) and placeable:
                runs.append((offsets, entries))
            else:
                runs.clear()  # there may be any number of them
            received += len(offsets)
            next_offset = int(offsets[-1]) + 1
        if not runs:
            return FilePart(place, file_number, received)
        builder, files = build(attempt, place, self._file_size, runs)
        if builder.entries != received:  # one record names the queue several times
            return FilePart(place, file_number, received)
        ((name, file),) = files.items()
        first = int(runs[0][0][0])
        return FilePart(place, file_number, received, first, next_offset - 1, name, file)


class QueueReplay:
    """Plays back the queues of a shuffle partition, whose pieces are sorted by queue and sequence."""

    def __init__(self, job_folder: Path, file_size: int) -> None:
        self._job_folder = job_folder
        self._file_size = file_size

    def results(self, pieces: Iterable[Piece], /) -> Iterator[object]:
        """Yield a `PlayedQueue` for each queue, and the reports unchanged."""
        attempt = Attempt(self._job_folder)
        groups = groupby(pieces, key=lambda piece: (piece.topic, piece.queue_id))
        for (topic, queue_id), group in groups:
            if topic is None:
                yield from (report_of(piece) for piece in group)
                continue
            place, runs = (topic, queue_id), _Counted(group)
            builder, files = build(attempt, place, self._file_size, runs)
            counts = builder.entries, builder.filled, builder.ignored
            yield PlayedQueue(place, runs.received, *counts, files, tuple(builder.set_aside))
        attempt.sync()


class _Counted:
    """The runs of pieces, and the number of their items."""

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
    place: QueueKey,
    file_size: int,
    runs: Iterable[tuple[Offsets, Entries]],
) -> tuple[QueueBuilder, dict[str, StagedFile]]:
    """Build files of one queue from its entries in order, and describe them by name."""
    root = attempt.folder
    builder = QueueBuilder(root, file_size)
    try:
        for offsets, entries in runs:
            builder.add_run(place, offsets, entries)
    finally:
        builder.close()
    return builder, {path.name: describe(attempt, path) for path in builder.paths}


def describe(attempt: Attempt, path: Path) -> StagedFile:
    """Describe the content of a queue file; fillers and free places do not count as rows."""
    entries = np.fromfile(path, CQ_DTYPE)
    used = entries[(entries["msg_size"] != 0) & (entries["msg_size"] != CQ_FILLER_SIZE)]
    offsets = used["phy_offset"]
    first, last = (int(offsets.min()), int(offsets.max())) if len(offsets) else (-1, -1)
    return attempt.stage(path, len(used), first, last)


def report_of(piece: Piece) -> object:
    """Return the report that a map task sent."""
    return pickle.loads(piece.blob)  # noqa: S301 - our own tasks' bytes


def is_whole(parts: list[FilePart]) -> bool:
    """Return True if the separately built files of a queue equal those of successive appends."""
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
