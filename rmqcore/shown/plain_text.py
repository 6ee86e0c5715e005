"""Stored text as people may see it: the one place that takes out what a screen would obey, or what no screen can show."""

from __future__ import annotations


def printable(text: str) -> str:
    """Write what a terminal would obey as escapes: control characters (C0, C1), line ends, and marks that turn text round."""
    return text if text.isprintable() else "".join(map(_escaped, text))


def printable_lines(text: str) -> str:
    """Do what `printable` does, and keep the ends of lines."""
    return "\n".join(map(printable, text.split("\n")))


def _escaped(char: str) -> str:
    return char if char.isprintable() else char.encode("unicode_escape").decode()
