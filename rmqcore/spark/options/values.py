"""Parsers of the texts of options. A parser raises ValueError that says what it expects; the caller adds the option's name."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from datetime import UTC
from typing import Any, Literal, cast

from rmqcore.vocabulary.times import parse_time
from rmqcore.vocabulary.units import INT_MAX, LONG_MAX, LONG_MIN

_UNITS = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_SIZE = re.compile(r"(\d+)\s*([bkmgt]?)(?:i?b)?", re.IGNORECASE)
TIMES = (
    "milliseconds since 1970, or a time such as 2026-11-24, 2026-11-24T08:00, 2026-11-24T08:00:00.123Z or "
    "2026-11-24T08:00+08:00 (UTC without an offset)"
)
"""The accepted forms of a time, for messages."""
EARLIEST, LATEST = -2, -1
"""Queue offsets as in Spark's Kafka source: the beginning and the end of a queue."""

QueueOffsets = dict[str, dict[str, dict[int, int]]]
"""Topic -> broker -> queue id -> queue offset."""


def parse_text(text: str) -> str:
    """Return the text as it is, if it is not empty."""
    if not text:
        raise ValueError("a non-empty text")
    return text


def parse_bool(text: str) -> bool:
    """Parse ``true`` or ``false``."""
    known = {"true": True, "false": False}
    if text.strip().lower() not in known:
        raise ValueError("true or false")
    return known[text.strip().lower()]


def int_in(low: int | None = None, high: int | None = None) -> Callable[[str], int]:
    """Make a parser of whole numbers in [low, high]."""
    bounds = "" if low is None else f", {low} or more" if high is None else f" in {low}..{high}"

    def parse(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            raise ValueError(f"a whole number{bounds}") from None
        if (low is not None and value < low) or (high is not None and value > high):
            raise ValueError(f"a whole number{bounds}")
        return value

    return parse


def parse_time_ms(text: str) -> int:
    """Parse milliseconds since 1970, within the 64 bits of a record, or a time, which is UTC if the text names no zone.

    Spark does not pass the session's zone to a Python source, and the zone of the process that plans a read is
    arbitrary.
    """
    try:
        return int_in(LONG_MIN, LONG_MAX)(text)
    except ValueError:
        pass  # it may be a time
    try:
        return parse_time(text, UTC)
    except ValueError:
        raise ValueError(TIMES) from None


def parse_clock_step(text: str) -> int | None:
    """Parse milliseconds, or ``off`` into None."""
    if text.strip().lower() == "off":
        return None
    try:
        return int_in(0)(text)
    except ValueError:
        raise ValueError("milliseconds, 0 or more, or off") from None


def size_in(low: int, high: int) -> Callable[[str], int]:
    """Make a parser of bytes, as a number or with a unit: ``128m``, ``4 MiB``, ``65536``; units are powers of 1024."""

    def parse(text: str) -> int:
        found = _SIZE.fullmatch(text.strip())
        value = int(found[1]) * _UNITS[found[2].lower()] if found else -1
        if not low <= value <= high:
            raise ValueError(f"a number of bytes in {low}..{high}, such as 65536, 64k, 128m or 1g")
        return value

    return parse


def word_of(*names: str) -> Callable[[str], str]:
    """Make a parser that accepts one of these words, in any case."""
    by_lower = {name.lower(): name for name in names}

    def parse(text: str) -> str:
        if text.strip().lower() not in by_lower:
            raise ValueError(f"one of {', '.join(names)}")
        return by_lower[text.strip().lower()]

    return parse


def parse_list(text: str) -> tuple[str, ...]:
    """Parse texts between commas, or a JSON list (for texts with commas)."""
    if text.lstrip().startswith("["):
        try:
            listed = json.loads(text)
        except ValueError:
            listed = None
        if isinstance(listed, list) and all(isinstance(item, str) for item in listed):
            return tuple(listed)
        raise ValueError("texts separated by commas, or a JSON list of texts")
    return tuple(part.strip() for part in text.split(",") if part.strip())


def parse_texts(text: str) -> tuple[str, ...]:
    """Parse as `parse_list`, but refuse an empty text, which may be an unset variable: ``[]`` means no text."""
    found = parse_list(text)
    if not found and "[" not in text:
        raise ValueError("texts separated by commas, or a JSON list of texts, [] for none")
    return found


def parse_queue_ids(text: str) -> tuple[int, ...]:
    """Parse queue ids between commas, or a JSON list."""
    try:
        is_json = text.lstrip().startswith("[")
        numbers = json.loads(text) if is_json else [int(part) for part in text.split(",")]
    except ValueError:
        numbers = [-1]
    if not all(map(_is_queue_id, numbers)):
        raise ValueError("queue ids separated by commas, such as 0,1,7")
    return tuple(numbers)


def _is_queue_id(value: Any) -> bool:
    return type(value) is int and 0 <= value <= INT_MAX


def parse_pattern(text: str) -> str:
    """Parse a regular expression of Python."""
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(f"a regular expression ({error})") from None
    return parse_text(text)


def parse_phy_offset(text: str) -> int | dict[str, int]:
    """Parse a CommitLog offset for every store, or JSON ``{broker: phy_offset}``."""
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if _is_offset(value):
        return int(value)
    if isinstance(value, dict) and all(_is_offset(phy_offset) for phy_offset in value.values()):
        return value
    raise ValueError('a CommitLog offset, or JSON such as {"broker-a": 4096}')


def _is_offset(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= LONG_MAX


def parse_queue_offsets(text: str) -> QueueOffsets | Literal["earliest", "latest"]:
    """Parse ``earliest``, ``latest``, or JSON ``{topic: {broker: {queue id: queue offset}}}``."""
    word = text.strip().lower()
    if word in ("earliest", "latest"):
        return cast('Literal["earliest", "latest"]', word)
    try:
        return queue_offsets_of(json.loads(text))
    except (AttributeError, TypeError, ValueError):
        raise ValueError(
            'earliest, latest, or JSON such as {"TopicA": {"broker-a": {"0": 42}}} of queue offsets, -2: earliest, -1: latest'
        ) from None


def queue_offsets_of(given: Mapping[str, Any]) -> QueueOffsets:
    """Convert decoded JSON, whose queue ids are texts; other JSON raises ValueError, AttributeError or TypeError."""
    found: QueueOffsets = {}
    for topic, brokers in given.items():
        for broker, queues in brokers.items():
            for queue_id, queue_offset in queues.items():
                number = int(queue_id)
                known = type(queue_offset) is int and EARLIEST <= queue_offset <= LONG_MAX
                if not (known and _is_queue_id(number)):
                    raise ValueError
                found.setdefault(topic, {}).setdefault(broker, {})[number] = queue_offset
    return found
