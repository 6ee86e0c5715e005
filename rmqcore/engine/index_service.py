"""The index files of an open store: which there are, where keys go, what a query finds."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from rmqcore._native.mapped_index import PUT_DONE, PUT_FULL, IndexAnswer, IndexFiles
from rmqcore._native.scan import Batch, ColumnScan
from rmqcore.config import MessageStoreConfig
from rmqcore.engine.index_file import IndexFile
from rmqcore.engine.index_folder import IndexFolder
from rmqcore.engine.paths import MAX_OFFSET, StorePaths

COLUMNS = ("phy_offset", "store_timestamp_ms", "key_hashes")


def wall_clock_ms() -> int:
    """Give the time that names of files are made of, milliseconds."""
    return time.time_ns() // 1_000_000


class IndexService:
    """All index files of a store, oldest first. The newest one takes keys until it is full.

    Parameters
    ----------
    paths : StorePaths
    config : MessageStoreConfig
        ``message_index_enable`` and ``index_file_write_enable`` off: nothing is put; ``index_file_read_enable`` off: nothing is
        found.
    on_full : callable
        Called with the end timestamp (milliseconds) of a file that is full and on disk: what the checkpoint's
        indexMsgTimestamp becomes.
    clock : callable, optional
        Wall clock in milliseconds, for names.

    Notes
    -----
    **Durability.** A full file is synced by `flush_full`, which the next roll does at the latest; the one in use by `flush` and
    `close`. After a crash only files that were full and synced are kept, everything behind them is indexed again.

    **Thread safety.** One thread puts. Any thread queries, without a lock: the list of files never changes under a query, and a
    deleted file stays mapped as long as one looks at it. `flush`, `allocate_ahead`, `delete_expired` may run in other threads.

    Source: RocketMQ 5.5.0 IndexService.
    """

    def __init__(
        self,
        paths: StorePaths,
        config: MessageStoreConfig,
        *,
        on_full: Callable[[int], None],
        clock: Callable[[], int] = wall_clock_ms,
    ) -> None:
        self._folder = IndexFolder(paths.index, config, clock)
        self._config = config
        self._on_full = on_full
        self._writing = config.message_index_enable and config.index_file_write_enable
        self._files: tuple[IndexFile, ...] = ()
        self._native = IndexFiles()
        self.search = self._native
        """What queries search, as of now; it stays without files where reading is switched off."""
        self._writer: IndexFile | None = None
        self._unsynced: list[IndexFile] = []  # full ones
        self._sync_error: OSError | None = None
        self._resume_offset: int | None = None
        self._list_lock = threading.Lock()
        self._flush_lock = threading.Lock()

    # ---- loading --------------------------------------------------------------------------------

    def check(self) -> None:
        """Look whether all files have a size that `load` understands; changes nothing.

        Raises
        ------
        StoreFormatError
            As `load`.
        """
        self._folder.check()

    def load(self, *, clean: bool, index_msg_timestamp_ms: int) -> None:
        """Open the files of ``index/``; see `IndexFolder.load`.

        What an unclean exit costs is put again from `resume_offset` on.

        Parameters
        ----------
        clean : bool
            No ``abort`` file was there.
        index_msg_timestamp_ms : int
            indexMsgTimestamp of the checkpoint.

        Raises
        ------
        StoreFormatError
            A file has another size than configured, and its slots and entries cannot be told.
        OSError
            A file cannot be read or deleted.
        """
        files = self._folder.load(clean=clean, index_msg_timestamp_ms=index_msg_timestamp_ms)
        self._set_files(files)
        self._writer = files[-1] if files and files[-1].writable else None
        if not clean:
            self._resume_offset = self._end()
        else:
            self._resume_offset = None if self._folder.exists else 0

    def trim(self, log_end: int) -> None:
        """Delete files with entries of messages at or behind the end of the log, and all files behind them.

        Parameters
        ----------
        log_end : int
            CommitLog offset after the last message.

        Raises
        ------
        OSError
            A file cannot be deleted.
        """
        files = list(self._files)
        for number, file in enumerate(files):
            if file.native.end_phy_offset >= log_end:
                self._folder.remove(files[number:])
                self._set_files(files[:number])
                self._writer = None
                self._resume_offset = self._end()
                return

    @property
    def resume_offset(self) -> int | None:
        """CommitLog offset from which on messages have to be put again after `load` and `trim`; None when all are in.

        It is the newest message of the last file kept, of which some keys may be missing: `put_batch` knows which.
        """
        return self._resume_offset if self._writing else None

    def _end(self) -> int:
        return self._files[-1].native.end_phy_offset if self._files else 0

    def _set_files(self, files: list[IndexFile]) -> None:
        """Replace the list in one store: a query works on the one that it took."""
        self._files = tuple(files)
        self._native = IndexFiles((file.native for file in files), self._config.max_msgs_num_batch)
        if self._config.index_file_read_enable:
            self.search = self._native

    # ---- putting --------------------------------------------------------------------------------

    def put_batch(self, scan: ColumnScan | None, batch: Batch, from_phy_offset: int) -> None:  # noqa: ARG002
        """Put the keys of a batch's messages from an offset on.

        Parameters
        ----------
        scan : ColumnScan, optional
            What made the batch; all that an index needs is in the batch.
        batch : Batch
            With the columns phy_offset, store_timestamp_ms and key_hashes.
        from_phy_offset : int
            Rows before it are left out.

        Raises
        ------
        OSError
            The disk is full, or a full file cannot be synced. What is in stays in; the same batch can be put again.

        Notes
        -----
        As in Java, messages before the newest indexed one are left out, and the first message after a file became full makes the
        next file, also when it has no keys. The newest indexed message itself, which Java puts twice, gets the keys it lacks.

        Source: RocketMQ 5.5.0 IndexService#buildIndex.
        """
        if not self._writing:
            return
        row, key = self._native.first_place(batch, from_phy_offset)
        if row == len(batch):
            return
        file = self._writer
        if file is None:
            file = self._roll()
        while True:
            row, key, code = file.native.put(batch, row, key)
            if code == PUT_DONE:
                return
            if code == PUT_FULL:
                file = self._roll()
            else:
                file.make_room()

    def _roll(self) -> IndexFile:
        """Make the next file. The full one is synced later, but two of them do not wait."""
        self.flush_full()
        full = self._writer
        with self._list_lock:
            file = self._folder.create(self._files[-1] if self._files else None)
            self._set_files([*self._files, file])
            self._writer = file
            if full is not None:
                self._unsynced.append(full)
        return file

    def allocate_ahead(self) -> bool:
        """Give the file in use its next step of entries before a put needs them; answer whether there was something to do.

        Raises
        ------
        OSError
            The disk is full.
        """
        file = self._writer
        if file is None or not file.wants_room():
            return False
        file.make_room()
        return True

    # ---- queries --------------------------------------------------------------------------------

    def query_offsets(
        self,
        topic: str,
        key: str,
        max_num: int,
        begin_ms: int = 0,
        end_ms: int = MAX_OFFSET,
        index_type: str | None = None,
    ) -> IndexAnswer:
        """Find phy offsets of a key's messages, from the newest file and the newest entry on.

        Parameters
        ----------
        topic, key : str
        max_num : int
            At most so many, and at most ``max_msgs_num_batch``.
        begin_ms, end_ms : int
            Store time, both included; entries know it to the second.
        index_type : str, optional
            ``"T"``: `key` is a tag.

        Returns
        -------
        IndexAnswer
            Offsets ascending, with hash collisions and repeats; who reads the records compares the keys.

        Notes
        -----
        Source: RocketMQ 5.5.0 IndexService#queryOffset.
        """
        return self.search.query(topic, key, max_num, begin_ms, end_ms, index_type)

    def last_update(self) -> tuple[int, int]:
        """Give end timestamp (milliseconds) and end phy offset of the newest file; zeros when there is none."""
        if not self._files:
            return 0, 0
        header = self._files[-1].native.header
        return header.end_timestamp_ms, header.end_phy_offset

    @property
    def files(self) -> tuple[IndexFile, ...]:
        """The files, oldest first."""
        return self._files

    @property
    def total_size(self) -> int:
        """Bytes of all files, as their sizes say."""
        return sum(file.file_size for file in self._files)

    # ---- to disk, and away ----------------------------------------------------------------------

    def flush_full(self) -> None:
        """Sync files that became full, and tell the checkpoint.

        Raises
        ------
        OSError
            The disk refuses, or did so before: a sync that failed once is not believed later.
        """
        with self._flush_lock:
            while self._unsynced:
                self._sync(self._unsynced[0])
                self._on_full(self._unsynced[0].native.header.end_timestamp_ms)
                del self._unsynced[0]

    def flush(self) -> None:
        """Wait until everything that was put is on disk.

        Raises
        ------
        OSError
            As `flush_full`.
        """
        self.flush_full()
        with self._flush_lock:
            writer = self._writer
            if writer is not None:
                self._sync(writer)

    def _sync(self, file: IndexFile) -> None:
        if self._sync_error is not None:
            raise self._sync_error
        try:
            file.flush()
            self._folder.sync_names()
        except OSError as error:
            self._sync_error = error
            raise

    def close(self) -> None:
        """Sync everything and let go of the files; queries that run keep theirs.

        Raises
        ------
        OSError
            As `flush_full`; the files are let go of all the same.
        """
        try:
            self.flush()
        finally:
            with self._list_lock:
                self._set_files([])
                self._writer = None

    def delete_expired(self, min_phy_offset: int) -> int:
        """Delete the leading files whose newest message is gone from the CommitLog, but never the last file.

        Parameters
        ----------
        min_phy_offset : int
            Where the CommitLog begins.

        Returns
        -------
        int
            Files deleted.

        Raises
        ------
        OSError
            A file cannot be deleted.

        Notes
        -----
        Source: RocketMQ 5.5.0 IndexService#deleteExpiredFile.
        """
        deleted = 0
        with self._list_lock:
            while (
                len(self._files) > 1
                and self._files[0].native.header.end_phy_offset < min_phy_offset
            ):
                first = self._files[0]
                first.path.unlink(missing_ok=True)
                self._set_files(list(self._files[1:]))
                deleted += 1
        return deleted
