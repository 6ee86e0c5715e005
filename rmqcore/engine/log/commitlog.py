"""The CommitLog: mapped files of records, one writer, any number of readers."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import TypeVarTuple

from rmqcore._native.files.log_views import store_time, view_at
from rmqcore._native.files.mapped_file import MappedFile, MappedFiles
from rmqcore._native.format.codec import DelayLevels, MessageView
from rmqcore._native.put.appender import Appender
from rmqcore._native.threads.bell import Bells
from rmqcore._native.threads.mutex import Calls, Mutex, run_with
from rmqcore.config import MessageStoreConfig
from rmqcore.disk.paths import StorePaths
from rmqcore.disk.second_names import give_own_bytes
from rmqcore.engine.log.log_folders import LogFolders
from rmqcore.engine.log.log_space import FileStep, LogSpace, Step
from rmqcore.engine.log.mapped_files import find_mapped_files
from rmqcore.errors import StoreClosedError, is_of_the_system
from rmqcore.vocabulary.rocketmq_versions import readable_records
from rmqcore.vocabulary.units import PAGE

_Given = TypeVarTuple("_Given")


class CommitLog:
    """The CommitLog of one store: reads its mapped files, appends to the last one, brings appends to disk.

    Parameters
    ----------
    paths : StorePaths
    config : MessageStoreConfig
    clock : callable, optional
        Returns milliseconds since the epoch; called once per put, inside the append lock.
    on_failure : callable
        Receives the OSError of a put that found no room and could not make it; that put returns
        CREATE_MAPPED_FILE_FAILED.
    calls : Calls, optional
        Records which threads are inside a step.
    check_in_place : callable, optional
        Called before a file is made; raises OSError if the directories are no longer those that the store has locked.

    Notes
    -----
    First `load`, then recovery, then `begin`; after these all methods may be called from any thread. Offsets are
    CommitLog bytes.

    Source: RocketMQ 5.5.0 CommitLog, MappedFileQueue.
    """

    def __init__(
        self,
        paths: StorePaths,
        config: MessageStoreConfig,
        *,
        clock: Callable[[], int] | None = None,
        on_failure: Callable[[OSError], None],
        calls: Calls | None = None,
        check_in_place: Callable[[], None] = lambda: None,
    ) -> None:
        self.folders = paths.commitlogs
        self.file_size = config.mapped_file_size_commit_log
        self.delay_levels = DelayLevels(config.delay_levels_ms)
        self.files = MappedFiles(self.file_size)
        readable = readable_records(config.for_version)
        self.appender = Appender(
            file_size=self.file_size,
            max_message_size=config.max_message_size,
            append_prop_crc=config.enabled_append_prop_crc,
            make_room=_room_maker(weakref.ref(self)),
            clock=clock,
            calls=calls,
            most_topic_bytes=readable.most_topic_bytes,
            ipv6_hosts=readable.ipv6_hosts,
        )
        self._on_failure = on_failure
        self._space = LogSpace(
            LogFolders(paths.new_file_folders, config.disk_space_clean_forcibly_ratio),
            self.files,
            self.appender,
            check_in_place=check_in_place,
            warm=config.warm_maped_file_enable,
            follows=config.takes_no_puts,
        )
        # If a thread needs both, it acquires this lock before the space lock (`log_space` says why).
        self._file_lock = Mutex(calls)
        self._space_lock = Mutex(calls)
        # A signal handler may flush while a flush runs: both walk the same files, and neither undoes the other's work.
        self._flush_lock = Mutex(calls, again=True)
        # A program that waits for an append must not replace the ring of the store's own threads.
        self._append_bells, self._space_bells = Bells(), Bells()
        self._begun = self._released = False
        self._flushed_offset = 0
        self.appended_from = 0
        """CommitLog offset at which the appends of this open start."""
        self.flushed_timestamp_ms = 0
        """Store timestamp of the last message known to be on disk; 0 before the first flush of this open."""

    # ---- opening

    def load(self) -> None:
        """List the files. An empty last file, which a crash leaves, is ignored.

        Raises
        ------
        StoreFormatError
            A file's size differs from the configured size, or a file lies in two directories.
        """
        found, _ = find_mapped_files(self.folders, self.file_size)
        self.files.replace(found)

    def begin(self, end_offset: int) -> None:
        """Accept appends from `end_offset` on, where recovery ended; no file starts behind that offset."""
        tail = self.files.files[-1] if len(self.files) else None
        if tail is not None:
            give_own_bytes(tail.path)
            writable = MappedFile(tail.path, tail.file_size, tail.file_from_offset, writable=True)
            self.files.replace([*self.files.files[:-1], writable])
            tail = writable
        self._flushed_offset = self.appended_from = end_offset
        self._space.begin(tail, end_offset)
        self._begun = True

    def begin_at(self, start: int) -> None:
        """Start an empty log at a CommitLog offset where a file starts; leave a log with bytes unchanged.

        Raises
        ------
        OSError
            The disk has no room, or refuses.
        """
        self._with_space(self._space.begin_at, start)

    @property
    def holds_nothing(self) -> bool:
        """True if the log has no record."""
        return self._space.holds_nothing

    # ---- where it is

    @property
    def min_offset(self) -> int:
        """CommitLog offset at which the first file starts; 0 without files."""
        return self.files.first_offset

    @property
    def max_offset(self) -> int:
        """CommitLog offset behind the last record; before `begin` the end of the last file."""
        return self.appender.max_phy_offset if self._begun else self.files.end_offset

    @property
    def flushed_offset(self) -> int:
        """CommitLog offset below which everything is known to be on disk."""
        return self._flushed_offset

    def file_starts(self) -> list[int]:
        """Return the CommitLog offsets at which the files start."""
        return [file.file_from_offset for file in self.files.files]

    # ---- reading

    def window(self, phy_offset: int) -> tuple[memoryview, int, int] | None:
        """Return the bytes of the file that holds an offset, and the file's start and end; None if no file holds it."""
        file = self.files.find_file(phy_offset)
        if file is None:
            return None
        start = file.file_from_offset
        return memoryview(file), start, start + file.file_size

    def view_at(self, phy_offset: int) -> MessageView | None:
        """Return the message whose record starts at `phy_offset`; None if no record does.

        The view reads the mapping, which it keeps alive.
        """
        return view_at(self.files, phy_offset, self.max_offset, self.delay_levels)

    def store_time(self, phy_offset: int) -> int:
        """Return the store timestamp of the message at `phy_offset`, in milliseconds; -1 if no record starts there."""
        return store_time(self.files, phy_offset, self.max_offset)

    # ---- writing

    def next_queue_offset(self, topic: str, queue_id: int) -> int:
        """Return the queue offset of the queue's next message."""
        return self.appender.next_queue_offset(topic, queue_id)

    def close_topic(self, topic: str) -> None:
        """Refuse the messages of a topic of batch queues, or of a compacted one: MESSAGE_ILLEGAL."""
        self.appender.close_topic(topic)

    def set_next_queue_offset(self, topic: str, queue_id: int, value: int) -> None:
        """Set the queue offset of the queue's next message; recovery calls it for each queue, before the first put."""
        self.appender.set_next_queue_offset(topic, queue_id, value)

    def _make_room(self, msg_size: int) -> bool:
        try:
            while (step := self._space_lock.run(self._space.make_room, msg_size)) is not None:
                self._make(step)
        except OSError as error:
            if not is_of_the_system(error):
                raise
            self._on_failure(error)
            return False
        return True

    def prepare_space(self) -> bool:
        """Allocate or populate one step ahead of the writer, or make the next file; return True if more is wanted now.

        Raises
        ------
        OSError
            The disk has no room, or refuses.
        """
        step = self._space_lock.run(self._space.next_step)
        if step is not None:
            self._make(step)
        return step is not None

    def _make(self, step: Step | FileStep) -> None:
        """Make a step, without the space lock: a put that finds no room must not wait for it."""
        if isinstance(step, FileStep):
            self._file_lock.run(self._space.make_file, step)
        else:
            step.make(self.appender)
        self._space_lock.run(self._space.done, step)

    def on_append(self, ring: Callable[[], object]) -> None:
        """Call `ring` once, after the next append; the rings of other callers stay."""
        self._append_bells.add(ring)
        self.appender.arm_append(self._append_bells.ring)

    def on_low_space(self, ring: Callable[[], object]) -> None:
        """Call `ring` once, when `prepare_space` has work to do."""
        self._space_bells.add(ring)
        self.appender.arm_low_space(self._space_bells.ring, self._space.alarm)

    def flush(self, least_pages: int = 0) -> int:
        """Bring the appended bytes to disk; return `flushed_offset`.

        Parameters
        ----------
        least_pages : int
            Do nothing while fewer pages of 4096 bytes wait; 0: sync any bytes that wait.

        Raises
        ------
        OSError
            A sync failed, now or earlier: the part of the range that is on disk is unknown, and no later sync can show
            it.

        Notes
        -----
        Source: RocketMQ 5.5.0 MappedFileQueue#flush (one file per call), DefaultMappedFile#flush.
        """
        return self._flush_lock.run(self._flush, least_pages)

    def _flush(self, least_pages: int) -> int:
        if self._released:
            raise StoreClosedError(f"{self.folders[0]}: the CommitLog is closed")
        wrote, timestamp_ms = self.appender.state()
        flushed = self._flushed_offset
        if wrote // PAGE - flushed // PAGE < least_pages or wrote == flushed:
            return flushed
        for file in self.files.files:
            start = file.file_from_offset
            if start < wrote and start + file.file_size > flushed:
                # After a failed sync the file refuses all others.
                end = min(wrote - start, file.file_size)
                file.flush(max(flushed - start, 0), end, written_once=True)
                if start + file.file_size <= wrote:
                    file.seal()  # the whole file is on disk, including the BLANK at its end
        if wrote > self._flushed_offset:
            self._flushed_offset = wrote
            self.flushed_timestamp_ms = timestamp_ms
        return self._flushed_offset

    def leave_out(self, file: MappedFile) -> None:
        """Forget the first file, which is about to be deleted. Views of it stay valid."""
        self._space_lock.run(self._leave_out, file)

    def _leave_out(self, file: MappedFile) -> None:
        self.files.replace(one for one in self.files.files if one is not file)
        file.seal()

    def close(self) -> None:
        """Delete an empty file made ahead, and close all files. Appender stopped and log flushed: by the caller."""
        self._with_space(self._space.drop_unused)
        self.files.replace(())

    def release(self) -> None:
        """Close all files and descriptors, and stop the appender. Views keep their mappings."""
        run_with((self._file_lock, self._space_lock, self._flush_lock), self._release)

    def _with_space(self, function: Callable[[*_Given], object], *args: *_Given) -> None:
        """Call a function with the locks of files and of space, acquired in this order (`log_space` says why)."""
        run_with((self._file_lock, self._space_lock), function, *args)

    def _release(self) -> None:
        self._released = True
        for file in self.files.files:
            file.seal()
        self.files.replace(())
        self._space.release()
        self.appender.release()


def _room_maker(reference: weakref.ref[CommitLog]) -> Callable[[int], bool]:
    """Return the appender's callback for room. It holds the log weakly: a cycle would keep a dropped store's lock."""

    def make_room(msg_size: int) -> bool:
        log = reference()
        return log is not None and log._make_room(msg_size)  # noqa: SLF001

    return make_room
