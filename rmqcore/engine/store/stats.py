"""Collects the values of `stats()` of an open store."""

from __future__ import annotations

from typing import Any

from rmqcore.engine.dispatch.dispatcher import Skipped
from rmqcore.engine.store.dispatch import Dispatch
from rmqcore.engine.store.parts import StoreParts
from rmqcore.engine.store.scrub import Scrub
from rmqcore.engine.store.state import StoreState

MOST_SKIPPED = 100


def read_stats(
    parts: StoreParts, state: StoreState, dispatch: Dispatch, scrub: Scrub
) -> dict[str, Any]:
    """Return the offsets, whether the store has failed, and the errors of the background threads."""
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
        "scrub": scrub.stats(),
    }


def _skipped(places: list[Skipped]) -> dict[str, Any]:
    """Return the number of places that dispatch passed over, and the first of them."""
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
