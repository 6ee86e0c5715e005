"""What the threads need of a store: one method a step, so that a test drives the same engine without threads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from rmqcore.config import MessageStoreConfig
from rmqcore.engine.paths import StorePaths


class StoreSteps(Protocol):
    """The steps of a MessageStore that services repeat. Each is one finite piece of work, safe to call from any thread."""

    @property
    def config(self) -> MessageStoreConfig:
        """Intervals and the flush type are read once, when the threads are made."""

    @property
    def paths(self) -> StorePaths:
        """Where its files are."""

    @property
    def max_phy_offset(self) -> int:
        """End of what is written."""

    @property
    def flushed_phy_offset(self) -> int:
        """Up to here the CommitLog is on disk; moves only after a sync that succeeded."""

    @property
    def reput_from_offset(self) -> int:
        """Up to here messages are in queues and index."""

    def queues(self) -> list[tuple[str, int]]:
        """Topic and queue id of every queue."""

    def max_offset(self, topic: str, queue_id: int) -> int:
        """Queue offset after the last entry of a queue."""

    def flush(self, least_pages: int = 0) -> int:
        """Put the CommitLog on disk if at least so many pages wait (0: whatever waits); answers the flushed offset."""

    def flush_consume_queues(self, least_pages: int = 0) -> None:
        """The same for each queue file. With 0 also notes for the checkpoint what was in them *before*."""

    def write_checkpoint(self) -> None:
        """Put the checkpoint on disk."""

    def dispatch_once(self) -> int:
        """Dispatch one window; answers the bytes, 0 when there is nothing (yet)."""

    def prepare_space(self) -> bool:
        """Allocate and populate one step ahead; answers whether more is wanted now."""

    def on_append(self, ring: Callable[[], object]) -> None:
        """Call `ring` once, after the next append."""

    def on_low_space(self, ring: Callable[[], object]) -> None:
        """Call `ring` once, when `prepare_space` has something to do."""

    def fail(self, error: BaseException) -> None:
        """Refuse writes from now on; the first failure is kept."""

    def note_error(self, service: str, error: BaseException) -> None:
        """Show an error that costs no data in `stats()`; writes go on."""

    def close(self) -> None:
        """Stop the threads and let go of the directory."""

    def raise_if_failed(self) -> None:
        """Raise StoreFailedError when the store has failed."""
