"""The index files of an open store: loading, puts, flushes, queries and deletion."""

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
    """All index files of a store, oldest first. Keys are put into the newest file until it is full.

    Parameters
    ----------
    paths : StorePaths
    config : MessageStoreConfig
        With ``message_index_enable`` or ``index_file_write_enable`` off puts are ignored, with
        ``index_file_read_enable`` off queries find no message.
    on_full : callable
        Called with the end timestamp (milliseconds) of a file that is full and on disk: the checkpoint's new
        indexMsgTimestamp.
    clock : callable, optional
        Wall clock in milliseconds, for names.

    Notes
    -----
    **Durability.** `flush_full` syncs a full file, at the latest at the next roll; `flush` and `close` sync the file in
    use. After a crash only files that were full and synced are kept, and messages behind them are indexed again.

    **Thread safety.** One thread puts. Any thread queries, without a lock: a query keeps the list of files that it
    started with, and a deleted file stays mapped while a query reads it. `flush`, `allocate_ahead`, `delete_expired`
    may run in other threads.

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
        # One attribute, so that an exception of a signal handler leaves the old list or the new one.
        self._state: tuple[tuple[IndexFile, ...], IndexFiles] = ((), IndexFiles())
        self.search = self._state[1]
        """The files that queries search now; empty if reading is switched off."""
        self._sync_error: OSError | None = None
        self._resume_offset: int | None = None
        self._space_bells = Bells()
        self._list_lock = Mutex()
        self._flush_lock = Mutex()

    # ---- loading --------------------------------------------------------------------------------

    def check(self) -> None:
        """Check that `load` accepts the sizes of all files; change nothing.

        Raises
        ------
        StoreFormatError
            As `load`.
        """
        self._folder.check()

    def choose(self, *, clean: bool, index_msg_timestamp_ms: int) -> Chosen:
        """Choose the files that `load` would open; change nothing. Errors as `load`."""
        return self._folder.choose(clean=clean, index_msg_timestamp_ms=index_msg_timestamp_ms)

    def load(self, *, clean: bool, index_msg_timestamp_ms: int) -> Chosen:
        """Open the files of ``index/``; see `IndexFolder.load`.

        The caller puts the keys that an unclean exit lost again: those of messages from `resume_offset` on.

        Parameters
        ----------
        clean : bool
            True if the store had no ``abort`` file.
        index_msg_timestamp_ms : int
            indexMsgTimestamp of the checkpoint.

        Returns
        -------
        Chosen
            The files that count, and those that were deleted.

        Raises
        ------
        StoreFormatError
            Numbers of slots and entries differ from the configured ones, and cannot be found from the files.
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
        """Delete files with entries of messages at or behind the log's end, and all newer files; return their names.

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
        """Delete a file and all newer ones; the caller puts their keys again, from `resume_offset` on.

        Parameters
        ----------
        number : int
            Number of the file, counted from the oldest.

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
        """Index messages again from the newest indexed one, since later keys are missing."""
        self._resume_offset = max((file.native.end_phy_offset for file in self.files), default=0)

    @property
    def resume_offset(self) -> int | None:
        """CommitLog offset from which messages must be put again after `load` and `trim`; None: the index is complete.

        This is the offset of the newest message in the last file kept. Some keys of that message may be missing:
        `put_batch` adds those.
        """
        return self._resume_offset if self.writing else None

    @property
    def writing(self) -> bool:
        """True if the configuration lets the store write an index."""
        return self._writing

    @property
    def _writer(self) -> IndexFile | None:
        """The file into which keys are put."""
        files = self.files
        return files[-1] if files and files[-1].writable else None

    def _set_files(self, files: Sequence[IndexFile]) -> None:
        """Replace the list in one step: a running query continues with the list that it read."""
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
            The scan that made the batch; not needed, because the batch has all columns of an index.
        batch : Batch
            With the columns phy_offset, store_timestamp_ms and key_hashes.
        from_phy_offset : int
            Rows before it are left out.

        Raises
        ------
        OSError
            The disk is full, or a full file cannot be synced. Keys that were put stay; the same batch can be put again,
            as after any other exception.

        Notes
        -----
        As in Java, messages before the newest indexed message are left out, and the first message after a file became
        full makes the next file, even without keys. The newest indexed message, which Java puts twice, gets its missing
        keys.

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
            self._show(native)  # an exception interrupted the last roll between its two steps
        return native

    def place_to_put(self) -> tuple[MappedIndexFile, int] | None:
        """Return the file of the next keys and the entry count at which `put_batch` is due; None: it is due now."""
        self._shown()
        file = self._writer
        if file is None or file.native.ready == 0:
            return None
        if file.wants_room():
            self._space_bells.ring()
        return file.native, file.room_alarm()

    def _roll(self) -> IndexFile:
        """Make the next file. The full file is synced later; at most one full file waits for its sync."""
        self.flush_full()
        return self._list_lock.run(self._append_file)

    def _append_file(self) -> IndexFile:
        file = self._folder.create(self.files)
        self._set_files([*self.files, file])
        return file

    def on_low_space(self, ring: Callable[[], object]) -> None:
        """Call `ring` once, when `allocate_ahead` has work to do."""
        self._space_bells.add(ring)

    def allocate_ahead(self) -> bool:
        """Make the next entries of the file in use ready before a put needs them; return False if enough were ready.

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
        """Find CommitLog offsets of a key's messages, searching from the newest entry of the newest file back.

        Parameters
        ----------
        topic, key : str
        max_num : int
            Most offsets to return; never more than ``max_msgs_num_batch``.
        begin_ms, end_ms : int
            Store time, both included; entries hold it in seconds.
        index_type : str, optional
            ``"T"``: `key` is a tag.

        Returns
        -------
        IndexAnswer
            Offsets ascending, with hash collisions and repeats: the caller reads the records and compares the keys.

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
        """Wait until all keys that were put are on disk.

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

        Pages that were written stay in the system's cache until they are on disk. Only for the one thread that puts,
        while no query runs.
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
                raise  # no file was synced yet
            self._sync_error = SyncFailedError(error.errno, error.strerror, error.filename)
            raise self._sync_error from error

    def close(self) -> None:
        """Sync and close all files; running queries keep theirs mapped.

        Raises
        ------
        OSError
            As `flush_full`; the files are closed all the same.
        """
        try:
            self.flush()
        finally:
            self.release()

    def release(self) -> None:
        """Close the files without writing; running queries keep theirs mapped."""
        self._list_lock.run(self._let_go)

    def _let_go(self) -> None:
        self._set_files([])

    def delete_expired(self, min_phy_offset: int) -> dict[Path, int]:
        """Delete the oldest files whose newest message has left the CommitLog; never the last file.

        Parameters
        ----------
        min_phy_offset : int
            CommitLog offset at which the log starts.

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
