"""Times written for people."""

from __future__ import annotations

from datetime import datetime


def format_time(timestamp_ms: int | None, *, zone: bool = True) -> str:
    """Format a time in the local zone, as `vocabulary.times.parse_time` reads it; the number if no calendar has the time."""
    if timestamp_ms is None:
        return "-"
    try:
        moment = datetime.fromtimestamp(timestamp_ms // 1000).astimezone()
        moment = moment.replace(microsecond=timestamp_ms % 1000 * 1000)
        if not zone:
            return moment.replace(tzinfo=None).isoformat(sep=" ", timespec="milliseconds")
        return moment.isoformat(timespec="milliseconds")
    except (ValueError, OverflowError, OSError):
        return str(timestamp_ms)
