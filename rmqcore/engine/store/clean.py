"""Cleaning of an open store: rounds that delete files, and the pause of puts while a disk is too full."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from functools import partial

from rmqcore._native.threads.mutex import Mutex
from rmqcore.config import MessageStoreConfig
from rmqcore.engine.clean.cleaner import Cleaner, Pause
from rmqcore.engine.clean.disks import disk_use
from rmqcore.engine.clean.report import CleanReport
from rmqcore.engine.clean.rules import MANUAL_ROUNDS
from rmqcore.engine.store.dispatch import Dispatch
from rmqcore.engine.store.flush import Flush
from rmqcore.engine.store.parts import StoreParts
from rmqcore.engine.store.state import StoreState
from rmqcore.errors.arguments import check_longs, check_numbers
from rmqcore.vocabulary.clock import wall_clock_ms
from rmqcore.vocabulary.topics import is_system_topic

REPORTS_KEPT = 100


class Clean:
    """Run cleaning rounds, one at a time, and pause puts while a disk is too full.

    Attributes
    ----------
    reports : deque of CleanReport
        Of the rounds that deleted files, the last ones; the store's broker takes them out and logs them.
    """

    def __init__(
        self,
        parts: StoreParts,
        config: MessageStoreConfig,
        state: StoreState,
        dispatch: Dispatch,
        flush: Flush,
    ) -> None:
        self._parts = parts
        self._config = config
        self._state = state
        self._dispatch = dispatch
        self._cleaner = Cleaner(
            parts.paths,
            config,
            parts.log,
            parts.queues,
            parts.index,
            check_in_place=parts.locks.check_log,
            flush_queues=partial(flush.flush_queues, 0),
        )
        self._lock = Mutex(state.calls)
        self._manual_rounds = 0
        self.reports: deque[CleanReport] = deque(maxlen=REPORTS_KEPT)

    def by_hand(self) -> None:
        """Delete expired files in the next rounds, at any hour."""
        self._state.raise_unless_writable()
        self._manual_rounds = MANUAL_ROUNDS

    def once(
        self, now_ms: int | None = None, disk_ratio: float | None = None, pause: Pause | None = None
    ) -> CleanReport:
        """Run one round."""
        check_longs(now_ms=now_ms)
        check_numbers(disk_ratio=disk_ratio)
        if disk_ratio is not None and not 0 <= disk_ratio <= 1:
            raise ValueError(f"disk_ratio: expected a number from 0 to 1, got {disk_ratio!r}")
        self._state.raise_if_closed()  # a forked child must not wait for a lock of a thread that it does not have
        try:
            return self._lock.run(partial(self._once, now_ms, disk_ratio, pause or _sleep))
        except OSError as error:
            self._state.fail_by(error)

    def expired_queues(self) -> list[tuple[str, int]]:
        """Delete queues without a message; return their places."""
        self._state.raise_if_closed()  # a forked child must not wait for a lock of a thread that it does not have
        try:
            return self._lock.run(self._dispatch.pause_for, self._expired_queues)
        except OSError as error:
            self._state.fail_by(error)

    def _expired_queues(self) -> list[tuple[str, int]]:
        self._state.raise_unless_writable()
        log, queues = self._parts.log, self._parts.queues
        self._parts.locks.check_log()
        deleted = []
        for topic, queue_id in queues.queues():
            queue = queues.find(topic, queue_id)
            if queue is None or is_system_topic(topic):
                continue
            end = queue.max_offset
            # A queue is in use if its next message is in the log but not yet in the queue.
            unused = 0 <= queue.max_phy_offset < log.min_offset
            if unused and log.next_queue_offset(topic, queue_id) == end:
                self._state.check_descriptors()  # a partly deleted queue fails the store
                try:
                    queues.delete(queue)
                except BaseException as error:
                    self._state.fail(error)  # files are missing; the next open finds them
                    raise
                log.appender.restart_queue(topic, queue_id, end)
                deleted.append((topic, queue_id))
        return deleted

    def _once(self, now_ms: int | None, disk_ratio: float | None, pause: Pause) -> CleanReport:
        self._state.raise_unless_writable()
        if self._state.closing:
            self._state.raise_refusal()
        now_ms = wall_clock_ms() if now_ms is None else now_ms
        use = disk_use(self._parts.paths, self._config, disk_ratio)
        manual = self._manual_rounds > 0
        trigger = self._cleaner.rules.look(now_ms, use, manual=manual)
        self._manual_rounds -= manual
        if trigger.full is not None:
            self._state.pause_puts(trigger.full)
        elif trigger.roomy:
            self._state.resume_puts()
        self._state.resume_with_descriptors()  # first, because deleting needs descriptors too
        done_up_to = min(self._parts.log.flushed_offset, self._dispatch.reput_from_offset)
        report = self._cleaner.round(now_ms, use, trigger, done_up_to, partial(self._pause, pause))
        if report.deleted:
            self.reports.append(report)
        return report

    def _pause(self, pause: Pause, milliseconds: int) -> bool:
        """Pause; return True if the callback ends the round, or the store was closed or failed during the pause."""
        return pause(milliseconds) or self._state.closing or self._state.failure is not None

    def end(self, release: Callable[[], None]) -> None:
        """Wait for a running round, then stop cleaning: another store may use the directory afterwards."""
        self._lock.run(release)


def _sleep(milliseconds: int) -> bool:
    time.sleep(milliseconds / 1000)
    return False
