"""Log lines about a store: that it has failed, refuses messages, has a thread in trouble, recovers, deletes files."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from rmqcore.engine.clean.report import CleanReport
from rmqcore.engine.store.store import MessageStore

LOOK_MS = 1_000
SAY_AGAIN_S = 60.0
"""Seconds in which a thread of the store that works and does not work in turn gets one line."""
_LOG = logging.getLogger("rmqcore.broker")


class StoreWatch:
    """Checks a store once per second. Its methods are called by the loop's thread only.

    Parameters
    ----------
    store : MessageStore

    Attributes
    ----------
    on_failed : callable, optional
        Called once, after the store has failed.
    """

    def __init__(self, store: MessageStore) -> None:
        self._store = store
        self._failed = self._refuses = False
        self._refusal: str | None = None  # the last one
        self._waiting: set[str] = set()  # threads of the store whose error was logged
        self._said: dict[str, float] = {}  # when a thread's last line was logged, monotonic
        self.on_failed: Callable[[], object] | None = None

    def look(self) -> None:
        """Log the changes since the last call."""
        if self._failed:
            return
        store, refusal = self._store, self._store.refusal
        if store.failed:
            self._failed = True
            _LOG.error(
                "the store %s has failed and refuses messages: %s; check the disk, then restart "
                "the broker",
                store.paths.root,
                refusal,
            )
            if self.on_failed is not None:
                self.on_failed()
            return
        if refusal is not None and not self._refuses:
            _LOG.error("messages are refused for now: %s", refusal)
        elif refusal is None and self._refuses:
            _LOG.warning("messages are accepted again")
        self._refuses = refusal is not None
        self._refusal = refusal or self._refusal
        self._look_at_threads(store.background_errors, time.monotonic())
        for report in store.take_clean_reports():
            _log_clean(report)

    def _look_at_threads(self, errors: dict[str, str], now: float) -> None:
        """Log which threads cannot work, and which of them work again."""
        for name in [name for name in self._waiting if name not in errors]:
            self._waiting.discard(name)
            _LOG.warning("%s of the store works again", name)
        for name, what in errors.items():
            if self._refusal is not None and self._refusal in what:
                continue  # the log has it already
            if (
                name not in self._waiting
                and now - self._said.get(name, -SAY_AGAIN_S) >= SAY_AGAIN_S
            ):
                self._said[name] = now
                self._waiting.add(name)
                _LOG.warning("%s of the store failed and tries again: %s", name, what)

    def why(self) -> str | None:
        """Return why the store refuses messages now; None if it accepts them."""
        refusal = self._store.refusal
        if refusal is None or not self._store.failed:
            return refusal
        return f"the store has failed: {refusal}"


def _log_clean(report: CleanReport) -> None:
    """Log the files that a round of cleaning deleted, as a warning if messages were deleted before their time."""
    done = f"deleted {len(report.deleted)} files ({report.freed_bytes} bytes), the first one {report.deleted[0]}"
    if report.reason == "forced":
        _LOG.warning(
            "cleaning %s, before file_reserved_time was over, because a disk is full: %d%% of the CommitLog's is used, "
            "%d%% of the queues' (disk_space_clean_forcibly_ratio; clean_file_forcibly_enable=false refuses messages "
            "instead); the log begins at %d now",
            done,
            round(100 * report.log_ratio),
            round(100 * report.queues_ratio),
            report.min_phy_offset,
        )
    else:
        why = f"reason: {report.reason}" if report.reason else "their messages had left the log"
        _LOG.info("cleaning %s (%s); the log begins at %d now", done, why, report.min_phy_offset)
