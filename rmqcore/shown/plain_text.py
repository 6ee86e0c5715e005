"""Stored text for people: the only place that escapes control characters and characters that cannot be shown."""

from __future__ import annotations


def printable(text: str) -> str:
    """Return a text with escapes for control characters (C0, C1), line ends, and marks that reverse text."""
    return text if text.isprintable() else "".join(map(_escaped, text))


def printable_lines(text: str) -> str:
    """Do what `printable` does, and keep the ends of lines."""
    return "\n".join(map(printable, text.split("\n")))


def _escaped(char: str) -> str:
    return char if char.isprintable() else char.encode("unicode_escape").decode()
