"""Checks that the disks of a store have space for more messages, at most once per second."""

from __future__ import annotations

import logging
from collections.abc import Callable

from rmqcore.config import MessageStoreConfig
from rmqcore.disk.paths import StorePaths
from rmqcore.disk.used_space import used_percent

ASK_AGAIN_MS = 1_000
_LOG = logging.getLogger("rmqcore.broker")


class DiskGuard:
    """Decides when sends are refused, before the disk is so full that all writers fail.

    Parameters
    ----------
    paths : StorePaths
    config : MessageStoreConfig
        Its `disk_max_used_space_ratio` is the limit, in percent. Java accepts sends up to `diskSpaceWarningLevelRatio`.
    now_ms : callable
        The clock.

    Notes
    -----
    Source: RocketMQ 5.5.0 SendMessageProcessor#diskUtil, CleanCommitLogService#isSpaceToDelete.
    """

    def __init__(
        self, paths: StorePaths, config: MessageStoreConfig, now_ms: Callable[[], int]
    ) -> None:
        self._paths = paths
        self._most_percent = config.disk_max_used_space_ratio
        self._now_ms = now_ms
        self._asked_ms: int | None = None
        self._full = False

    def is_full(self) -> bool:
        """Return True if the emptiest disk of the log, or the disk of the queues, is above the limit; log a change."""
        now_ms = self._now_ms()
        if self._asked_ms is None or not 0 <= now_ms - self._asked_ms < ASK_AGAIN_MS:
            self._asked_ms = now_ms
            self._ask()
        return self._full

    def _ask(self) -> None:
        was_full = self._full
        used = max(self._log_percent(), self._queue_percent())
        self._full = used > self._most_percent
        if self._full != was_full:
            _LOG.warning(
                "the disk of %s is %d %% full, %s diskMaxUsedSpaceRatio (%d): %s",
                self._paths.root,
                used,
                "more than" if self._full else "no more than",
                self._most_percent,
                "messages are refused; free disk space, or raise the ratio in broker.conf"
                if self._full
                else "messages are accepted again",
            )

    def describe(self) -> str:
        """Return the used parts of the disks of log, queues and index, as in Java's refusals."""
        percents = self._log_percent(), self._queue_percent(), used_percent(self._paths.index)
        log, queues, index = (f"{percent / 100:5.2f}" for percent in percents)
        return f"CL: {log} CQ: {queues} INDEX: {index}"

    def _log_percent(self) -> int:
        return min(used_percent(folder) for folder in self._paths.new_file_folders)

    def _queue_percent(self) -> int:
        return used_percent(self._paths.consumequeue)
