"""Consume queue files made from records: each entry at the place that its record's QUEUEOFFSET says.

`QueueTable` writes them by the rules of an open store: it decides where a queue begins and which entries go where, and
it makes fillers and files. (A broker that puts a record behind a gap into its queue puts it at the end, at an offset
that is not the record's.)
"""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np

from rmqcore._native.queues.queue_table import QueueTable, is_directory_name, most_queue_offset
from rmqcore._native.scan.batch import Batch
from rmqcore._native.scan.scan import ColumnScan
from rmqcore.disk.paths import file_name
from rmqcore.disk.set_aside import IMPOSSIBLE, NAMES_NO_QUEUE, TAKEN, SetAside
from rmqcore.maintenance.rebuild.queue_runs import Entries, Offsets, QueueRuns, Topics
from rmqcore.offline.queues.queue_reader import QueueFiles
from rmqcore.vocabulary.topics import QueueKey

MOST_OPEN = 256
MOST_BYTES = 192 << 20
"""Bytes of memory for the queues of one pass over the log, about: 300,000 queues of as many topics, 600,000 of a few."""
MOST_LISTED = 100
"""Most ranges of records in no queue to report."""
QUEUE_BYTES = 320
"""Bytes of memory of a queue in the table."""


class QueueBuilder:
    """Makes the files of all queues below a folder.

    A log may have more queues than the memory allowed holds. Then the builder leaves some out and sets `again`; the
    caller calls `next_pass` and passes the whole log again, until all queues are made. A queue is made as a whole in
    one pass; the folder shows the queues that are done.

    Parameters
    ----------
    folder : Path
        Becomes the ``consumequeue`` folder.
    file_size : int
        Bytes of a file, whole entries.
    batch_topics : collection of str
        As in `QueueRuns`.

    Attributes
    ----------
    entries : int
        Entries put.
    again : bool
        True if queues are left for another pass.
    """

    def __init__(
        self,
        folder: Path,
        file_size: int,
        batch_topics: Topics = frozenset(),
    ) -> None:
        self.entries = 0
        self.again = False
        self._set_aside: list[SetAside] = []
        self._folder = os.fspath(folder)
        self._file_size = file_size
        self._batch_topics = batch_topics
        self._runs = QueueRuns(batch_topics)
        self._table = self._new_table()
        self._bytes = 0
        self._topic: str | None = None
        self._first_pass = True
        self._received = 0
        self._queues = self._files = self._filled = 0

    def _new_table(self) -> QueueTable:
        return QueueTable(self._folder, self._file_size, MOST_OPEN)

    @property
    def ignored(self) -> int:
        """Records left out, once all passes are done: their queue offset was there already, or it cannot be."""
        return self._received - self.entries

    @property
    def set_aside(self) -> list[SetAside]:
        """Records that are in no queue, by queue and CommitLog offset; the first 100 ranges that were met."""
        found: list[SetAside] = []
        for one in sorted(
            self._set_aside, key=lambda one: (one.topic, one.queue_id, one.first_phy_offset)
        ):
            # The ends of the scan's batches are arbitrary.
            if found and found[-1].is_followed_by(one):
                end = one.last_queue_offset, one.last_phy_offset
                found[-1] = replace(found[-1], last_queue_offset=end[0], last_phy_offset=end[1])
            else:
                found.append(one)
        return found

    @property
    def queues(self) -> int:
        """How many queues have entries."""
        return self._queues + self._table.file_counts[0]

    @property
    def file_count(self) -> int:
        """How many files were made."""
        return self._files + self._table.file_counts[1]

    @property
    def filled(self) -> int:
        """Places that were filled because the log does not have their messages."""
        return self._filled + self._table.gaps

    @property
    def paths(self) -> list[Path]:
        """The files made in this pass."""
        found = []
        for topic, queue_id in self._table.places():
            queue = self._table.find(topic, queue_id)
            if queue is None or queue.first_file < 0:
                continue
            folder = Path(self._folder, topic, str(queue_id))
            starts = range(queue.first_file, queue.last_file + 1, self._file_size)
            found += [folder / file_name(start) for start in starts]
        return found

    def next_pass(self) -> None:
        """Start a pass for the queues that were left out; the caller passes the log again."""
        self.close()
        self._queues = self.queues
        self._files = self.file_count
        self._filled = self.filled
        self._runs = QueueRuns(self._batch_topics)
        self._table = self._new_table()
        self._bytes = 0
        self._topic = None
        self._first_pass = self.again = False

    def add(self, scan: ColumnScan, batch: Batch) -> None:
        """Put the entries of a batch, and those of `put_entry`; they may wait for those of more batches, or for `flush`."""
        if self._runs.hold(scan, batch):
            self.flush()

    def flush(self) -> None:
        """Put all entries that wait, at the end of the log."""
        for place, offsets, entries in self._runs.held():
            self.add_run(place, offsets, entries)

    def put_entry(
        self,
        topic: str,
        queue_id: int,
        phy_offset: int,
        msg_size: int,
        tags_code: int,
        queue_offset: int,
    ) -> bool:
        """Put one more entry, written with the next batch; answers whether the batch should end, as of `QueueRuns`."""
        return self._runs.put_entry(topic, queue_id, phy_offset, msg_size, tags_code, queue_offset)

    def close(self) -> None:
        """Close the files."""
        self._table.close_files()

    # ---- one queue ----------------------------------------------------------------------------------

    def add_run(self, place: QueueKey, offsets: Offsets, entries: Entries) -> None:
        """Put the next entries of one queue, in the order of their records.

        Raises
        ------
        OSError
            A file cannot be made or written.
        """
        if self._first_pass:
            self._received += len(offsets)
        if self._table.has(*place) or self._admits(place, offsets):
            put = self._table.put_run(*place, offsets, entries)
            self.entries += put
            if put < len(offsets):
                self._name_ignored(place, offsets, entries)
        elif self._first_pass and count_unplaceable(place, offsets, self._file_size) == len(
            offsets
        ):
            self._name_ignored(place, offsets, entries)

    def _name_ignored(self, place: QueueKey, offsets: Offsets, entries: Entries) -> None:
        """Note the records of a run that are in no queue, with the entries at their places."""
        if len(self._set_aside) >= MOST_LISTED:
            return
        phy_offsets = entries["phy_offset"].astype(np.int64)
        cuts = np.flatnonzero((np.diff(offsets) != 1) | (np.diff(phy_offsets) <= 0)) + 1
        named = is_directory_name(place[0]) and place[1] >= 0
        queue = None
        if named and (folder := Path(self._folder, place[0], str(place[1]))).is_dir():
            queue = QueueFiles(*place, folder)
        bounds = [0, *cuts.tolist(), len(offsets)]
        missing = np.ones(len(offsets), bool)
        for begin, end in pairwise(bounds):
            if queue is not None and offsets[begin] >= 0:
                held = queue.entries(int(offsets[begin]), end - begin)["phy_offset"]
                missing[begin : begin + len(held)] = held != phy_offsets[begin : begin + len(held)]
        # A record can name a light queue twice: it is there by its first entry.
        missing &= ~np.isin(phy_offsets, phy_offsets[~missing])
        most = most_queue_offset(self._file_size)
        for begin, end in pairwise(bounds):
            rows = begin + np.flatnonzero(missing[begin:end])
            for part in np.split(rows, np.flatnonzero(np.diff(rows) != 1) + 1):
                if not len(part) or len(self._set_aside) >= MOST_LISTED:
                    continue
                first, last = int(part[0]), int(part[-1])
                possible = 0 <= offsets[first] <= most
                why = (TAKEN if possible else IMPOSSIBLE) if named else NAMES_NO_QUEUE
                numbers = int(offsets[first]), int(offsets[last])
                lie = int(phy_offsets[first]), int(phy_offsets[last])
                self._set_aside.append(SetAside(*place, *numbers, *lie, why))

    def _admits(self, place: QueueKey, offsets: Offsets) -> bool:
        """Return True if a queue starts with these entries in this pass.

        An admitted queue gets its file now, so that the next pass finds it.
        """
        if count_unplaceable(place, offsets, self._file_size) == len(offsets):
            return False  # it would have no file, and would be new in each pass
        topic, queue_id = place
        if not self._first_pass and os.path.lexists(f"{self._folder}/{topic}/{queue_id}"):
            return False
        if self._bytes >= MOST_BYTES:
            self.again = True
            return False
        self._bytes += QUEUE_BYTES
        if topic != self._topic:  # the runs of a batch come by topic
            self._topic = topic
            self._bytes += topic_bytes(topic)
        return True


def topic_bytes(topic: str) -> int:
    """Return the table's bytes for a topic: its name as text and as bytes, and places in a list and a dictionary."""
    return 200 + sys.getsizeof(topic) + len(os.fsencode(topic))


def count_unplaceable(place: QueueKey, offsets: Offsets, file_size: int) -> int:
    """Count a run's first entries with which no queue can start: all if the topic cannot name a directory."""
    if not is_directory_name(place[0]):
        return len(offsets)
    most = most_queue_offset(file_size)
    if 0 <= offsets[0] <= most:
        return 0
    fits = np.flatnonzero((offsets >= 0) & (offsets <= most))
    return int(fits[0]) if len(fits) else len(offsets)
