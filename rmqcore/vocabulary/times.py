"""Times as people write them, as milliseconds since 1970."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, tzinfo

from rmqcore.errors.near_names import nearest
from rmqcore.vocabulary.units import DAY_MS, EPOCH, HOUR_MS, LONG_MAX, MINUTE_MS, SECOND_MS, WEEK_MS

ACCEPTED = "epoch milliseconds, ISO 8601 (2026-11-21T08:00:00+08:00) or yyyy-MM-dd#HH:mm:ss:SSS"
ACCEPTED_BY_A_CLOCK = f"now, today, yesterday, a time ago (30s 5m 1h 2d 1w 1h30m), a time of today (09:30), {ACCEPTED}"
"""Spellings that `parse_time` accepts if `now` is passed."""

_CLOCK = r"(?P<clock>\d\d:\d\d(?::\d\d(?:[.,](?P<part>\d{1,9})|:(?P<ms>\d{3}))?)?)"
_TIME = re.compile(
    rf"(?P<day>\d{{4}}-\d\d-\d\d)(?:[T #]{_CLOCK}(?P<zone>Z|[+-]\d\d:?\d\d)?)?", re.ASCII
)
_AGO = re.compile(r"((?:\d{1,12}[smhdw])+)(?: ago)?", re.ASCII)
_UNIT_MS = {"s": SECOND_MS, "m": MINUTE_MS, "h": HOUR_MS, "d": DAY_MS, "w": WEEK_MS}
_DAYS_BACK = {"today": 0, "yesterday": 1}


def parse_time(text: str, zone: tzinfo | None = None, *, now: datetime | None = None) -> int:
    """Parse a time in one of the `ACCEPTED` spellings; return milliseconds since 1970, rounded up.

    Store times are whole milliseconds: those at or after a time, and those before it, are the same after rounding up.

    Parameters
    ----------
    text : str
    zone : tzinfo, optional
        Zone of a text without one; None: the zone of this process.
    now : datetime, optional
        The current time. With it the text may also be one of `ACCEPTED_BY_A_CLOCK`; without it these words are refused,
        because code that reads an option twice would get two times.

    Raises
    ------
    ValueError
        The text is in none of these spellings; the message names them.
    """
    words = text.strip()
    accepted = ACCEPTED if now is None else ACCEPTED_BY_A_CLOCK
    if re.fullmatch(r"\d+", words, re.ASCII):
        if int(words) > LONG_MAX:
            raise ValueError(f"{text!r} does not fit in 64 bits; expected {accepted}")
        return int(words)
    try:
        found = None if now is None else _by_the_clock(words, zone, now)
        if found is None:
            found = _by_the_calendar(words, zone)
        if found is not None:
            return found
    except (ValueError, OverflowError, OSError) as error:
        raise ValueError(f"{text!r} is not a time ({error}); expected {accepted}") from error
    near = None if now is None else nearest(words, ["now", *_DAYS_BACK])
    meant = "" if near is None else f" (did you mean {near}?)"
    raise ValueError(f"{text!r} is not a time{meant}; expected {accepted}")


def _by_the_clock(words: str, zone: tzinfo | None, now: datetime) -> int | None:
    """Parse a time that counts from `now`; return None for any other text. A day starts at midnight in `zone`."""
    here = now.astimezone(zone).replace(tzinfo=None)
    if words == "now":
        return milliseconds(now)
    if words in _DAYS_BACK:
        day = here.date() - timedelta(days=_DAYS_BACK[words])
        return _by_the_calendar(day.isoformat(), zone)
    ago = _AGO.fullmatch(words)
    if ago is not None:
        parts = re.findall(r"(\d+)([smhdw])", ago[1])
        back_ms = sum(int(count) * _UNIT_MS[unit] for count, unit in parts)
        return max(0, milliseconds(now) - back_ms)
    if re.fullmatch(_CLOCK, words, re.ASCII):
        return _by_the_calendar(f"{here.date().isoformat()}T{words}", zone)
    return None


def _by_the_calendar(words: str, zone: tzinfo | None) -> int | None:
    """Parse a day, or a day and a time of day; None for any other text."""
    found = _TIME.fullmatch(words)
    if found is None:
        return None
    clock = (found["clock"] or "00:00")[:8]
    if clock.startswith("24"):  # for Python 3.14 it is the next day
        raise ValueError("hour must be in 0..23")
    moment = datetime.fromisoformat(f"{found['day']}T{clock}{found['zone'] or ''}")
    part = (found["part"] or found["ms"] or "").ljust(9, "0")
    whole = milliseconds(moment if moment.tzinfo else moment.replace(tzinfo=zone))
    return whole + -(-int(part) // 1_000_000)


def milliseconds(moment: datetime) -> int:
    """Return milliseconds since 1970, rounded up; a moment without a zone is in that of this process."""
    return -((EPOCH - moment.astimezone(UTC)) // timedelta(milliseconds=1))
