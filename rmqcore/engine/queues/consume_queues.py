"""All ConsumeQueues of an open store."""

from __future__ import annotations

import os
from collections.abc import Callable, Container, Iterator, Mapping
from pathlib import Path
from typing import Any

from rmqcore._native.format.layout import CQ_STORE_UNIT_SIZE
from rmqcore._native.queues.consume_queue import ConsumeQueue
from rmqcore._native.queues.queue_compare import QueueCompare
from rmqcore._native.queues.queue_table import QueueTable
from rmqcore._native.scan.batch import Batch
from rmqcore._native.scan.scan import ColumnScan
from rmqcore._native.threads.mutex import Mutex, run_with
from rmqcore.config import MessageStoreConfig
from rmqcore.disk.descriptors import most_open_files
from rmqcore.disk.durable import sync_directory
from rmqcore.disk.paths import StorePaths
from rmqcore.disk.queue_ends import (
    end_of_message,
    newest_entry,
    recovered_end,
    truncated_end,
)
from rmqcore.disk.queue_files import (
    Entries,
    QueueFile,
    batch_topics,
    load_queue_files,
    odd_files,
    queue_directories,
)
from rmqcore.disk.queue_shape import QueueShape, Suspect
from rmqcore.engine.queues.expired import delete_all_files, delete_expired_files, raise_it
from rmqcore.engine.queues.queue_places import Fits, QueuePlaces, correct_min_offset, hide_before
from rmqcore.engine.queues.stale_bytes import StaleBytes
from rmqcore.errors import StoreClosedError
from rmqcore.vocabulary.units import INT_MAX


class ConsumeQueues:
    """The ConsumeQueues of one store: `load`, `recover`, `truncate`, then entries come in with the batches of a scan.

    Queue files are created sparse at their full size, written with one ``pwrite`` for each touched queue and file, and
    never mapped. Not more than 1024 of them stay open, fewer where the process may not open many files.

    Messages of a topic that cannot name a directory (empty, a dot name, with a separator or NUL, over 255 bytes) get no
    entries: their files would lie outside the store. Messages of batch topics (``batchconsumequeue/``) get no entries
    either: a broker would not start with them. `refused` counts both, and messages with an impossible queue offset.

    ``consumequeue_ext`` is ignored and never written: entries hold the tags code itself, as Java's do when its
    extension cannot be written.

    Parameters
    ----------
    paths : StorePaths
    config : MessageStoreConfig
        Its ``mapped_file_size_consume_queue``, rounded up to whole entries, is the size of a queue file.

    Notes
    -----
    **Thread safety.** Any thread may call any method; methods that write wait for each other. A queue is read without a
    lock.

    **Durability.** Entries are on disk after `flush`. After a failed write or sync the caller must stop writing (the
    store fails); every entry below `max_offset` was written.

    Source: RocketMQ 5.5.0 ConsumeQueueStore.
    """

    def __init__(self, paths: StorePaths, config: MessageStoreConfig) -> None:
        self._paths = paths
        self._file_size = config.consume_queue_file_size
        self._root = paths.consumequeue.absolute()
        self._table = QueueTable(os.fspath(self._root), self._file_size, most_open_files())
        self._queues: dict[tuple[str, int], ConsumeQueue] = {}
        self._loaded: list[tuple[ConsumeQueue, list[QueueFile]]] = []
        self._recovered: list[tuple[ConsumeQueue, list[QueueFile]]] = []
        self._stale = StaleBytes()
        self._places = QueuePlaces(paths, self._table, self._stale)
        self._lock = Mutex(again=True)
        self._flush_lock = Mutex()
        self._closed = False

    # ---- opening ------------------------------------------------------------------------------------

    def load(self, *, clean_exit: bool = True) -> None:
        """List all files; change nothing. `sync_places` mends files of a wrong length or name, see `odd_files`.

        Raises
        ------
        StoreFormatError
            The files' sizes differ from the configured size.
        """
        with self._writing():
            odd = odd_files(self._paths, self._file_size, clean_exit=clean_exit)
            self._places.odd = odd
            for topic, queue_id, directory in queue_directories(self._paths):
                files, empty = load_queue_files(directory, self._file_size, odd)
                queue = self._table.find_or_add(topic, queue_id)
                self._queues[topic, queue_id] = queue
                self._loaded.append((queue, files))
                self._stale.add_files(empty)
            self._table.leave_out(batch_topics(self._paths))

    def recover(self, *, synced: bool = False) -> None:
        """Find where each queue ends by its entries.

        Files are only read: bytes behind the ends stay until `truncate`, or until the first entry is put.

        Parameters
        ----------
        synced : bool
            True after a clean exit: the entries found need no further sync.

        Source: RocketMQ 5.5.0 ConsumeQueue#recover.
        """
        with self._writing():
            self._recovered = self._loaded
            for queue, files in self._loaded:
                at, valid = recovered_end(files)
                if at >= 0:
                    max_phy = end_of_message(newest_entry(files, at, valid))
                    self._places.set_end(queue, files, at, valid, max_phy)
            self._loaded = []
            if synced:
                self._table.assume_flushed()

    # ---- made right from the log --------------------------------------------------------------------

    def comparer(self, *, none_held: bool = False) -> QueueCompare:
        """Return a new comparison of records with their entries; `none_held`: no queue has a file."""
        return self._places.comparer(none_held=none_held)

    def suspects(
        self,
        log_min: int,
        log_end: int,
        known_from: int,
        seen: Container[tuple[str, int]],
        *,
        thorough: bool,
    ) -> list[tuple[tuple[str, int], int, list[Suspect]]]:
        """Search the files of all queues for missing or wrong entries; `recover` was called.

        Parameters
        ----------
        log_min, log_end, known_from : int
            As in `QueueShape`.
        seen : container
            Queues with a record at `known_from` or behind it. The entries of others cannot point there.
        thorough : bool
            Read all entries. Otherwise queues with one file are believed as `recover` found them.

        Returns
        -------
        list
            Topic and queue id, the queue offset at which the queue ends by its files, and the suspects; an empty list
            of these for a queue that was not seen and points at `known_from` or behind it.
        """
        found = []
        for queue, files in self._recovered:
            astray = queue.max_phy_offset > known_from and (queue.topic, queue.queue_id) not in seen
            stale = astray or any(file.path in self._stale for file in files)
            shape = QueueShape(files, log_min, known_from if astray else log_end, known_from)
            if not thorough and not stale and shape.is_plain(queue.max_offset):
                continue
            end, suspects = shape.suspects(thorough=thorough, end=queue.max_offset, stale=stale)
            if suspects or astray:
                found.append(((queue.topic, queue.queue_id), end, suspects))
        return found

    def read_places(self, topic: str, queue_id: int, queue_offset: int, count: int) -> Entries:
        """Return the entries in the files at `count` places from a queue offset on; zeros where a file is missing."""
        return self._places.read(topic, queue_id, queue_offset, count)

    def write_places(self, topic: str, queue_id: int, queue_offset: int, entries: Entries) -> None:
        """Write entries at their places and make missing files; the queue's end does not move."""
        self._writing().run(self._write_places, topic, queue_id, queue_offset, entries)

    def _write_places(self, topic: str, queue_id: int, queue_offset: int, entries: Entries) -> None:
        self._places.write(topic, queue_id, queue_offset, entries)
        queue = self._table.find(topic, queue_id)
        first = queue_offset * CQ_STORE_UNIT_SIZE // self._file_size * self._file_size
        if queue is not None and first < queue.first_file:
            end = queue.max_offset * CQ_STORE_UNIT_SIZE
            queue.set_files(first, queue.last_file, end, queue.max_phy_offset)

    def settle(
        self,
        ends: Mapping[tuple[str, int], int],
        fill: Mapping[tuple[str, int], int],
        known_from: int,
        log_min: int,
        log_end: int,
        fits: Fits,
    ) -> tuple[int, int]:
        """End the queues at the offsets that the log determines, and zero the bytes behind them.

        Parameters
        ----------
        ends : mapping
            Topic and queue id to the queue offset behind the last record, for queues with a record at `known_from` or
            behind it.
        fill : mapping
            Topic and queue id to the queue offset from which on places without a sound entry get fillers.
        known_from : int
            The log from this CommitLog offset on was compared with the queues. An entry of another queue that points
            there is stale, unless it fits its record.
        log_min, log_end : int
        fits : callable

        Returns
        -------
        tuple
            Number of entries removed, and of fillers written.
        """
        cut = filled = 0
        with self._flush_lock, self._writing():
            for queue in self._all():
                place = queue.topic, queue.queue_id
                end = ends.get(place)
                if end == queue.max_offset and queue.last_file >= 0 and place not in fill:
                    continue
                if end is None and place not in fill and queue.max_phy_offset <= known_from:
                    continue
                cut_here, filled_here = self._places.settle(
                    queue, end, known_from, log_min, log_end, fill_from=fill.get(place), fits=fits
                )
                cut += cut_here
                filled += filled_here
            self._stale.clear()
            self._recovered = []
        return cut, filled

    def sync_places(self) -> None:
        """Sync the bytes that `write_places` and `settle` wrote, then mend files of a wrong length or name."""
        self._flush_lock.run(self._places.sync)

    def truncate(self, phy_offset: int) -> int:
        """Cut all entries of messages at or behind a CommitLog offset, and zero the bytes behind the queues' ends.

        Returns
        -------
        int
            Number of entries cut.

        Notes
        -----
        Source: RocketMQ 5.5.0 ConsumeQueueStore#truncateDirty, ConsumeQueue#truncateDirtyLogicFiles. Java leaves the
        bytes of cut entries in the files, where a later recovery can take them for entries again.
        """
        cut = 0
        with self._flush_lock, self._writing():
            if self._table.max_phy_offset >= phy_offset:
                for queue in self._all():
                    cut += self._truncate_queue(queue, phy_offset)
            self._stale.clear()
        return cut

    def _truncate_queue(self, queue: ConsumeQueue, phy_offset: int) -> int:
        listed, _ = self._places.load(queue)
        files = [file for file in listed if file.file_from_offset <= queue.last_file]
        if queue.last_file < 0 or not files:
            queue.set_files(-1, -1, 0, -1)
            return 0
        at = len(files) - 1
        valid = queue.max_offset - files[at].first_offset
        new_at, kept = truncated_end(files, at, valid, phy_offset)
        if (new_at, kept) == (at, valid):
            return 0
        if new_at < 0:
            self._stale.add_files(file.path for file in files)
            cut = queue.max_offset - files[0].first_offset
            queue.set_files(-1, -1, 0, -1)
            return cut
        max_phy = end_of_message(newest_entry(files, new_at, kept))
        cut = queue.max_offset - files[new_at].first_offset - kept
        self._places.set_end(queue, files, new_at, kept, max_phy)
        return cut

    def destroy_all(self) -> None:
        """Delete all files of all queues; the queues stay, empty.

        Source: RocketMQ 5.5.0 ConsumeQueueStore#destroy.
        """
        with self._flush_lock, self._writing():
            self._loaded = []
            self._stale.forget()
            for queue in self._all():
                delete_all_files(queue, self._directory(queue))
                queue.set_files(-1, -1, 0, -1)
                queue.set_min(0)

    def correct_min_offsets(self, min_phy_offset: int) -> None:
        """Raise the min offsets to the first entries whose messages lie at or behind the log's start."""
        with self._writing():
            for queue in self._all():
                correct_min_offset(queue, min_phy_offset)

    def hide_before(self, topic: str, phy_offset: int) -> None:
        """Start the queues of a topic at the first message at or behind a CommitLog offset; files are not changed."""
        with self._writing():
            for queue in self._all():
                if queue.topic == topic:
                    hide_before(queue, phy_offset)

    # ---- writing ------------------------------------------------------------------------------------

    def put_batch(
        self, scan: ColumnScan, batch: Batch, from_phy_offset: int, covered_from: int = -1
    ) -> int | None:
        """Write the entries of the rows at or behind a CommitLog offset.

        Rows of types without an entry (PREPARED, ROLLBACK) are passed over, and so is an entry that its queue already
        has. An entry lies at its message's queue offset, or nowhere: if messages before it are missing, the queues
        first ask for an earlier part of the log; if the log does not have them, fillers take their places (`gaps`). If
        the log cannot hold so long a gap, the queue offset is wrong and the message gets no entry (`refused`).

        Parameters
        ----------
        scan : ColumnScan
            The scan that made the batch: it numbers the topics.
        batch : Batch
            With the columns of `rmqcore._native.queues.COLUMNS` at least.
        from_phy_offset : int
        covered_from : int
            CommitLog offset from which the queues received the log in order, up to these rows; -1: from its start.

        Returns
        -------
        int or None
            CommitLog offset from which the queues need the log before these rows (-1: from its first byte). None: the
            rows were put.

        Raises
        ------
        OSError
            A file cannot be made or written. Only the entries that were written count.

        Notes
        -----
        Source: RocketMQ 5.5.0 ConsumeQueue#putMessagePositionInfo.
        """
        return self._writing().run(
            self._put, self._table.put_batch, scan, batch, from_phy_offset, covered_from
        )

    def _put(self, put: Callable[..., int | None], *what: Any) -> int | None:
        if self._stale:
            self._stale.clear()
        return put(*what)

    def known_table(self, scan: ColumnScan) -> QueueTable | None:
        """Return the table for a dispatch session, with the scan's topics; None while other work must be done first.

        The session puts rows of existing queues while methods of this object run: each of its batches, and each step of
        another writer, holds the table's own lock. A session adds no queue, so `find` never waits for it.
        """
        return self._writing().run(self._know, scan)

    def _know(self, scan: ColumnScan) -> QueueTable | None:
        self._table.know_topics(scan)
        return None if self._stale else self._table

    def put_entry(
        self,
        topic: str,
        queue_id: int,
        phy_offset: int,
        msg_size: int,
        tags_code: int,
        queue_offset: int,
        covered_from: int = -1,
    ) -> int | None:
        """Write one further entry of a message, by the same rules (a light queue's entry, for example)."""
        return self._writing().run(
            self._put,
            self._table.put_entry,
            topic,
            queue_id,
            phy_offset,
            msg_size,
            tags_code,
            queue_offset,
            covered_from,
        )

    def flush(self, least_pages: int = 0) -> bool:
        """Sync the waiting entries of each queue that has at least `least_pages` pages of them (0: of every queue).

        New names in directories are synced with them.

        Returns
        -------
        bool
            Whether the whole file system was synced, because of the many queues that waited.

        Raises
        ------
        OSError
            A queue cannot be synced; later queues were not tried.
        """
        return self._flush_lock.run(self._flush, least_pages)

    def _flush(self, least_pages: int) -> bool:
        self._raise_if_closed()
        return self._table.flush(least_pages)

    def delete_expired(
        self,
        min_phy_offset: int,
        *,
        pause: Callable[[], bool] = lambda: False,
        on_error: Callable[[OSError], object] = raise_it,
    ) -> dict[Path, int]:
        """Delete leading files whose last entry's message is below the log's first byte, and correct the min offsets.

        The newest file of a queue stays. `pause` is called after each queue that lost files, without a lock; True ends
        the work. `on_error` receives the error of a file that cannot be deleted, and the next queue follows. Returns
        the bytes that each deleted file occupied.

        Source: RocketMQ 5.5.0 MappedFileQueue#deleteExpiredFileByOffset, ConsumeQueue#deleteExpiredFile.
        """
        every: dict[Path, int] = {}
        for queue in self._writing().run(list, self._all()):
            try:
                deleted = self._writing().run(self._delete_expired, queue, min_phy_offset)
            except OSError as error:
                on_error(error)
                continue
            if deleted:
                every |= deleted
                if pause():
                    break
        return every

    def _delete_expired(self, queue: ConsumeQueue, min_phy_offset: int) -> dict[Path, int]:
        deleted: dict[Path, int] = {}
        known = queue.min_offset
        if queue.first_file < queue.last_file:
            directory = self._directory(queue)
            deleted = delete_expired_files(queue, directory, self._file_size, min_phy_offset)
        correct_min_offset(queue, min_phy_offset, known)
        return deleted

    def delete(self, queue: ConsumeQueue) -> None:
        """Delete a queue, until its next entry. The deletion is on disk when this returns, partly when it raises."""
        with self._flush_lock, self._writing():
            delete_all_files(queue, self._directory(queue))
            self._table.leave_empty(queue)
            sync_directory(self._directory(queue).parent)

    def close(self) -> None:
        """Close all files. Nothing is flushed."""
        run_with((self._flush_lock, self._lock), self._close)

    def _close(self) -> None:
        self._closed = True
        self._table.close_files()

    # ---- asking -------------------------------------------------------------------------------------

    @property
    def max_phy_offset(self) -> int:
        """CommitLog offset behind the last message that has an entry in any queue; -1 without entries."""
        return self._table.max_phy_offset

    @property
    def refused(self) -> int:
        """Messages without an entry: batch topics, topics that cannot name a directory, impossible queue offsets."""
        return self._table.refused

    @property
    def gaps(self) -> int:
        """Places that were filled because the log does not have their messages."""
        return self._table.gaps

    @property
    def open_files(self) -> int:
        """Number of open files."""
        return self._table.open_files

    def find(self, topic: str, queue_id: int) -> ConsumeQueue | None:
        """Return a queue; None if the store does not have it."""
        place = (topic, queue_id)
        queue = self._queues.get(place)
        if queue is None and 0 <= queue_id <= INT_MAX:
            queue = self._lock.run(self._table.find, topic, queue_id)
            if queue is not None:
                self._queues[place] = queue
        return queue

    def queues(self) -> list[tuple[str, int]]:
        """Topics and queue ids, sorted."""
        return sorted(self._table.places())

    def topics(self) -> list[str]:
        """Topics that have a queue, sorted; batch topics (``batchconsumequeue/``) are not among them."""
        return sorted({topic for topic, _ in self._table.places()})

    # ---- inside -------------------------------------------------------------------------------------

    def _writing(self) -> Mutex:
        self._raise_if_closed()
        return self._lock

    def _raise_if_closed(self) -> None:
        if self._closed:
            raise StoreClosedError("the consume queues are closed")

    def _all(self) -> Iterator[ConsumeQueue]:
        for topic, queue_id in self._table.places():
            queue = self.find(topic, queue_id)
            assert queue is not None
            yield queue

    def _directory(self, queue: ConsumeQueue) -> Path:
        return self._root / queue.topic / str(queue.queue_id)
