"""The CommitLog: mapped files of records, one writer, any number of readers."""

from __future__ import annotations

import threading
from collections.abc import Callable

from rmqcore._native.codec import DelayLevels, MessageView
from rmqcore._native.commitlog import Appender, store_time, view_at
from rmqcore._native.mapped_file import MappedFile, MappedFiles
from rmqcore.config import MessageStoreConfig
from rmqcore.engine.files import find_mapped_files
from rmqcore.engine.paths import StorePaths
from rmqcore.engine.space import LogSpace

PAGE = 4096


class CommitLog:
    """The log of one store.

    Parameters
    ----------
    paths : StorePaths
    config : MessageStoreConfig
    clock : callable, optional
        Answers milliseconds; called once a put inside the append lock.
    on_failure : callable
        Told the OSError of an allocation or a sync that failed; the caller stops the store.

    Notes
    -----
    `load`, then recovery, then `begin`; afterwards all methods may be called from any thread. Offsets are CommitLog bytes.

    Source: RocketMQ 5.5.0 CommitLog, MappedFileQueue.
    """

    def __init__(
        self,
        paths: StorePaths,
        config: MessageStoreConfig,
        *,
        clock: Callable[[], int] | None = None,
        on_failure: Callable[[OSError], None],
    ) -> None:
        self.directory = paths.commitlog
        self.file_size = config.mapped_file_size_commit_log
        self.delay_levels = DelayLevels(config.delay_levels_ms)
        self.files = MappedFiles(self.file_size)
        self.appender = Appender(
            file_size=self.file_size,
            max_message_size=config.max_message_size,
            append_prop_crc=config.enabled_append_prop_crc,
            make_room=self._make_room,
            clock=clock,
        )
        self._on_failure = on_failure
        self._space = LogSpace(
            self.directory, self.files, self.appender, warm=config.warm_maped_file_enable
        )
        self._space_lock = threading.Lock()
        self._flush_lock = threading.Lock()
        self._begun = False
        self._flushed_offset = 0
        self._sync_error: OSError | None = None
        self.flushed_timestamp_ms = 0
        """Store timestamp of the last message known to be on disk; 0 before the first flush of this open."""

    # ---- opening

    def load(self) -> None:
        """List the files; a last one of no bytes, which a crash left, is ignored.

        Raises
        ------
        StoreFormatError
            A file of another size than configured.
        """
        found, _ = find_mapped_files(self.directory, self.file_size)
        self.files.replace(found)

    def begin(self, end_offset: int) -> None:
        """Take appends from `end_offset` on, where recovery ended; no file lies behind it any more."""
        tail = self.files.files[-1] if len(self.files) else None
        if tail is not None:
            writable = MappedFile(tail.path, tail.file_size, tail.file_from_offset, writable=True)
            self.files.replace([*self.files.files[:-1], writable])
            tail = writable
        self._flushed_offset = end_offset
        self._space.begin(tail, end_offset)
        self._begun = True

    # ---- where it is

    @property
    def min_offset(self) -> int:
        """Start of the first file; 0 without files."""
        return self.files.first_offset

    @property
    def max_offset(self) -> int:
        """End of the last record; before `begin` the end of the last file."""
        return self.appender.max_phy_offset if self._begun else self.files.end_offset

    @property
    def flushed_offset(self) -> int:
        """All below it is known to be on disk."""
        return self._flushed_offset

    def file_starts(self) -> list[int]:
        """Give the offsets at which the files begin."""
        return [file.file_from_offset for file in self.files.files]

    # ---- reading

    def window(self, phy_offset: int) -> tuple[memoryview, int, int] | None:
        """Give the file that holds an offset: its bytes, where it begins and where it ends; None where none is."""
        file = self.files.find_file(phy_offset)
        if file is None:
            return None
        start = file.file_from_offset
        return memoryview(file), start, start + file.file_size

    def view_at(self, phy_offset: int) -> MessageView | None:
        """Give the message whose record starts there; None when none does.

        The view reads the mapping, which it keeps alive.
        """
        return view_at(self.files, phy_offset, self.max_offset, self.delay_levels)

    def store_time(self, phy_offset: int) -> int:
        """Give that message's store timestamp; -1 when there is none."""
        return store_time(self.files, phy_offset, self.max_offset)

    # ---- writing

    def next_queue_offset(self, topic: str, queue_id: int) -> int:
        """Give the queue offset that the queue's next message gets."""
        return self.appender.next_queue_offset(topic, queue_id)

    def set_next_queue_offset(self, topic: str, queue_id: int, value: int) -> None:
        """Set it, after recovery."""
        self.appender.set_next_queue_offset(topic, queue_id, value)

    def _make_room(self, msg_size: int) -> bool:
        try:
            with self._space_lock:
                self._space.make_room(msg_size)
        except OSError as error:
            self._on_failure(error)
            return False
        return True

    def prepare_space(self) -> bool:
        """Allocate and populate one step ahead of the writer; answer whether more is wanted now.

        An OSError is told to `on_failure` and raised: without room ahead the next put would fail the same way.
        """
        try:
            with self._space_lock:
                return self._space.prepare()
        except OSError as error:
            self._on_failure(error)
            raise

    def on_low_space(self, ring: Callable[[], object]) -> None:
        """Call `ring` once, when `prepare_space` has something to do."""
        self.appender.arm_low_space(ring, self._space.alarm)

    def flush(self, least_pages: int = 0) -> int:
        """Bring what was appended to disk; answer `flushed_offset`.

        Parameters
        ----------
        least_pages : int
            Do nothing while fewer pages of 4096 bytes wait; 0 takes any.

        Raises
        ------
        OSError
            A sync failed, which `on_failure` was told: what of the range is on disk is not known, and no later sync says it.

        Notes
        -----
        Source: RocketMQ 5.5.0 MappedFileQueue#flush (one file a call), DefaultMappedFile#flush.
        """
        with self._flush_lock:
            if self._sync_error is not None:
                raise self._sync_error  # for those who waited for the lock: their own sync would "succeed"
            wrote, timestamp_ms = self.appender.state()
            flushed = self._flushed_offset
            if wrote // PAGE - flushed // PAGE < least_pages or wrote == flushed:
                return flushed
            try:
                for file in self.files.files:
                    start = file.file_from_offset
                    if start < wrote and start + file.file_size > flushed:
                        file.flush(max(flushed - start, 0), min(wrote - start, file.file_size))
                        if start + file.file_size <= wrote:
                            file.seal()  # all of it is on disk, the BLANK too
            except OSError as error:
                self._sync_error = error
                self._on_failure(error)
                raise
            self._flushed_offset = wrote
            self.flushed_timestamp_ms = timestamp_ms
            return wrote

    def close(self) -> None:
        """Delete what was made ahead and holds nothing, and let go of the files. The appender is stopped and all is flushed."""
        with self._space_lock:
            self._space.drop_unused()
        self.files.replace(())
