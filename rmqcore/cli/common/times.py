"""Times: parsed from the command line, and written for people."""

from __future__ import annotations

import re
from datetime import datetime

ACCEPTED = "epoch milliseconds, ISO 8601 (2026-11-21T08:00:00+08:00) or yyyy-MM-dd#HH:mm:ss:SSS"

_CLOCK = r"(?P<clock>\d\d:\d\d(?::\d\d(?:[.,](?P<part>\d{1,9})|:(?P<ms>\d{3}))?)?)"
_TIME = re.compile(
    rf"(?P<day>\d{{4}}-\d\d-\d\d)(?:[T #]{_CLOCK}(?P<zone>Z|[+-]\d\d:?\d\d)?)?", re.ASCII
)
MAX_MS = 2**63 - 1


def parse_time(text: str) -> int:
    """Give milliseconds since the epoch of a time in one of the `ACCEPTED` spellings; without a zone it is local time.

    Raises
    ------
    ValueError
        The text is in none of these spellings.
    """
    words = text.strip()
    if re.fullmatch(r"\d+", words, re.ASCII):
        if int(words) > MAX_MS:
            raise ValueError(f"{text!r} has no room in 64 bits; times are {ACCEPTED}")
        return int(words)
    found = _TIME.fullmatch(words)
    try:
        if found is not None:
            return _milliseconds(found)
    except (ValueError, OverflowError, OSError) as error:
        raise ValueError(f"{text!r} is no time ({error}); times are {ACCEPTED}") from error
    raise ValueError(f"{text!r} is no time; times are {ACCEPTED}")


def _milliseconds(found: re.Match[str]) -> int:
    clock = (found["clock"] or "00:00")[:8]
    moment = datetime.fromisoformat(f"{found['day']}T{clock}{found['zone'] or ''}")
    part = (found["part"] or found["ms"] or "0").ljust(6, "0")[:6]
    return round(moment.replace(microsecond=int(part)).timestamp() * 1000)


def format_time(timestamp_ms: int | None, *, zone: bool = True) -> str:
    """Give a time in the local zone, in a spelling that `parse_time` takes; the number when no calendar has the time."""
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
