"""All ConsumeQueues of an open store."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

from rmqcore._native.cq import CQ_STORE_UNIT_SIZE
from rmqcore._native.queues import QueueTable
from rmqcore._native.scan import Batch, ColumnScan
from rmqcore.config import MessageStoreConfig
from rmqcore.engine.consume_queue import ConsumeQueue, correct_min_offset
from rmqcore.engine.paths import StorePaths, file_name
from rmqcore.engine.queue_file_behind import BehindEnds
from rmqcore.engine.queue_file_ends import (
    end_of_message,
    first_hole,
    newest_entry,
    recovered_end,
    truncated_end,
)
from rmqcore.engine.queue_files import QueueFile, load_queue_files, queue_directories
from rmqcore.errors import StoreClosedError

MOST_OPEN_FILES = 1024


class ConsumeQueues:
    """The ConsumeQueues of one store: `load`, `recover`, `truncate`, then entries come in with the batches of a scan.

    Queue files are created sparse at their full size, written with one ``pwrite`` for each touched queue and file, and never
    mapped. Not more than 1024 of them stay open, fewer where the process may not open many files.

    A topic that is no name for a directory (empty, a dot name, with a separator or NUL, over 255 bytes) gets no entries: they
    would lie outside the store. `refused` counts them.

    ``consumequeue_ext`` is read past, not written: entries hold the tags code itself, as Java's do when its extension cannot be
    written.

    Parameters
    ----------
    paths : StorePaths
    config : MessageStoreConfig
        ``mapped_file_size_consume_queue`` counts, rounded up to whole entries.

    Notes
    -----
    **Thread safety.** Any method on any thread; those that write wait for each other. A queue is read without a lock.

    **Durability.** Entries are on disk after `flush`. After a failed write or sync the caller must not go on writing (the store
    fails); what `max_offset` says was written.

    Source: RocketMQ 5.5.0 ConsumeQueueStore.
    """

    def __init__(self, paths: StorePaths, config: MessageStoreConfig) -> None:
        self._paths = paths
        self._file_size = config.consume_queue_file_size
        self._root = paths.consumequeue.absolute()
        self._table = QueueTable(os.fspath(self._root), self._file_size, _open_files())
        self._queues: dict[tuple[str, int], ConsumeQueue] = {}
        self._loaded: list[tuple[ConsumeQueue, list[QueueFile]]] = []
        self._behind = BehindEnds()
        self._lock = threading.RLock()
        self._flush_lock = threading.Lock()
        self._closed = False

    # ---- opening ------------------------------------------------------------------------------------

    def load(self) -> None:
        """List all files; nothing is read yet.

        Raises
        ------
        StoreFormatError
            A file of another size than configured.
        """
        with self._writing():
            for topic, queue_id, directory in queue_directories(self._paths):
                files, empty = load_queue_files(directory, self._file_size)
                queue = self._table.find_or_add(topic, queue_id)
                self._queues[topic, queue_id] = queue
                self._loaded.append((queue, files))
                self._behind.add_files(empty)

    def recover(self, *, synced: bool = False) -> None:
        """Find where each queue ends by its entries.

        Files are only read: what lies behind the ends stays until `truncate`, or the first entry that is put.

        Parameters
        ----------
        synced : bool
            After a clean exit: what is there need not be synced once more.

        Source: RocketMQ 5.5.0 ConsumeQueue#recover.
        """
        with self._writing():
            for queue, files in self._loaded:
                at, valid = recovered_end(files)
                if at >= 0:
                    max_phy = end_of_message(newest_entry(files, at, valid))
                    self._set_end(queue, files, at, valid, max_phy)
            self._loaded = []
            if synced:
                self._table.assume_flushed()

    def end_at_holes(self, phy_offset: int) -> int:
        """End each queue before the first entry that is missing among those of messages at or behind a CommitLog offset.

        For an unclean exit; messages from that offset on are going to be put again. Files are only read.

        Returns
        -------
        int
            How many queues end earlier now.

        Notes
        -----
        Java's recovery looks at the newest three files of a queue; a hole before them stays.
        """
        shortened = 0
        with self._writing():
            for queue in self._all():
                if queue.first_file < queue.last_file:
                    listed, _ = load_queue_files(self._directory(queue), self._file_size)
                    files = [file for file in listed if file.file_from_offset <= queue.last_file]
                    hole = first_hole(files, phy_offset)
                    if hole is not None:
                        at, valid = hole
                        max_phy = end_of_message(newest_entry(files, at, valid))
                        self._set_end(queue, files, at, valid, max_phy)
                        shortened += 1
        return shortened

    def truncate(self, phy_offset: int) -> int:
        """Cut all entries of messages at or behind a CommitLog offset, and zero what lies behind the ends of the queues.

        Returns
        -------
        int
            How many entries were cut.

        Notes
        -----
        Source: RocketMQ 5.5.0 ConsumeQueueStore#truncateDirty, ConsumeQueue#truncateDirtyLogicFiles. Java leaves the bytes of cut
        entries in the files, where a later recovery can take them for entries again.
        """
        cut = 0
        with self._flush_lock, self._writing():
            if self._table.max_phy_offset >= phy_offset:
                for queue in self._all():
                    cut += self._truncate_queue(queue, phy_offset)
            self._behind.clear()
        return cut

    def _truncate_queue(self, queue: ConsumeQueue, phy_offset: int) -> int:
        listed, _ = load_queue_files(self._directory(queue), self._file_size)
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
            self._behind.add_files(file.path for file in files)
            cut = queue.max_offset - files[0].first_offset
            queue.set_files(-1, -1, 0, -1)
            return cut
        max_phy = end_of_message(newest_entry(files, new_at, kept))
        cut = queue.max_offset - files[new_at].first_offset - kept
        self._set_end(queue, files, new_at, kept, max_phy)
        return cut

    def destroy_all(self) -> None:
        """Delete all files of all queues; the queues stay known, empty.

        Source: RocketMQ 5.5.0 ConsumeQueueStore#destroy.
        """
        with self._flush_lock, self._writing():
            self._loaded = []
            self._behind.forget()
            for queue in self._all():
                directory = self._directory(queue)
                for start in reversed(queue.file_starts()):
                    (directory / file_name(start)).unlink()
                queue.set_files(-1, -1, 0, -1)
                queue.set_min(0)
                if directory.is_dir() and not any(directory.iterdir()):
                    directory.rmdir()

    def correct_min_offsets(self, min_phy_offset: int) -> None:
        """Bring the min offsets up to the first entries whose messages are still in the log, which begins there."""
        with self._writing():
            for queue in self._all():
                correct_min_offset(queue, min_phy_offset)

    # ---- writing ------------------------------------------------------------------------------------

    def put_batch(self, scan: ColumnScan, batch: Batch, from_phy_offset: int) -> None:
        """Give the rows at or behind a CommitLog offset their entries and write them.

        Rows of types without an entry (PREPARED, ROLLBACK) are passed over, what a queue has is not written again, and an entry
        goes to the end of its queue even if some before it are missing (`gaps`).

        Parameters
        ----------
        scan : ColumnScan
            The scan that made the batch: it numbers the topics.
        batch : Batch
            With the columns of `rmqcore._native.queues.COLUMNS` at least.
        from_phy_offset : int

        Raises
        ------
        OSError
            A file cannot be made or written. Only what was written counts.

        Notes
        -----
        Source: RocketMQ 5.5.0 ConsumeQueue#putMessagePositionInfo.
        """
        with self._writing():
            if self._behind:
                self._behind.clear()
            self._table.put_batch(scan, batch, from_phy_offset)

    def put_entry(
        self,
        topic: str,
        queue_id: int,
        phy_offset: int,
        msg_size: int,
        tags_code: int,
        queue_offset: int,
    ) -> None:
        """Give one message an entry in some queue, by the same rules (a light queue's entry, for example)."""
        with self._writing():
            if self._behind:
                self._behind.clear()
            self._table.put_entry(topic, queue_id, phy_offset, msg_size, tags_code, queue_offset)

    def flush(self, least_pages: int = 0) -> bool:
        """Bring to disk what waits in each queue: if it is at least so many pages of its file, or (0) anything.

        New names in directories go with it.

        Returns
        -------
        bool
            Whether the whole file system was synced, because of the many queues that waited.

        Raises
        ------
        OSError
            A queue cannot be synced; then none behind it was looked at.
        """
        with self._flush_lock:
            self._raise_if_closed()
            return self._table.flush(least_pages)

    def delete_expired(self, min_phy_offset: int) -> int:
        """Delete leading files whose last entry's message is below the log's first byte, and correct the min offsets.

        The newest file of a queue stays.

        Returns
        -------
        int
            How many files were deleted.

        Notes
        -----
        Source: RocketMQ 5.5.0 MappedFileQueue#deleteExpiredFileByOffset, ConsumeQueue#deleteExpiredFile.
        """
        deleted = 0
        with self._writing():
            for queue in self._all():
                if queue.first_file < queue.last_file:
                    deleted += self._delete_expired_files(queue, min_phy_offset)
                correct_min_offset(queue, min_phy_offset)
        return deleted

    def _delete_expired_files(self, queue: ConsumeQueue, min_phy_offset: int) -> int:
        starts = [s for s in queue.file_starts() if queue.first_file <= s <= queue.last_file]
        expired = []
        for start in starts[:-1]:
            last = (start + self._file_size) // CQ_STORE_UNIT_SIZE - 1
            if not 0 <= queue.phy_offset(last) < min_phy_offset:
                break
            expired.append(start)
        if expired:  # readers first: nobody is sent to a file that is about to go
            first = starts[len(expired)]
            queue.set_min(max(queue.min_offset, first // CQ_STORE_UNIT_SIZE))
            queue.set_first_file(first)
        for start in expired:
            (self._directory(queue) / file_name(start)).unlink(missing_ok=True)
        return len(expired)

    def close(self) -> None:
        """Close all files. Nothing is flushed."""
        with self._flush_lock, self._lock:
            self._closed = True
            self._table.close_files()

    # ---- asking -------------------------------------------------------------------------------------

    @property
    def max_phy_offset(self) -> int:
        """CommitLog offset behind the last message that has an entry in any queue; -1 without."""
        return self._table.max_phy_offset

    @property
    def refused(self) -> int:
        """Messages that got no entry because their topic or queue id is no name for a directory, or their offset none."""
        return self._table.refused

    @property
    def gaps(self) -> int:
        """Entries at a smaller queue offset than their message says, because some before them are missing."""
        return self._table.gaps

    @property
    def open_files(self) -> int:
        """Files that are open now."""
        return self._table.open_files

    def find(self, topic: str, queue_id: int) -> ConsumeQueue | None:
        """Give a queue, None when there is none."""
        place = (topic, queue_id)
        queue = self._queues.get(place)
        if queue is None and 0 <= queue_id < 1 << 31:
            with self._lock:
                queue = self._table.find(topic, queue_id)
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

    def _writing(self) -> threading.RLock:
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

    def _set_end(
        self, queue: ConsumeQueue, files: list[QueueFile], at: int, valid: int, max_phy: int
    ) -> None:
        """Say that the queue ends behind the first `valid` entries of a file, and note what lies behind that."""
        last = files[at]
        end = last.file_from_offset + valid * CQ_STORE_UNIT_SIZE
        queue.set_files(files[0].file_from_offset, last.file_from_offset, end, max_phy)
        self._behind.add_files(file.path for file in files[at + 1 :])
        self._behind.look_behind(last, valid)


def _open_files() -> int:
    """How many files may stay open: a quarter of what the process may have."""
    try:
        import resource
    except ImportError:
        return 64
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return MOST_OPEN_FILES
    return max(16, min(MOST_OPEN_FILES, soft // 4))
