"""JSON as Java's fastjson writes it, read without trust: numbers for keys, a bound on depth, no broken text."""

from __future__ import annotations

import json
import re
from typing import Any

MOST_SHOWN = 200
"""Letters of a foreign name or value that a message repeats."""

# A string, which stays as it is, or a number: one before a colon is an object's key, which fastjson writes without quotes.
# Strings without an end and numbers without a colon match as well, so that nothing is looked at twice.
_KEYS = re.compile(r'"(?:[^"\\]|\\.)*+"?|(-?\d++)(\s*+:)?', re.DOTALL)
_BRACKETS = re.compile(r'"(?:[^"\\]|\\.)*+"?|([\[{])|([\]}])', re.DOTALL)
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


def quote_keys(text: str) -> str:
    """Put the quotes that JSON wants around the numbers that are keys."""
    return _KEYS.sub(_quoted, text)


def parse_json(data: bytes, max_depth: int) -> Any:
    """Give the value of a JSON text; numbers with a fraction or an exponent stay text, as they are written.

    Parameters
    ----------
    data : bytes
        UTF-8 without a mark in front.
    max_depth : int
        How many arrays and objects may lie in each other.

    Raises
    ------
    ValueError
        It is no JSON, no UTF-8, lies too deep, or has half of a surrogate pair in a text.
    """
    text = data.decode("utf-8")
    _check_depth(text, max_depth)
    try:
        value = _DECODER.decode(text)
    except ValueError:
        # What is JSON already, nearly everything, is not looked at for this.
        value = _DECODER.decode(quote_keys(text))
    if _SURROGATE.search(text):
        json.dumps(value, ensure_ascii=False).encode("utf-8")  # UnicodeEncodeError is a ValueError
    return value


def integer(digits: str) -> int | str:
    """A number; one with more digits than a long has stays text, and int() is not asked for it."""
    return int(digits) if len(digits) <= 20 else digits


def shown_value(value: object) -> str:
    """A foreign value for a message, in ASCII and not longer than a line or two."""
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "a list"
    text = ascii(value[: MOST_SHOWN + 1] if isinstance(value, str) else value)
    return text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}..."


def _quoted(found: re.Match[str]) -> str:
    return found[0] if found[2] is None else f'"{found[1]}"{found[2]}'


def _check_depth(text: str, max_depth: int) -> None:
    """Refuse a text before the parser, which calls itself for each level, sees it."""
    if text.count("[") + text.count("{") <= max_depth:
        return
    depth = 0
    for found in _BRACKETS.finditer(text):
        depth += (found[1] is not None) - (found[2] is not None)
        if depth > max_depth:
            raise ValueError(f"it lies more than {max_depth} levels deep")


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


# Made once: json.loads would make one for each text.
_DECODER = json.JSONDecoder(parse_int=integer, parse_float=str, parse_constant=_refuse)
