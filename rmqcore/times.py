"""Times as people write them, as milliseconds since 1970."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, tzinfo

ACCEPTED = "epoch milliseconds, ISO 8601 (2026-11-21T08:00:00+08:00) or yyyy-MM-dd#HH:mm:ss:SSS"
MAX_MS = 2**63 - 1

_CLOCK = r"(?P<clock>\d\d:\d\d(?::\d\d(?:[.,](?P<part>\d{1,9})|:(?P<ms>\d{3}))?)?)"
_TIME = re.compile(
    rf"(?P<day>\d{{4}}-\d\d-\d\d)(?:[T #]{_CLOCK}(?P<zone>Z|[+-]\d\d:?\d\d)?)?", re.ASCII
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def parse_time(text: str, zone: tzinfo | None = None) -> int:
    """Give milliseconds since 1970 of a time in one of the `ACCEPTED` spellings, a part of a millisecond rounded up.

    Store times are whole milliseconds: those at or after a time, and those before it, are the same after rounding up.

    Parameters
    ----------
    text : str
    zone : tzinfo, optional
        Where the text names no zone; None is the zone of this process.

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
            return _milliseconds(found, zone)
    except (ValueError, OverflowError, OSError) as error:
        raise ValueError(f"{text!r} is no time ({error}); times are {ACCEPTED}") from error
    raise ValueError(f"{text!r} is no time; times are {ACCEPTED}")


def milliseconds(moment: datetime) -> int:
    """Give milliseconds since 1970, rounded up; a moment without a zone is in that of this process."""
    return -((_EPOCH - moment.astimezone(UTC)) // timedelta(milliseconds=1))


def _milliseconds(found: re.Match[str], zone: tzinfo | None) -> int:
    clock = (found["clock"] or "00:00")[:8]
    moment = datetime.fromisoformat(f"{found['day']}T{clock}{found['zone'] or ''}")
    part = (found["part"] or found["ms"] or "").ljust(9, "0")
    whole = milliseconds(moment if moment.tzinfo else moment.replace(tzinfo=zone))
    return whole + -(-int(part) // 1_000_000)
