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
        self._failed = self._full = False
        self.on_failed: Callable[[], object] | None = None

    def look(self) -> None:
        """Log what has changed since the last look."""
        if self._failed:
            return
        store, refusal = self._store, self._store.refusal
        if store.failed:
            self._failed = True
            _LOG.error(
                "the store %s has failed and takes no more messages: %s; look at the disk, then start again",
                store.paths.root,
                refusal,
            )
            if self.on_failed is not None:
                self.on_failed()
        elif refusal is not None and not self._full:
            _LOG.error("messages are refused until there is room: %s", refusal)
        elif refusal is None and self._full:
            _LOG.warning("there is room: messages are taken again")
        self._full = refusal is not None

    def why(self) -> str | None:
        """Why the store takes no messages now; None if it does."""
        refusal = self._store.refusal
        if refusal is None:
            return None
        return f"{'the store has failed' if self._store.failed else 'there is no room'}: {refusal}"
