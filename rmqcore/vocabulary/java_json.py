"""JSON as Java's fastjson writes it, read without trust: numbers for keys, a bound on depth, no broken text."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

PIECE = 16 << 10
"""Letters of an array or object that the parser in C reads in one step, in which no other thread runs."""
MOST_LETTERS = 256 << 10
"""Letters of one string of a long text, which the parser in C reads in one step too."""
MOST_SHOWN = 200
"""Letters of a foreign name or value that a message repeats."""

# A string, which stays as it is, or a number: one before a colon is an object's key, which fastjson writes without
# quotes. Strings without an end and numbers without a colon match as well, so that no letter is read twice.
_STRING = r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?'
_KEYS = re.compile(rf"{_STRING}|(-?\d++)(\s*+:)?", re.DOTALL)
# Each begins with a letter of its own: that makes the search between them a fast one. A string without an end has an
# empty group.
_BRACKETS = re.compile(rf'{_STRING[:-2]}("?)|\[|\{{|\]|\}}', re.DOTALL)
_BLANKS: Any = re.compile(r"[ \t\n\r]*+")
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


def quote_keys(text: str) -> str:
    """Put the quotes that JSON wants around the numbers that are keys."""
    return _KEYS.sub(_quoted, text)


def parse_json(data: bytes, max_depth: int, most_values: int | None = None) -> Any:
    """Parse a JSON text; numbers with a fraction or an exponent stay text, as they are written.

    Parameters
    ----------
    data : bytes
        UTF-8 without a mark in front.
    max_depth : int
        Most levels of nested arrays and objects.
    most_values : int, optional
        Most values of the text, counted by its commas and opening brackets.

    Raises
    ------
    ValueError
        The data is not JSON or not UTF-8, is nested too deep, has too many values, or half of a surrogate pair.

    Notes
    -----
    Arrays and objects of more than `PIECE` letters are parsed member by member, so that other threads run in between.
    """
    text = data.decode("utf-8")
    if most_values is not None and sum(map(text.count, ",[{")) > most_values:
        raise ValueError(f"it has more than {most_values:,} values")
    is_long = len(text) > PIECE
    decode = _decode_in_pieces if is_long else _decode
    try:
        value = decode(text, max_depth)
    except json.JSONDecodeError:
        # Valid JSON, nearly every text, skips this step.
        value = decode("".join(_quoted_pieces(text)) if is_long else quote_keys(text), max_depth)
    if _SURROGATE.search(text):
        _check_surrogates(value)
    return value


def integer(digits: str) -> int | str:
    """Return a number; digits beyond the length of a long stay text, without a call of int()."""
    return int(digits) if len(digits) <= 20 else digits


def shown_value(value: object) -> str:
    """A foreign value for a message, in ASCII and not longer than a line or two."""
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "a list"
    text = ascii(value[: MOST_SHOWN + 1] if isinstance(value, str) else value)
    return text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}..."


def _quoted(found: re.Match[str]) -> str:
    return found[0] if found[2] is None else f'"{found[1]}"{found[2]}'


def _decode(text: str, max_depth: int) -> Any:
    """Parse a short text in one step. The parser in C is recursive, so the depth is checked first."""
    if text.count("[") + text.count("{") > max_depth:
        _long_parts(text, max_depth)
    return _DECODER.decode(text)


def _decode_in_pieces(text: str, max_depth: int) -> Any:
    """Parse a long text: its long arrays and objects by the parsers in Python, all other values by the one in C."""
    long_parts = _long_parts(text, max_depth)
    memo: dict[str, str] = {}
    parse_object, parse_array, scan_piece = (
        _DECODER.parse_object,
        _DECODER.parse_array,
        _DECODER.scan_once,
    )

    def scan(whole: str, at: int) -> Any:
        if at not in long_parts:
            return scan_piece(whole, at)
        if whole[at] == "{":
            return parse_object((whole, at + 1), True, scan, None, None, memo)
        return parse_array((whole, at + 1), scan)

    begin = _BLANKS.match(text).end()
    try:
        value, end = scan(text, begin)
    except StopIteration as error:
        raise json.JSONDecodeError("Expecting value", text, error.value) from None
    end = _BLANKS.match(text, end).end()
    if end != len(text):
        raise json.JSONDecodeError("Extra data", text, end)
    return value


def _long_parts(text: str, max_depth: int) -> set[int]:
    """Find where arrays and objects of more than `PIECE` letters begin.

    Raises
    ------
    ValueError
        The text is nested too deep.
    """
    begins: list[int] = []
    long_parts = set()
    for found in _strings_and_brackets(text):
        letter = text[found.start()]
        if letter in "[{":
            begins.append(found.start())
            if len(begins) > max_depth:
                raise ValueError(f"it has more than {max_depth} nested levels")
        elif letter != '"' and begins:
            begin = begins.pop()
            if found.start() - begin > PIECE:
                long_parts.add(begin)
    return long_parts.union(begins)  # and those without an end


def _strings_and_brackets(text: str) -> Iterator[re.Match[str]]:
    """Find all strings and brackets in their order, `MOST_LETTERS` at a time: other threads run in between.

    Raises
    ------
    ValueError
        A string has more letters than that.
    """
    begin = 0
    while begin < len(text):
        end = min(begin + MOST_LETTERS, len(text))
        for found in _BRACKETS.finditer(text, begin, end):
            if found[1] == "" and end < len(text):  # perhaps it ends behind this piece
                if found.start() == begin:
                    raise ValueError(f"a string has more than {MOST_LETTERS:,} characters")
                end = found.start()
                break
            yield found
        begin = end


def _quoted_pieces(text: str) -> Iterator[str]:
    """Quote the keys of a long text piece by piece; each but the last ends with a string or a bracket."""
    begin = 0
    for found in _strings_and_brackets(text):
        _check_bare(found.start() - begin)
        if found.end() - begin > PIECE:
            yield quote_keys(text[begin : found.end()])
            begin = found.end()
    _check_bare(len(text) - begin)
    yield quote_keys(text[begin:])


def _check_bare(letters: int) -> None:
    """Refuse a text in which the search for numbers would be one long step."""
    if letters > MOST_LETTERS:
        raise ValueError(
            f"more than {MOST_LETTERS:,} characters are neither a string nor a bracket"
        )


def _check_surrogates(value: Any) -> None:
    """Raise UnicodeEncodeError, which is a ValueError, where a text has half of a surrogate pair."""
    if isinstance(value, str):
        value.encode("utf-8")
    elif isinstance(value, list):
        for one in value:
            _check_surrogates(one)
    elif isinstance(value, dict):
        for key, one in value.items():
            key.encode("utf-8")
            _check_surrogates(one)


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


# Made once: json.loads would make a decoder for each text.
_DECODER: Any = json.JSONDecoder(parse_int=integer, parse_float=str, parse_constant=_refuse)
