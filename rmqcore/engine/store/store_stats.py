"""Collects the values of `stats()` of an open store."""

from __future__ import annotations

from typing import Any

from rmqcore.engine.dispatch.dispatcher import Skipped
from rmqcore.engine.store.store_dispatch import StoreDispatch
from rmqcore.engine.store.store_parts import StoreParts
from rmqcore.engine.store.store_scrub import StoreScrub
from rmqcore.engine.store.store_state import StoreState

MOST_SKIPPED = 100


class StoreStats:
    """Reads the numbers of a store from its parts; MessageStore documents the method."""

    def __init__(
        self, parts: StoreParts, state: StoreState, dispatch: StoreDispatch, scrub: StoreScrub
    ) -> None:
        self._scrub = scrub
        self._parts = parts
        self._state = state
        self._dispatch = dispatch

    def read(self) -> dict[str, Any]:
        """Return the offsets, whether the store has failed, and the errors of the background threads."""
        parts, state, dispatch = self._parts, self._state, self._dispatch
        return {
            "min_phy_offset": parts.log.min_offset,
            "max_phy_offset": parts.log.max_offset,
            "flushed_phy_offset": parts.log.flushed_offset,
            "confirm_offset": dispatch.confirm_offset,
            "dispatch_behind_bytes": dispatch.behind_bytes,
            "dispatch_skipped": _skipped(parts.dispatcher.skipped),
            "queues": len(parts.queues.queues()),
            "index_files": len(parts.index.files),
            "no_puts": state.no_puts,
            "failed": None if state.failure is None else str(state.failure),
            "errors": dict(state.errors),
            "scrub": self._scrub.stats(),
        }


def _skipped(places: list[Skipped]) -> dict[str, Any]:
    """Count the places over which the dispatch went on, and name the first ones."""
    shown = places[:MOST_SKIPPED]
    return {
        "count": len(places),
        "ranges": [
            {
                "start_phy_offset": one.start_phy_offset,
                "end_phy_offset": one.end_phy_offset,
                "what": f"{one.field}: expected {one.expected}, found {one.found}",
            }
            for one in shown
        ],
    }
