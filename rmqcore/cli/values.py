"""Parsers of option values: numbers and choices, with their error messages.

Typer has types for both, but its errors use the words of its parsing library, without the value. So every option that
is not a text has a parser, most of them from here; tests/unit/cli/test_option_values.py checks that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import StrEnum
from typing import Any, TypeVar

import typer

from rmqcore.errors.near_names import did_you_mean

MOST_PORT = 65535

Words = TypeVar("Words", bound=StrEnum)


def wrong_value(given: str, expected: str, option: str | None = None) -> typer.BadParameter:
    """Return the error for a value that an option does not accept.

    Parameters
    ----------
    given : str
    expected : str
        Values that the option accepts: ``a port from 0 to 65535``.
    option : str, optional
        The option's name. Parsers can leave it out, because Typer adds it.
    """
    return typer.BadParameter(f"got {given!r}, expected {expected}", param_hint=option)


def whole_number(least: int, most: int, what: str = "a whole number") -> Callable[[str], int]:
    """Return the parser of an option whose value is a whole number from `least` to `most`."""

    def parse(text: str) -> int:
        try:
            found = int(text)
        except ValueError:
            found = None
        if found is None or not least <= found <= most:
            raise wrong_value(text, f"{what} from {least} to {most}")
        return found

    return parse


def number(fits: Callable[[float], bool], expected: str) -> Callable[[str], float]:
    """Return the parser of an option that accepts the numbers that fit; `expected` describes them."""

    def parse(text: str) -> float:
        try:
            found = float(text)
        except ValueError:
            found = None
        if found is None or not fits(found):
            raise wrong_value(text, expected)
        return found

    return parse


def is_port(text: str) -> bool:
    """Return True if a text is a valid port number of a server."""
    return text.isascii() and text.isdigit() and 0 < int(text[:6]) <= MOST_PORT


def endpoint(text: str, option: str | None = None) -> str:
    """Parse the address of a server: ``host:port``."""
    host, colon, port = text.rpartition(":")
    if not (colon and host and is_port(port)):
        raise wrong_value(text, f"host:port, with a port from 1 to {MOST_PORT}", option)
    return text


def none_of(
    given: str, words: Iterable[str], more: str = "", option: str | None = None
) -> typer.BadParameter:
    """Return the error for a word that an option does not accept; `more` names further accepted values."""
    known = [str(word) for word in words]
    listed = f"one of {', '.join(known)}" if len(known) > 1 else known[0]
    return wrong_value(given, f"{listed}{more}{did_you_mean(given, known, shown=repr)}", option)


def choice(words: type[Words], *names: str, **rest: Any) -> Any:
    """Return an option whose value is one of some words, which it completes; `rest` goes to `typer.Option`."""

    def parse(text: str) -> Words:
        if text not in [*words]:
            raise none_of(text, words)
        return words(text)

    return typer.Option(
        *names,
        metavar="|".join(words),
        parser=parse,
        autocompletion=lambda: [str(word) for word in words],
        **rest,
    )
