"""Whether a store is open, failed or closed, and how each of these ends its puts."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable
from functools import partial
from pathlib import Path
from traceback import clear_frames
from typing import NoReturn, Protocol

from rmqcore._native.put.appender import Appender
from rmqcore._native.threads.mutex import Calls, Mutex
from rmqcore.disk.used_space import free_bytes
from rmqcore.engine.store.flush_waiters import FlushWaiters
from rmqcore.errors import (
    DiskFullError,
    StoreClosedError,
    StoreError,
    StoreFailedError,
    is_no_room,
    is_of_the_system,
)
from rmqcore.status import PutMessageStatus


class Waiters(Protocol):
    """The threads of an open store (`rmqcore.services`), as puts and readers that wait for them see them."""

    def wait_flushed(self, end_offset: int, timeout_ms: int) -> PutMessageStatus:
        """Wait until the CommitLog is on disk up to an offset."""

    def flush_soon(self, *, look: bool) -> None:
        """Flush for those who were added to the store's `FlushWaiters`; `look`: one's time is over sooner than all others'."""

    def dispatch_soon(self) -> None:
        """Begin the next dispatch now."""

    def wait_dispatched(self, end_offset: int, timeout: float | None = None) -> bool:
        """Wait until messages below an offset are in queues and index."""

    def clean(self) -> None:
        """Begin a round of cleaning now."""

    def stop(self) -> None:
        """End all threads."""


_states: weakref.WeakSet[StoreState] = weakref.WeakSet()


def _after_fork_in_child() -> None:
    for state in list(_states):
        state.forbid_in_child()
    _states.clear()


os.register_at_fork(after_in_child=_after_fork_in_child)


class StoreState:
    """What the parts of one store share: its threads, its first failure, and why it is closed.

    Parameters
    ----------
    root : Path
        The store's directory, which errors name.

    Attributes
    ----------
    calls : Calls
        Which threads are inside a call that holds a lock of the store.
    closing : bool
        A close has begun: whoever waits in between ends its work.
    closed : str, optional
        Why no method works any more; None while the store is open.
    errors : dict
        Errors that cost no data, by the thread that met them.
    flush_waiters : FlushWaiters
        Who waits until the log is on disk up to some offset.
    no_puts : str, optional
        Why puts are refused for the time being.
    waiters : Waiters, optional
        The threads that do the steps; None while the caller does them.

    Notes
    -----
    Thread safety: all methods may be called from any thread.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.calls = Calls()
        self.closed: str | None = None
        self.errors: dict[str, str] = {}
        # It knows the errors alone, not this object: its threads must not keep a store that is dropped.
        self.flush_waiters = FlushWaiters(partial(_note, self.errors))
        self.no_puts: str | None = None
        self.waiters: Waiters | None = None
        self._failures: list[BaseException] = []
        self._close_lock = Mutex(self.calls)
        self._finished = self._released = False
        self.closing = False
        self._appender: Appender | None = None
        self._pid = os.getpid()

    def guard(self, appender: Appender) -> None:
        """Let a failure, a close and a fork end the puts of `appender`; called once, when the store is open."""
        self._appender = appender
        _states.add(self)

    def stop_puts(self) -> None:
        """Refuse puts from now on; returns when those that have begun are answered."""
        if self._appender is not None:
            self._appender.stop(self.raise_refusal)

    # ---- no room

    def pause_puts(self, why: str) -> None:
        """Answer puts with SERVICE_NOT_AVAILABLE until `resume_puts`; nothing else changes."""
        self.no_puts = why
        if self._appender is not None:
            self._appender.pause(True)

    def resume_puts(self) -> None:
        """Take puts again."""
        if self._appender is not None:
            self._appender.pause(False)
        self.no_puts = None

    def pause_or_fail(self, error: OSError) -> None:
        """A write found no room: pause puts and ask for a round of cleaning, which takes them again. Else fail."""
        if not is_no_room(error):
            self.fail(error)
            return
        self.pause_puts(self.no_room(error))
        if self.waiters is not None:
            self.waiters.clean()

    def no_room(self, error: OSError) -> str:
        """Say which path found no room for what, and what is free there."""
        path = error.filename or os.fspath(self.root)
        return f"{path}: {error.strerror}; {free_bytes(path):,} bytes are free"

    def note_error(self, service: str, error: BaseException | None) -> None:
        """Keep an error that costs no data, or forget it."""
        _note(self.errors, service, error)

    # ---- failed

    @property
    def failure(self) -> BaseException | None:
        """The first error after which nothing may be written."""
        return self._failures[0] if self._failures else None

    def fail(self, error: BaseException) -> None:
        """Refuse writes from now on; reads go on. The first failure is kept."""
        if not isinstance(error, BaseException):
            raise TypeError(f"error: expected an exception, got {error!r}")
        self._failures.append(error)
        self.stop_puts()

    def fail_by(self, error: OSError) -> NoReturn:
        """Fail the store because of `error`, and raise StoreFailedError; an error of no system call is raised as it is."""
        if not is_of_the_system(error):
            raise error
        self.fail(error)
        self.raise_if_failed()
        raise error

    def full_or_fail_by(self, error: OSError, *, pause: bool) -> NoReturn:
        """Raise DiskFullError where a step found no room, and may be made again; else fail the store, and raise StoreFailedError.

        With `pause` nothing more is put before the next round of cleaning has seen the disks.
        """
        if not is_no_room(error):
            self.fail_by(error)
        if pause:
            self.pause_or_fail(error)
        raise DiskFullError(self.no_room(error)) from error

    def raise_if_failed(self) -> None:
        """Raise StoreFailedError when the store has failed."""
        if self.failure is not None:
            raise StoreFailedError(
                f"{self.root}: {self.failure}; nothing is written any more"
            ) from self.failure

    # ---- closed

    def raise_if_closed(self) -> None:
        """Raise StoreClosedError when the store is closed, or belongs to the parent of this process."""
        if self.closed is not None:
            raise StoreClosedError(f"{self.root}: {self.closed}")

    def raise_if_forked(self) -> None:
        """Raise StoreClosedError in a forked child: the numbers there are the parent's, and old."""
        if os.getpid() != self._pid:
            self.raise_if_closed()

    def raise_unless_writable(self) -> None:
        """Raise StoreClosedError or StoreFailedError when nothing may be written."""
        if self.closed is not None:
            self.raise_if_closed()
        if self.failure is not None:
            self.raise_if_failed()

    def raise_refusal(self) -> NoReturn:
        """Say why a put is refused: the appender calls this once it is stopped."""
        self.raise_unless_writable()
        raise StoreClosedError(f"{self.root}: the store is being closed")

    def close(self, *, finish: Callable[[], None], release: Callable[[], None]) -> None:
        """End puts, then threads; `finish` what they left, but not after a failure; `release` the directory in any case.

        A thread that holds a lock of the store further down its stack (this is a signal handler, a destructor or a callback on
        top of one of its calls) would wait for itself: there puts end now, and the rest follows when that call returns or raises.

        An interrupt leaves the store closed for puts, and the next close goes on.
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
        """Answer who still waits for the disk, outside of all locks; the close after one that was interrupted does so too."""
        if self._released and len(self.flush_waiters):
            self.flush_waiters.end()

    def _close(self, finish: Callable[[], None], release: Callable[[], None]) -> None:
        if self._released:
            return
        if self.waiters is not None:
            self.waiters.stop()
        try:
            if self.failure is None and not self._finished:
                finish()
        except (StoreError, MemoryError):  # what goes past this is an interrupt
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
        """Let go of what the calls that failed had in hand: frames are kept with an error, and keep files mapped."""
        for failure in self._failures:
            clear_frames(failure.__traceback__)

    def forbid_in_child(self) -> None:
        """In a forked child: answer with StoreClosedError and touch no file, lock or descriptor of the parent.

        A thread that does not exist in the child may hold any lock, so this takes none.
        """
        self.closed = self.closed or f"it is open in process {self._pid}, of which this is a fork"
        self._released = True
        self.flush_waiters.forget()
        if self._appender is not None:
            self._appender.forbid(self.raise_refusal)


def _note(errors: dict[str, str], service: str, error: BaseException | None) -> None:
    if error is None:
        errors.pop(service, None)
    else:
        errors[service] = f"{type(error).__name__}: {error}"
