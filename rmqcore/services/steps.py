"""The methods of a store that its threads call: one a step, so that a test drives the same engine without threads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from rmqcore._native.threads.bell import Bell
from rmqcore.config import MessageStoreConfig
from rmqcore.disk.paths import StorePaths


class CleanRound(Protocol):
    """Result of a cleaning round for its thread."""

    @property
    def kept(self) -> str | None:
        """Why deleting ended before the rules said so."""


class OffsetQueue(Protocol):
    """Callbacks that wait until the log is safe up to an offset, on disk or at followers; it knows nothing of the store."""

    @property
    def over(self) -> bool:
        """True if `end` was called: no thread flushes the log any more."""

    def __len__(self) -> int: ...

    def wait(self, end_offset: int, seconds: float, begin: Callable[[], object]) -> bool:
        """Wait until the log is safe up to an offset, and return whether it is; `begin` is called before, in the queue."""

    def answer(self) -> None:
        """Call back all whose messages are safe."""

    def expire(self, now: float) -> float:
        """Call back all whose time is over, and return the time of the next one; infinite: the queue is empty."""

    def end(self) -> None:
        """Call back all, safe or not, and all later ones at once."""


class StoreSteps(Protocol):
    """The steps of a MessageStore that services repeat. Each is one finite piece of work, safe to call from any thread."""

    @property
    def config(self) -> MessageStoreConfig:
        """The settings. Intervals and the flush type are read once, when the threads are made."""

    @property
    def paths(self) -> StorePaths:
        """Where the files of the store are."""

    @property
    def max_phy_offset(self) -> int:
        """CommitLog offset after the last record."""

    @property
    def flushed_phy_offset(self) -> int:
        """CommitLog offset up to which the log is on disk; moves only after a sync that succeeded."""

    @property
    def reput_from_offset(self) -> int:
        """CommitLog offset up to which messages are in queues and index."""

    def queues(self) -> Sequence[tuple[str, int]]:
        """Return topic and queue id of every queue."""

    def max_offset(self, topic: str, queue_id: int) -> int:
        """Return the queue offset after the last entry of a queue."""

    def flush(self, least_pages: int = 0) -> int:
        """Bring the CommitLog to disk if at least so many pages wait (0: in any case); answer `flushed_phy_offset`."""

    @property
    def flush_waiters(self) -> OffsetQueue:
        """Callbacks that wait for the disk; `flush` notes there how far it came, and the thread that repeats it answers them."""

    @property
    def replica_waiters(self) -> OffsetQueue:
        """Callbacks that wait for followers; `replicated` answers them."""

    def flush_consume_queues(self, least_pages: int = 0) -> None:
        """Bring queue files to disk in the same way; with 0 also note for the checkpoint how far they were *before* that."""

    def write_checkpoint(self) -> None:
        """Bring the checkpoint to disk."""

    def dispatch_once(self) -> int:
        """Dispatch one window; answer its bytes, 0 when there is nothing (yet)."""

    def dispatch_until(self, bell: Bell, *, follow: bool) -> bool:
        """Dispatch what is there, and with `follow` what comes until the bell rings or a tenth of a second is over.

        Answer whether to do so again at once; False when nothing has come for some milliseconds.
        """

    def scrub_once(self) -> int:
        """Compare a piece of log, queues and index; answer its bytes, 0 at the end of a round."""

    def prepare_space(self) -> bool:
        """Allocate and populate one step ahead of the writer; answer whether more is wanted now."""

    def clean_once(self, *, pause: Callable[[int], bool] | None = None) -> CleanRound:
        """Make one round of cleaning; `pause` waits so many milliseconds, and answers whether to end it."""

    def on_append(self, ring: Callable[[], object]) -> None:
        """Call `ring` once, after the next append."""

    def on_low_space(self, ring: Callable[[], object]) -> None:
        """Call `ring` once, when `prepare_space` has something to do."""

    @property
    def failed(self) -> bool:
        """True if `fail` was called."""

    def fail(self, error: BaseException) -> None:
        """Refuse writes from now on; the first failure is kept."""

    def note_error(self, service: str, error: BaseException | None) -> None:
        """Show an error that costs no data in `stats()`; writes go on. None: it is over."""

    def close(self) -> None:
        """Stop the threads and let go of the directory."""

    def raise_if_failed(self) -> None:
        """Raise StoreFailedError when the store has failed."""
