"""Check of callbacks that wait for an offset of the log: the arguments, and whether the wait can end."""

from __future__ import annotations

import time
from operator import index

from rmqcore.engine.log.commitlog import CommitLog
from rmqcore.engine.store.offset_waiters import Callback, OffsetWaiters
from rmqcore.engine.store.state import StoreState
from rmqcore.errors.arguments import check_callables, check_ints


def call_when_reached(
    log: CommitLog,
    state: StoreState,
    waiters: OffsetWaiters,
    end_offset: int,
    callback: Callback,
    timeout_ms: int,
) -> bool:
    """Add a callback to `waiters`, or call it now if the log is safe up to the offset; return True if it waits.

    Raises
    ------
    TypeError, ValueError
        An argument has the wrong type, or the log does not reach that offset.
    StoreFailedError, StoreClosedError
        The log is not safe up to that offset, and will not be.
    """
    check_callables(callback=callback)
    check_ints(end_phy_offset=end_offset, timeout_ms=timeout_ms)
    end_offset = inside_log(log, "end_phy_offset", end_offset)
    state.raise_if_closed()
    if end_offset > waiters.reached_offset:
        state.raise_unless_writable()
    sooner = waiters.add(end_offset, callback, time.monotonic() + max(timeout_ms, 0) / 1000)
    if end_offset <= waiters.reached_offset:
        waiters.answer()
        return False
    if sooner and state.waiters is not None:
        state.waiters.look_soon()
    return True


def inside_log(log: CommitLog, name: str, phy_offset: int) -> int:
    """Return `phy_offset` if the log has it or ends at it; otherwise raise ValueError, which names the argument."""
    phy_offset, most = index(phy_offset), log.max_offset
    if not 0 <= phy_offset <= most:
        raise ValueError(f"{name} is {phy_offset}, expected 0 to {most}, the end of the log")
    return phy_offset
