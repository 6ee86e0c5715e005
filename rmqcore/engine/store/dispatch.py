"""Dispatch of an open store, one window at a time, up to the offset to which consumers may see messages."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import TypeVar

from rmqcore._native.threads.bell import Bell
from rmqcore._native.threads.mutex import Mutex
from rmqcore._native.threads.once import Once
from rmqcore.config import MessageStoreConfig
from rmqcore.engine.dispatch.arrivals import Arrival, ArrivalCallback, Arrivals, Listening
from rmqcore.engine.dispatch.follower import Follower
from rmqcore.engine.store import callbacks
from rmqcore.engine.store.parts import StoreParts
from rmqcore.engine.store.state import StoreState
from rmqcore.errors.arguments import check_callables, check_numbers

T = TypeVar("T")
NAP = 0.001  # seconds between two dispatches while listeners exist: one call reports all messages of that time


class Dispatch:
    """Run the dispatcher of a store, one thread at a time, and call the listeners for arrivals."""

    def __init__(self, parts: StoreParts, config: MessageStoreConfig, state: StoreState) -> None:
        self._log = parts.log
        self._dispatcher = parts.dispatcher
        self._follower = Follower(parts.dispatcher, parts.log, parts.queues, parts.index)
        self._arrivals = parts.dispatcher.arrivals = Arrivals(parts.queues)
        self._locks = parts.locks
        self._state = state
        self._sync = config.syncs_puts
        self._lock = Mutex(state.calls)

    @property
    def confirm_offset(self) -> int:
        """CommitLog offset up to which consumers may see messages."""
        return self._log.flushed_offset if self._sync else self._log.max_offset

    @property
    def reput_from_offset(self) -> int:
        """CommitLog offset up to which messages are in queues and index."""
        return self._dispatcher.reput_from_offset

    @property
    def behind_bytes(self) -> int:
        """CommitLog bytes between `reput_from_offset` and `confirm_offset`."""
        return max(0, self.confirm_offset - self.reput_from_offset)

    def once(self) -> int:
        """Dispatch one window; return its bytes."""
        try:
            self._state.raise_if_closed()  # a forked child must not wait for a lock of a thread that it does not have
            done = self._lock.run(self._once)
        except OSError as error:
            self._state.repeat_or_fail_by(error, pause=True)
        self._tell()
        return done

    def until(self, bell: Bell, follow: bool) -> bool:
        """Dispatch the new records, with `follow` also those that arrive; return True to be called again at once."""
        heard = self._arrivals.topics
        if heard is None:
            # Window by window: a session is native and calls no listener.
            going_on = self.once() > 0
            if going_on and follow:
                bell.wait(NAP)
            return going_on
        try:
            self._state.raise_if_closed()
            going_on = self._lock.run(self._until, bell, follow, heard)
            if self._tell() and follow:
                bell.wait(NAP)  # of a topic under load many messages are reported in one call
        except OSError as error:
            self._state.repeat_or_fail_by(error, pause=True)
        finally:
            wanted = self._arrivals.topics
            if wanted is None or not wanted <= heard:
                self._tell_all([])  # a listener came while a session reported nothing to it
        return going_on

    def _once(self) -> int:
        self._check()
        return self._dispatcher.dispatch_once(self.confirm_offset)

    def _until(self, bell: Bell, follow: bool, heard: frozenset[str]) -> bool:
        self._check()
        # Under SYNC_FLUSH each flush rings the bell, so no record becomes visible before that.
        along = bell if follow and not self._sync else None
        return self._follower.step(self.confirm_offset, along, heard)

    def _tell(self) -> bool:
        """Call the listeners with the queues that have new entries, without the lock; return whether there were any."""
        has_told = False
        for found in self._arrivals.untold():
            has_told = True
            self._tell_all(found)
        return has_told

    def _tell_all(self, found: list[Arrival]) -> None:
        for callback in self._arrivals.callbacks():
            callbacks.call(self._state.note_error, "on_dispatched", Once(callback), found)

    def listen(self, callback: ArrivalCallback, topics: Iterable[str] | None) -> Listening:
        """Call `callback` with the queues that get entries from now on."""
        check_callables(callback=callback)
        self._state.raise_if_closed()
        asked = None if topics is None else frozenset(topics)
        listening = self._arrivals.listen(callback, asked)
        if self._state.waiters is not None:
            self._state.waiters.dispatch_soon()
        return listening

    def _check(self) -> None:
        self._state.raise_unless_writable()
        self._locks.check_root()  # before files are made by name: another store may be in this directory now

    def pause_for(self, work: Callable[[], T]) -> T:
        """Return ``work()``, called while dispatch waits."""
        return self._lock.run(work)

    def finish(self) -> None:
        """Dispatch the rest of the log, which is on disk."""
        self._lock.run(self._finish)

    def _finish(self) -> None:
        while self._dispatcher.reput_from_offset < self._log.max_offset:
            self._dispatcher.dispatch_once(self._log.max_offset)

    def wait(self, timeout: float | None) -> bool:
        """Wait until all messages that consumers may see now are dispatched; without threads run the steps here."""
        check_numbers(timeout=timeout)
        self._state.raise_if_closed()
        end_offset = self.confirm_offset
        if self._state.waiters is not None:
            return self._state.waiters.wait_dispatched(end_offset, timeout)
        until = None if timeout is None else time.monotonic() + timeout
        while self.reput_from_offset < end_offset:
            if until is not None and time.monotonic() > until:
                return False
            self.once()
        return True
