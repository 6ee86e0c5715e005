"""CommitLog space ahead of the writer: allocated, populated, and the next file before this one is full."""

from __future__ import annotations

from rmqcore.services.service import Service
from rmqcore.services.steps import StoreSteps


class Allocate(Service):
    """Prepares space while the store wants more, then sleeps until the appender comes near the end of it.

    How much is the store's decision (steps double with what was written); this thread is only why no put waits for it.

    Notes
    -----
    Source: RocketMQ 5.5.0 AllocateMappedFileService.
    """

    name = "allocate"

    def step(self, store: StoreSteps) -> float | None:
        """Prepare one step."""
        if store.prepare_space():
            return 0
        store.on_low_space(self.wake)
        # What was appended before the hook was in place.
        return 0 if store.prepare_space() else None
