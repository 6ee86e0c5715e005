"""Times as people write them, and as we show them."""

from __future__ import annotations

import re
from datetime import datetime

ACCEPTED = "epoch milliseconds, ISO 8601 (2026-11-21T08:00:00+08:00) or yyyy-MM-dd#HH:mm:ss:SSS"

_MQADMIN = re.compile(r"(\d{4}-\d\d-\d\d)#(\d\d:\d\d:\d\d):(\d{3})")
MAX_MS = 2**63 - 1


def parse_time(text: str) -> int:
    """Milliseconds since the epoch of a time in one of the `ACCEPTED` spellings; without a zone it is local time.

    Raises
    ------
    ValueError
        None of them.
    """
    words = text.strip()
    if re.fullmatch(r"\d+", words, re.ASCII):
        if int(words) > MAX_MS:
            raise ValueError(f"{text!r} has no room in 64 bits; times are {ACCEPTED}")
        return int(words)
    mqadmin = _MQADMIN.fullmatch(words)
    if mqadmin:
        words = f"{mqadmin[1]}T{mqadmin[2]}.{mqadmin[3]}"
    try:
        moment = datetime.fromisoformat(words)
        return round(moment.timestamp() * 1000)
    except (ValueError, OverflowError, OSError) as error:
        raise ValueError(f"{text!r} is no time; times are {ACCEPTED}") from error


def format_time(timestamp_ms: int | None) -> str:
    """A time in the local zone, in a spelling that `parse_time` takes; the number itself when no calendar has it."""
    if timestamp_ms is None:
        return "-"
    try:
        moment = datetime.fromtimestamp(timestamp_ms / 1000).astimezone()
        return moment.isoformat(timespec="milliseconds")
    except (ValueError, OverflowError, OSError):
        return str(timestamp_ms)
