"""Tells of a store that has failed, or takes no messages: a line in the log when it begins, and one when it is over."""

from __future__ import annotations

import logging
from collections.abc import Callable

from rmqcore.engine.store.store import MessageStore

LOOK_MS = 1_000
_LOG = logging.getLogger("rmqcore.broker")


class StoreWatch:
    """Looks at a store once a second. Its methods are called by the loop's thread only.

    Parameters
    ----------
    store : MessageStore

    Attributes
    ----------
    on_failed : callable, optional
        Called once, when the store has failed.
    """

    def __init__(self, store: MessageStore) -> None:
        self._store = store
        self._failed: str | None = None
        self._no_puts: str | None = None
        self.on_failed: Callable[[], object] | None = None

    def look(self) -> None:
        """Log what has changed since the last look."""
        found = self._store.stats()
        if found["failed"] is not None and self._failed is None:
            self._failed = found["failed"]
            _LOG.error(
                "the store %s has failed and takes no more messages: %s; look at the disk, then start again",
                self._store.paths.root,
                self._failed,
            )
            if self.on_failed is not None:
                self.on_failed()
        no_puts = found["no_puts"]
        if (no_puts is None) != (self._no_puts is None):
            if no_puts is not None:
                _LOG.error("messages are refused until there is room: %s", no_puts)
            else:
                _LOG.warning("there is room: messages are taken again")
        self._no_puts = no_puts

    def why(self) -> str | None:
        """Why the store takes no messages now; None if it does."""
        found = self._store.stats()
        if found["failed"] is not None:
            return f"the store has failed: {found['failed']}"
        return None if found["no_puts"] is None else f"there is no room: {found['no_puts']}"
