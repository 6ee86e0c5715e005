"""Consume queue files made from records: each entry at the place that its record's QUEUEOFFSET says.

`QueueTable` writes them by the rules of an open store: it decides where a queue begins and which entries go where, and it makes
fillers and files. (A broker that puts a record behind a gap into its queue puts it at the end, at an offset that is not the
record's.)
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from rmqcore._native.queues.consume_queue import ConsumeQueue
from rmqcore._native.queues.queue_table import QueueTable, is_directory_name, most_queue_offset
from rmqcore._native.scan.batch import Batch
from rmqcore._native.scan.scan import ColumnScan
from rmqcore.disk.paths import file_name
from rmqcore.rebuild.queue_runs import Entries, Offsets, Place, QueueRuns

MOST_OPEN = 256


class QueueBuilder:
    """Makes the files of all queues below a folder.

    Parameters
    ----------
    folder : Path
        Becomes the ``consumequeue`` folder.
    file_size : int
        Bytes of a file, whole entries.
    batch_topics : frozenset of str
        As in `QueueRuns`.

    Attributes
    ----------
    entries, ignored : int
        Entries put, and records left out: their queue offset was there already, or it cannot be.
    """

    def __init__(
        self,
        folder: Path,
        file_size: int,
        batch_topics: frozenset[str] = frozenset(),
    ) -> None:
        self.entries = self.ignored = 0
        self._folder = folder
        self._file_size = file_size
        self._runs = QueueRuns(batch_topics)
        self._table = QueueTable(os.fspath(folder), file_size, MOST_OPEN)
        self._queues: dict[Place, ConsumeQueue] = {}

    @property
    def queues(self) -> int:
        """How many queues have entries."""
        return len(self._queues)

    @property
    def filled(self) -> int:
        """Places that were filled because the log does not have their messages."""
        return self._table.gaps

    @property
    def file_count(self) -> int:
        """How many files were made."""
        return sum(
            (queue.last_file - queue.first_file) // self._file_size + 1
            for queue in self._queues.values()
        )

    @property
    def paths(self) -> list[Path]:
        """The files made."""
        return [
            self._folder / topic / str(queue_id) / file_name(start)
            for (topic, queue_id), queue in self._queues.items()
            for start in range(queue.first_file, queue.last_file + 1, self._file_size)
        ]

    def add(self, scan: ColumnScan, batch: Batch) -> None:
        """Put the entries of a batch, and those of `put_entry`."""
        for place, offsets, entries in self._runs.of(scan, batch):
            self.add_run(place, offsets, entries)

    def put_entry(
        self,
        topic: str,
        queue_id: int,
        phy_offset: int,
        msg_size: int,
        tags_code: int,
        queue_offset: int,
    ) -> None:
        """Put one more entry; it is written with the next batch."""
        self._runs.put_entry(topic, queue_id, phy_offset, msg_size, tags_code, queue_offset)

    def close(self) -> None:
        """Close the files."""
        self._table.close_files()

    # ---- one queue ----------------------------------------------------------------------------------

    def add_run(self, place: Place, offsets: Offsets, entries: Entries) -> None:
        """Put the next entries of one queue, in the order of their records.

        Raises
        ------
        OSError
            A file cannot be made or written.
        """
        if not is_directory_name(place[0]):
            self.ignored += len(offsets)
            return
        done = self._table.put_run(*place, offsets, entries)
        self.entries += done
        self.ignored += len(offsets) - done
        if done and place not in self._queues:
            queue = self._table.find(*place)
            assert queue is not None
            self._queues[place] = queue


def count_unplaceable(place: Place, offsets: Offsets, file_size: int) -> int:
    """How many of a run's first entries no queue can begin with: all of them when the topic is no name for a directory."""
    if not is_directory_name(place[0]):
        return len(offsets)
    fits = np.flatnonzero((offsets >= 0) & (offsets <= most_queue_offset(file_size)))
    return int(fits[0]) if len(fits) else len(offsets)
