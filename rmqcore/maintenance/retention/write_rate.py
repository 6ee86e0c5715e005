"""Growth of a log, by the store times of its records."""

from __future__ import annotations

from rmqcore.maintenance.retention.log_facts import LogFacts
from rmqcore.maintenance.retention.report import WriteRate
from rmqcore.offline.log.store_times import first_stored
from rmqcore.vocabulary.units import DAY_MS, HOUR_MS

LEAST_SPAN_MS = 60_000
"""Shortest time span of a log for a rate."""
CLOSE_ENOUGH = 64 * 1024
"""Precision in bytes of the place of a time in a file."""


def write_rate(log: LogFacts, beside: float, given: float | None = None) -> WriteRate:
    """Find the rate of the last day, or of the whole log if it is younger.

    A day is what a forecast of days needs: it has the busy hours and the quiet ones. It ends with the newest message,
    so that a copy of a store has the rate that the store had.

    Parameters
    ----------
    log : LogFacts
    beside : float
        Bytes of queues and index for each byte of the log.
    given : float, optional
        Bytes per second set by the caller.
    """
    times = [facts for facts in log.files if facts.first is not None and facts.last is not None]
    if not times:
        return WriteRate(
            given or 0.0, _given(given) or "the log has no message", None, None, beside
        )
    first, last = times[0].first, times[-1].last
    assert first is not None
    assert last is not None
    span_ms = last.last_ms - first.first_ms
    hour, day = (
        _since(log, last.last_ms - window) / window * 1000 if span_ms >= window else None
        for window in (HOUR_MS, DAY_MS)
    )
    if given is not None:
        rate, source = given, str(_given(given))
    elif day is not None:
        rate, source = day, "in the last day before the newest message"
    elif span_ms >= LEAST_SPAN_MS:
        rate = (log.end_phy_offset - first.phy_offset) / span_ms * 1000
        source = "over the whole log, which covers less than a day"
    else:
        rate, source = (
            0.0,
            "unknown: the log's messages were stored within a minute, or its clock was set back",
        )
    return WriteRate(rate, source, hour, day, beside)


def _given(rate: float | None) -> str | None:
    return None if rate is None else "as requested"


def _since(log: LogFacts, time_ms: int) -> int:
    """Bytes of the log from the first record on that was stored at a time or later."""
    return max(0, log.end_phy_offset - _offset_of(log, time_ms))


def _offset_of(log: LogFacts, time_ms: int) -> int:
    """Return a CommitLog offset near the first record stored at a time or later; near any, if clocks stepped back."""
    low = None
    for facts in log.files:
        if facts.first is None:
            continue
        if facts.first.first_ms >= time_ms:
            break
        low = facts
    if low is None:
        return log.begins_at
    begin, end = low.file.file_from_offset, min(low.file.end_offset, log.end_phy_offset)
    while end - begin > CLOSE_ENOUGH:
        middle = (begin + end) // 2
        found = first_stored(low.file, log.shape, middle)
        if found is None or found.first_ms >= time_ms:
            end = middle
        else:
            begin = max(found.end_phy_offset, middle)
    return end
