"""A store of numbers: what the threads ask of a store, and any step can be stopped in its middle or fail."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from rmqcore._native.threads.bell import Bell
from rmqcore.config import MessageStoreConfig
from rmqcore.disk.paths import StorePaths
from rmqcore.engine.store.offset_waiters import OffsetWaiters
from rmqcore.errors import StoreFailedError
from rmqcore.vocabulary.status import PutMessageStatus as Status


class FakeRound(NamedTuple):
    """What a round of cleaning answers."""

    kept: str | None


# To a type checker an instance is a MessageStore, as the services want one.
_Base: Any = Any if TYPE_CHECKING else object


class FakeStore(_Base):  # type: ignore[misc]
    """Each message is one byte. `errors` holds what a step raises, `hold` stops it before it works."""

    def __init__(self, **config: Any) -> None:
        self.config = MessageStoreConfig(**config)
        self.paths = StorePaths("nowhere")
        self.queue_ends: dict[tuple[str, int], int] = {}
        self.max_phy_offset = 0
        self.flushed_phy_offset = 0
        self.reput_from_offset = 0
        self.window = 1 << 20
        self.space_wanted = 0
        self.pauses: list[int] = []  # milliseconds that a round of cleaning waits between files
        self.kept: str | None = None  # what a round of cleaning could not delete
        self.failure: BaseException | None = None
        self.noted: dict[str, BaseException] = {}
        note = self.noted.__setitem__
        self.flush_waiters = OffsetWaiters("on_flushed", Status.FLUSH_DISK_TIMEOUT, note)
        self.replica_waiters = OffsetWaiters("on_replicated", Status.FLUSH_SLAVE_TIMEOUT, note)
        self.errors: dict[str, BaseException] = {}
        self.calls: list[tuple[str, int | None]] = []
        self.changed = threading.Condition()
        self._gates: dict[str, threading.Event] = {}
        self._entered: dict[str, threading.Event] = {}
        self._append_ring: Callable[[], object] | None = None
        self._space_ring: Callable[[], object] | None = None
        self._mutex = threading.Lock()

    # what a test does

    def put(self, count: int = 1) -> int:
        """Append, and ring as the appender does."""
        return self._append(count, flushed=False)

    def put_and_flush(self) -> int:
        """Append, and flush before the ring is heard."""
        return self._append(1, flushed=True)

    def _append(self, count: int, *, flushed: bool) -> int:
        with self._mutex:
            self.max_phy_offset += count
            end = self.max_phy_offset
            if flushed:
                self.flushed_phy_offset = end
            ring, self._append_ring = self._append_ring, None
        if ring is not None:
            ring()
        return end

    def low_space(self, steps: int) -> None:
        """The writer comes near the end of what is prepared."""
        self.space_wanted += steps
        ring, self._space_ring = self._space_ring, None
        if ring is not None:
            ring()

    def hold(self, step: str) -> threading.Event:
        """Stop whoever calls `step` until the answer is set."""
        self._entered[step] = threading.Event()
        self._gates[step] = threading.Event()
        return self._gates[step]

    def wait_held(self, step: str) -> None:
        """Wait until somebody stands at the gate."""
        assert self._entered[step].wait(60)

    def wait_for(self, done: Callable[[], bool], timeout: float = 60) -> None:
        """Wait until a step has made `done()` true."""
        with self.changed:
            assert self.changed.wait_for(done, timeout)

    def count(self, step: str) -> int:
        """Calls of a step so far."""
        return sum(name == step for name, _ in list(self.calls))

    @property
    def armed(self) -> bool:
        """Whether somebody waits for the next append."""
        return self._append_ring is not None

    @property
    def armed_for_space(self) -> bool:
        """Whether somebody waits for a low space."""
        return self._space_ring is not None

    # what the threads do

    def _step(self, name: str, argument: int | None = None) -> None:
        if name in self._gates:
            self._entered[name].set()
            assert self._gates[name].wait(60)
        with self.changed:
            self.calls.append((name, argument))
            self.changed.notify_all()
        if name in self.errors:
            raise self.errors[name]

    def _done(self) -> None:
        with self.changed:
            self.changed.notify_all()

    def flush(self, least_pages: int = 0) -> int:
        upto = self.max_phy_offset
        self._step("flush", least_pages)
        self.raise_if_failed()
        if upto - self.flushed_phy_offset >= least_pages:
            self.flushed_phy_offset = max(self.flushed_phy_offset, upto)
        self.flush_waiters.reached(self.flushed_phy_offset)
        self._done()
        return self.flushed_phy_offset

    def flush_consume_queues(self, least_pages: int = 0) -> None:
        self._step("flush_consume_queues", least_pages)

    def write_checkpoint(self) -> None:
        self._step("write_checkpoint", self.reput_from_offset)

    def queues(self) -> list[tuple[str, int]]:
        return list(self.queue_ends)

    def max_offset(self, topic: str, queue_id: int) -> int:
        self._step("max_offset", queue_id)
        return self.queue_ends[topic, queue_id]

    def dispatch_once(self) -> int:
        self._step("dispatch_once")
        sync = self.config.flush_disk_type == "SYNC_FLUSH"
        end = self.flushed_phy_offset if sync else self.max_phy_offset
        size = min(end - self.reput_from_offset, self.window)
        self.reput_from_offset += size
        self._done()
        return size

    def dispatch_until(self, bell: Bell, *, follow: bool) -> bool:
        return self.dispatch_once() > 0

    def scrub_once(self) -> int:
        self._step("scrub_once")
        return 0

    def prepare_space(self) -> bool:
        self._step("prepare_space")
        if self.space_wanted:
            self.space_wanted -= 1
        self._done()
        return self.space_wanted > 0

    def clean_once(self, *, pause: Callable[[int], bool] | None = None) -> FakeRound:
        self._step("clean_once")
        while self.pauses and pause is not None and not pause(self.pauses[0]):
            self.pauses.pop(0)
        return FakeRound(self.kept)

    def on_append(self, ring: Callable[[], object]) -> None:
        with self._mutex:
            self._append_ring = ring
        self._done()

    def on_low_space(self, ring: Callable[[], object]) -> None:
        self._space_ring = ring
        self._done()

    @property
    def failed(self) -> bool:
        return self.failure is not None

    def fail(self, error: BaseException) -> None:
        with self._mutex:
            self.failure = self.failure or error
        self._done()

    def note_error(self, service: str, error: BaseException | None) -> None:
        if error is None:
            self.noted.pop(service, None)
        else:
            self.noted[service] = error

    def close(self) -> None:
        self._step("close")

    def raise_if_failed(self) -> None:
        if self.failure is not None:
            raise StoreFailedError(str(self.failure)) from self.failure
