"""State of a store: open, failed or closed, and the refusal of puts in each state."""

from __future__ import annotations

import errno
import os
import time
import weakref
from collections.abc import Callable
from functools import partial
from pathlib import Path
from traceback import clear_frames
from typing import NoReturn, Protocol

from rmqcore._native.put.appender import Appender
from rmqcore._native.threads.mutex import Calls, Mutex
from rmqcore.disk.descriptors import descriptors_are_free, files_limit
from rmqcore.disk.used_space import free_bytes
from rmqcore.engine.store.offset_waiters import OffsetWaiters
from rmqcore.errors import (
    DiskFullError,
    ShortageError,
    StoreClosedError,
    StoreError,
    StoreFailedError,
    TooManyFilesError,
    is_no_descriptor,
    is_no_room,
    is_of_the_system,
)
from rmqcore.vocabulary.status import PutMessageStatus


class Waiters(Protocol):
    """The threads of an open store (`rmqcore.services`), as seen by the puts and readers that wait for them."""

    def wait_flushed(self, end_offset: int, timeout_ms: int) -> PutMessageStatus:
        """Wait until the CommitLog is on disk up to an offset."""

    def flush_soon(self) -> None:
        """Flush for callbacks that were added to the store's `flush_waiters`."""

    def look_soon(self) -> None:
        """Call the callbacks whose timeout has passed now, or all if the store has failed."""

    def dispatch_soon(self) -> None:
        """Start the next dispatch now."""

    def wait_dispatched(self, end_offset: int, timeout: float | None = None) -> bool:
        """Wait until messages below an offset are in queues and index."""

    def clean(self) -> None:
        """Start a round of cleaning now."""

    def stop(self) -> None:
        """End all threads."""


_states: weakref.WeakSet[StoreState] = weakref.WeakSet()


def _after_fork_in_child() -> None:
    for state in list(_states):
        state.forbid_in_child()
    _states.clear()


os.register_at_fork(after_in_child=_after_fork_in_child)


class StoreState:
    """State shared by the parts of a store: its threads, its first failure, and why it is closed.

    Parameters
    ----------
    root : Path
        The store's directory, which errors name.

    Attributes
    ----------
    calls : Calls
        The threads that are inside a call that holds a lock of the store.
    closing : bool
        A close has started: waiting threads end their work.
    closed : str, optional
        Why every method is refused; None while the store is open.
    errors : dict
        Errors that cost no data, by the thread in which they occurred.
    flush_waiters : OffsetWaiters
        Callbacks that wait until the log is on disk up to some offset.
    replica_waiters : OffsetWaiters
        Callbacks that wait until enough followers hold the log up to some offset.
    waiters : Waiters, optional
        The threads that run the steps; None if the caller runs them.

    Notes
    -----
    Thread safety: all methods may be called from any thread.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.calls = Calls()
        self.closed: str | None = None
        self.errors: dict[str, str] = {}
        # They hold the errors, not this object: their threads must not keep a dropped store alive.
        note_error = partial(_note, self.errors)
        late = PutMessageStatus.FLUSH_DISK_TIMEOUT, PutMessageStatus.FLUSH_SLAVE_TIMEOUT
        self.flush_waiters = OffsetWaiters("on_flushed", late[0], note_error)
        self.replica_waiters = OffsetWaiters("on_replicated", late[1], note_error)
        self._no_room: str | None = None
        self._no_descriptor: str | None = None
        self.waiters: Waiters | None = None
        self._failures: list[BaseException] = []
        self._close_lock = Mutex(self.calls)
        self._finished = self._released = False
        self.closing = False
        self._appender: Appender | None = None
        self._pid = os.getpid()

    def guard(self, appender: Appender) -> None:
        """End the puts of `appender` at a failure, a close or a fork; called once, when the store is open."""
        self._appender = appender
        _states.add(self)

    def stop_puts(self) -> None:
        """Refuse puts from now on; return when the running puts are answered."""
        if self._appender is not None:
            self._appender.stop(self.raise_refusal)

    # ---- shortages that can end: disk space, descriptors

    @property
    def no_puts(self) -> str | None:
        """Why puts are refused; None while they are accepted."""
        return self._no_room or self._no_descriptor

    def pause_puts(self, why: str) -> None:
        """Refuse puts with SERVICE_NOT_AVAILABLE until `resume_puts`, because a disk has no room; reads continue."""
        self._no_room = why
        self._pause_appender()

    def resume_puts(self) -> None:
        """Accept puts again: the disks have room."""
        self._no_room = None
        self._pause_appender()

    def resume_with_descriptors(self) -> None:
        """Accept puts again that a lack of descriptors has paused.

        Raises
        ------
        TooManyFilesError
            Descriptors are still missing.
        """
        why = self._no_descriptor
        if why is None:
            return
        if not descriptors_are_free():
            raise TooManyFilesError(why)
        self._no_descriptor = None
        self._pause_appender()

    def check_descriptors(self) -> None:
        """Raise TooManyFilesError if the process gets no descriptors now."""
        if not descriptors_are_free():
            limit = files_limit(errno.EMFILE)
            raise TooManyFilesError(f"{self.root}: {os.strerror(errno.EMFILE)}; {limit}")

    def _pause_appender(self) -> None:
        if self._appender is not None:
            self._appender.pause(self.no_puts is not None)

    def pause_or_fail(self, error: OSError) -> None:
        """Pause puts until a cleaning round, which starts now, if a step lacked room or descriptors; else fail."""
        shortage = self.shortage(error)
        if shortage is None:
            self.fail(error)
            return
        if isinstance(shortage, TooManyFilesError):
            self._no_descriptor = str(shortage)
            self._pause_appender()
        else:
            self.pause_puts(str(shortage))
        if self.waiters is not None:
            self.waiters.clean()

    def shortage(self, error: OSError) -> ShortageError | None:
        """Return the error of a step that lacked room or descriptors and may be repeated; None for all other errors."""
        path = error.filename or os.fspath(self.root)
        what = f"{path}: {error.strerror}"
        if is_no_descriptor(error):
            return TooManyFilesError(f"{what}; {files_limit(error.errno)}")
        if is_no_room(error):
            return DiskFullError(f"{what}; {free_bytes(path):,} bytes are free")
        return None

    def refused_for_now(self, what: str) -> ShortageError:
        """Return the error of an append that found no room; `what` is its text if no cause is known."""
        kind = TooManyFilesError if self._no_descriptor and not self._no_room else DiskFullError
        return kind(f"{self.root}: {self.no_puts or what}")

    def note_error(self, service: str, error: BaseException | None) -> None:
        """Keep an error that costs no data; None: forget the last one."""
        _note(self.errors, service, error)

    # ---- failed

    @property
    def failure(self) -> BaseException | None:
        """The first error after which writes are refused."""
        return self._failures[0] if self._failures else None

    def fail(self, error: BaseException) -> None:
        """Refuse writes from now on; reads continue. The first failure is kept."""
        if not isinstance(error, BaseException):
            raise TypeError(f"error: expected an exception, got {error!r}")
        self._failures.append(error)
        self.stop_puts()
        if self.waiters is not None:
            self.waiters.look_soon()

    def fail_by(self, error: OSError) -> NoReturn:
        """Fail the store because of `error`, and raise StoreFailedError; raise errors of no system call unchanged.

        Raise TooManyFilesError for a step without a descriptor: it has opened no file, so no sync failed, and it may be
        repeated. A full disk is a failure here: a sync that finds no room may have lost the bytes to sync.
        """
        if not is_of_the_system(error):
            raise error
        if is_no_descriptor(error):
            self.repeat_or_fail_by(error, pause=False)
        self.fail(error)
        self.raise_if_failed()
        raise error

    def repeat_or_fail_by(self, error: OSError, *, pause: bool) -> NoReturn:
        """Raise a ShortageError if a step lacked room or descriptors; otherwise fail, and raise StoreFailedError.

        A ShortageError means that the step may be repeated. With `pause`, puts are refused until the next round of
        cleaning.
        """
        shortage = self.shortage(error)
        if shortage is None:
            self.fail_by(error)
        if pause:
            self.pause_or_fail(error)
        raise shortage from error

    def raise_if_failed(self) -> None:
        """Raise StoreFailedError if the store has failed."""
        if self.failure is not None:
            raise StoreFailedError(
                f"{self.root}: {self.failure}; the store refuses writes until it is opened again"
            ) from self.failure

    # ---- closed

    def raise_if_closed(self) -> None:
        """Raise StoreClosedError if the store is closed, or belongs to the parent of this process."""
        if self.closed is not None:
            raise StoreClosedError(f"{self.root}: {self.closed}")

    def raise_if_forked(self) -> None:
        """Raise StoreClosedError in a forked child, whose copies of the parent's numbers are old."""
        if os.getpid() != self._pid:
            self.raise_if_closed()

    def raise_unless_writable(self) -> None:
        """Raise StoreClosedError or StoreFailedError if writes are refused."""
        if self.closed is not None:
            self.raise_if_closed()
        if self.failure is not None:
            self.raise_if_failed()

    def raise_refusal(self) -> NoReturn:
        """Raise the reason why a put is refused: a stopped appender calls this."""
        self.raise_unless_writable()
        raise StoreClosedError(f"{self.root}: the store is being closed")

    def close(self, *, finish: Callable[[], None], release: Callable[[], None]) -> None:
        """End puts, then threads; call `finish`, except after a failure; call `release` always.

        A thread that already holds a lock of the store further down its stack (a signal handler, a destructor or a
        callback inside one of its calls) would wait for itself: there puts end now, and the rest follows when that call
        returns or raises.

        An interrupt leaves the store closed for puts, and the next close continues.
        """
        if not self._released:
            self.closing = True
            self.stop_puts()
            if self.calls.inside:
                self.calls.when_left(lambda: self.close(finish=finish, release=release))
                return
            try:
                self._close_lock.run(self._close, finish, release)
            finally:
                self._answer_waiters()
        else:
            self._answer_waiters()

    def _answer_waiters(self) -> None:
        """Call all waiting callbacks, outside of all locks; the close after an interrupted one does so too."""
        if self._released:
            self._end_waiters()

    def serve_waiters(self) -> None:
        """Call the callbacks whose result is known now; for a store without threads."""
        if self.failure is not None:
            self._end_waiters()
            return
        for waiters in (self.flush_waiters, self.replica_waiters):
            if len(waiters):
                waiters.answer()
                waiters.expire(time.monotonic())

    def _end_waiters(self) -> None:
        self.flush_waiters.end()
        self.replica_waiters.end()

    def _close(self, finish: Callable[[], None], release: Callable[[], None]) -> None:
        if self._released:
            return
        if self.waiters is not None:
            self.waiters.stop()
        try:
            if self.failure is None and not self._finished:
                finish()
        except (StoreError, MemoryError):  # only an interrupt passes
            self._release(release)
            raise
        self._release(release)

    def _release(self, release: Callable[[], None]) -> None:
        self._finished = True
        self.closed = f"closed in process {os.getpid()}"
        release()
        self._forget_frames()
        self._released = True

    def _forget_frames(self) -> None:
        """Release the frames of the failed calls: an error keeps its frames, and these keep files mapped."""
        for failure in self._failures:
            clear_frames(failure.__traceback__)

    def forbid_in_child(self) -> None:
        """In a forked child: answer with StoreClosedError and touch no file, lock or descriptor of the parent.

        A thread that does not exist in the child may hold any lock, so this acquires none.
        """
        self.closed = self.closed or f"it is open in process {self._pid}, of which this is a fork"
        self._released = True
        self.flush_waiters.forget()
        self.replica_waiters.forget()
        if self._appender is not None:
            self._appender.forbid(self.raise_refusal)


def _note(errors: dict[str, str], service: str, error: BaseException | None) -> None:
    if error is None:
        errors.pop(service, None)
    else:
        errors[service] = f"{type(error).__name__}: {error}"
