"""The index files of an open store: which files there are, where keys go, what a query finds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from rmqcore._native.index.mapped_index import (
    PUT_DONE,
    PUT_FULL,
    IndexAnswer,
    IndexFiles,
    MappedIndexFile,
)
from rmqcore._native.scan.batch import Batch
from rmqcore._native.scan.scan import ColumnScan
from rmqcore._native.threads.bell import Bells
from rmqcore._native.threads.mutex import Mutex
from rmqcore.config import MessageStoreConfig
from rmqcore.disk.durable import delete_file
from rmqcore.disk.paths import MAX_OFFSET, StorePaths
from rmqcore.engine.index.index_file import IndexFile
from rmqcore.engine.index.index_folder import Chosen, IndexFolder
from rmqcore.errors import SyncFailedError, is_no_descriptor, is_of_the_system
from rmqcore.vocabulary.clock import wall_clock_ms

COLUMNS = ("phy_offset", "store_timestamp_ms", "key_hashes")


class IndexService:
    """All index files of a store, oldest first. The newest one takes keys until it is full.

    Parameters
    ----------
    paths : StorePaths
    config : MessageStoreConfig
        With ``message_index_enable`` or ``index_file_write_enable`` off nothing is put, with ``index_file_read_enable`` off
        nothing is found.
    on_full : callable
        Called with the end timestamp (milliseconds) of a file that is full and on disk; the checkpoint's indexMsgTimestamp
        becomes that.
    clock : callable, optional
        Wall clock in milliseconds, for names.

    Notes
    -----
    **Durability.** A full file is synced by `flush_full`, which the next roll calls at the latest; the file in use by `flush`
    and `close`. After a crash only files that were full and synced are kept, and messages behind them are indexed again.

    **Thread safety.** One thread puts. Any thread queries, without a lock: the list of files never changes under a query, and a
    deleted file stays mapped as long as a query looks at it. `flush`, `allocate_ahead`, `delete_expired` may run in other
    threads.

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
        # One attribute, so that an exception of a signal handler finds the files as they were, or as they are to be.
        self._state: tuple[tuple[IndexFile, ...], IndexFiles] = ((), IndexFiles())
        self.search = self._state[1]
        """The files that queries search now; there is none in it where reading is switched off."""
        self._sync_error: OSError | None = None
        self._resume_offset: int | None = None
        self._space_bells = Bells()
        self._list_lock = Mutex()
        self._flush_lock = Mutex()

    # ---- loading --------------------------------------------------------------------------------

    def check(self) -> None:
        """Check that all files have a size that `load` understands; nothing is changed.

        Raises
        ------
        StoreFormatError
            As `load`.
        """
        self._folder.check()

    def choose(self, *, clean: bool, index_msg_timestamp_ms: int) -> Chosen:
        """Choose the files that `load` would open; nothing is changed. Errors as `load`."""
        return self._folder.choose(clean=clean, index_msg_timestamp_ms=index_msg_timestamp_ms)

    def load(self, *, clean: bool, index_msg_timestamp_ms: int) -> Chosen:
        """Open the files of ``index/``; see `IndexFolder.load`.

        Keys that an unclean exit cost have to be put again: those of messages from `resume_offset` on.

        Parameters
        ----------
        clean : bool
            No ``abort`` file was there.
        index_msg_timestamp_ms : int
            indexMsgTimestamp of the checkpoint.

        Returns
        -------
        Chosen
            Which files count, and which were deleted.

        Raises
        ------
        StoreFormatError
            Files of another number of slots and entries than configured, and which numbers cannot be found out.
        OSError
            A file cannot be read or deleted.
        """
        chosen = self._folder.load(clean=clean, index_msg_timestamp_ms=index_msg_timestamp_ms)
        self._set_files(chosen.files)
        if chosen.damaged or not clean:
            self.resume_at_end()
        else:
            self._resume_offset = None if self._folder.exists else 0
        return chosen

    def trim(self, log_end: int) -> list[str]:
        """Delete files with entries of messages at or behind the end of the log, and all files behind them; answer their names.

        Parameters
        ----------
        log_end : int
            CommitLog offset after the last message.

        Raises
        ------
        OSError
            A file cannot be deleted.
        """
        for number, file in enumerate(self.files):
            if file.native.end_phy_offset >= log_end:
                return self.drop_from(number)
        return []

    def drop_from(self, number: int) -> list[str]:
        """Delete a file and all newer ones: what they held has to be put again, from `resume_offset` on.

        Parameters
        ----------
        number : int
            Of the file, counted from the oldest.

        Returns
        -------
        list of str
            The names of the files.

        Raises
        ------
        OSError
            A file cannot be deleted.
        """
        kept, gone = self.files[:number], self.files[number:]
        self._folder.remove(gone)
        self._set_files(kept)
        self.resume_at_end()
        return [file.name for file in gone]

    def resume_at_end(self) -> None:
        """Index messages again from the newest indexed one: keys are missing behind it."""
        self._resume_offset = max((file.native.end_phy_offset for file in self.files), default=0)

    @property
    def resume_offset(self) -> int | None:
        """CommitLog offset from which on messages have to be put again after `load` and `trim`; None when the index has them all.

        It is the offset of the newest message in the last file kept. Some keys of that message may be missing: `put_batch`
        finds out which.
        """
        return self._resume_offset if self.writing else None

    @property
    def writing(self) -> bool:
        """True if the index is written at all."""
        return self._writing

    @property
    def _writer(self) -> IndexFile | None:
        """The file that takes keys."""
        files = self.files
        return files[-1] if files and files[-1].writable else None

    def _set_files(self, files: Sequence[IndexFile]) -> None:
        """Replace the list in one step: a query that runs goes on with the list that it took."""
        native = IndexFiles((file.native for file in files), self._config.max_msgs_num_batch)
        self._state = (tuple(files), native)
        self._show(native)

    def _show(self, native: IndexFiles) -> None:
        if self._config.index_file_read_enable:
            self.search = native

    # ---- putting --------------------------------------------------------------------------------

    def put_batch(self, scan: ColumnScan | None, batch: Batch, from_phy_offset: int) -> None:  # noqa: ARG002
        """Put the keys of a batch's messages from an offset on.

        Parameters
        ----------
        scan : ColumnScan, optional
            The scan that made the batch; not needed, because the batch has all that an index takes.
        batch : Batch
            With the columns phy_offset, store_timestamp_ms and key_hashes.
        from_phy_offset : int
            Rows before it are left out.

        Raises
        ------
        OSError
            The disk is full, or a full file cannot be synced. Keys that were put stay in; the same batch can be put again, as
            after any other exception.

        Notes
        -----
        As in Java, messages before the newest indexed message are left out, and the first message after a file became full makes
        the next file, also when it has no keys. The newest indexed message, which Java puts twice, gets the keys that it lacks.

        Source: RocketMQ 5.5.0 IndexService#buildIndex.
        """
        if not self._writing:
            return
        native = self._shown()
        row, key = native.first_place(batch, from_phy_offset)
        if row == len(batch):
            return
        file = self._writer
        if file is None:
            file = self._roll()
        while True:
            row, key, code = file.native.put(batch, row, key)
            if code == PUT_FULL:
                file = self._roll()
            elif code != PUT_DONE:
                file.make_room(len(batch) - row)
            if file.wants_room():
                self._space_bells.ring()
            if code == PUT_DONE:
                return

    def _shown(self) -> IndexFiles:
        native = self._state[1]
        if self.search is not native:
            self._show(native)  # an exception came between the two steps of the last roll
        return native

    def place_to_put(self) -> tuple[MappedIndexFile, int] | None:
        """Return the file that takes the next keys, and the number of entries at which `put_batch` is due; None: at once."""
        self._shown()
        file = self._writer
        if file is None or file.native.ready == 0:
            return None
        if file.wants_room():
            self._space_bells.ring()
        return file.native, file.room_alarm()

    def _roll(self) -> IndexFile:
        """Make the next file. The full file is synced later, but at most one waits for that."""
        self.flush_full()
        return self._list_lock.run(self._append_file)

    def _append_file(self) -> IndexFile:
        file = self._folder.create(self.files)
        self._set_files([*self.files, file])
        return file

    def on_low_space(self, ring: Callable[[], object]) -> None:
        """Call `ring` once, when `allocate_ahead` has something to do."""
        self._space_bells.add(ring)

    def allocate_ahead(self) -> bool:
        """Make the next entries of the file in use ready before a put needs them; answer whether there was something to do.

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
            At most so many offsets, and at most ``max_msgs_num_batch``.
        begin_ms, end_ms : int
            Store time, both included; entries know it to the second.
        index_type : str, optional
            ``"T"``: `key` is a tag.

        Returns
        -------
        IndexAnswer
            Offsets ascending, with hash collisions and repeats: whoever reads the records has to compare the keys.

        Notes
        -----
        Source: RocketMQ 5.5.0 IndexService#queryOffset.
        """
        return self.search.query(topic, key, max_num, begin_ms, end_ms, index_type)

    def last_update(self) -> tuple[int, int]:
        """Return end timestamp (milliseconds) and end phy offset of the newest file; zeros without files."""
        if not self.files:
            return 0, 0
        header = self.files[-1].native.header
        return header.end_timestamp_ms, header.end_phy_offset

    @property
    def files(self) -> tuple[IndexFile, ...]:
        """The files, oldest first."""
        return self._state[0]

    # ---- to disk, and away ----------------------------------------------------------------------

    def flush_full(self) -> None:
        """Sync files that became full, and call `on_full` for each.

        Raises
        ------
        OSError
            A sync failed, now or earlier: once a sync has failed, a later one that succeeds proves nothing.
        """
        self._flush_lock.run(self._flush_full)

    def _flush_full(self) -> None:
        for file in self.files[:-1]:
            if file.writable:
                self._sync(file)
                self._on_full(file.native.header.end_timestamp_ms)
                file.seal()

    def flush(self) -> None:
        """Wait until everything that was put is on disk.

        Raises
        ------
        OSError
            As `flush_full`.
        """
        self.flush_full()
        self._flush_lock.run(self._flush_writer)
        self._list_lock.run(self._clear_up)

    def _flush_writer(self) -> None:
        writer = self._writer
        if writer is not None:
            self._sync(writer)

    def map_anew(self) -> None:
        """Unmap all files; each is mapped again at its next use.

        What was put stays in the system's cache, on its way to disk. For one thread that puts while nobody queries.
        """
        self._list_lock.run(self._map_anew)

    def _map_anew(self) -> None:
        self._set_files([file.mapped_anew() for file in self.files])

    def _clear_up(self) -> None:
        self._folder.clear_up(self.files)

    def _sync(self, file: IndexFile) -> None:
        if self._sync_error is not None:
            raise self._sync_error
        try:
            file.flush()
            self._folder.sync_names()
        except OSError as error:
            if not is_of_the_system(error) or is_no_descriptor(error):
                raise  # nothing was synced yet
            self._sync_error = SyncFailedError(error.errno, error.strerror, error.filename)
            raise self._sync_error from error

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
            self.release()

    def release(self) -> None:
        """Close the files without writing; running queries keep theirs."""
        self._list_lock.run(self._let_go)

    def _let_go(self) -> None:
        self._set_files([])

    def delete_expired(self, min_phy_offset: int) -> dict[Path, int]:
        """Delete the oldest files, as long as the newest message of each is deleted from the CommitLog; never the last file.

        Parameters
        ----------
        min_phy_offset : int
            Where the CommitLog begins.

        Returns
        -------
        dict
            Bytes that each deleted file occupied.

        Raises
        ------
        OSError
            A file cannot be deleted.

        Notes
        -----
        Source: RocketMQ 5.5.0 IndexService#deleteExpiredFile.
        """
        return self._list_lock.run(self._delete_expired, min_phy_offset)

    def _delete_expired(self, min_phy_offset: int) -> dict[Path, int]:
        deleted = {}
        while len(self.files) > 1 and self.files[0].native.header.end_phy_offset < min_phy_offset:
            path = self.files[0].path
            deleted[path] = delete_file(path)
            self._set_files(self.files[1:])
        return deleted
