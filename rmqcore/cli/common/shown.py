"""What a terminal shows is text: the one place that takes from stored names, keys and bodies what a terminal would obey."""

from __future__ import annotations

from typing import Any, BinaryIO

from rich.console import Console
from rich.text import Text


def printable(text: str) -> str:
    """Write what a terminal would obey as escapes: control characters (C0, C1), line ends, and marks that turn text round."""
    return text if text.isprintable() else "".join(map(_escaped, text))


def printable_lines(text: str) -> str:
    """Do what `printable` does, and keep the ends of lines."""
    return "\n".join(map(printable, text.split("\n")))


def _escaped(char: str) -> str:
    return char if char.isprintable() else char.encode("unicode_escape").decode()


class ScreenText:
    """A terminal that gets JSON or CSV: what it would obey becomes an escape of JSON, so that an object keeps its value.

    Parameters
    ----------
    screen : BinaryIO
        Each write to it is whole characters of UTF-8.
    """

    def __init__(self, screen: BinaryIO) -> None:
        self._screen = screen

    def write(self, data: Any) -> int:
        """Write text as UTF-8; answer the number of bytes taken."""
        text = bytes(data).decode("utf-8", "replace")
        plain = "\n".join(
            line if line.isprintable() else "".join(map(_json_escaped, line))
            for line in text.split("\n")
        )
        self._screen.write(plain.encode())
        return len(data)

    def flush(self) -> None:
        """Flush the terminal."""
        self._screen.flush()


def _json_escaped(char: str) -> str:
    if char.isprintable() or char == "\t":
        return char
    units = char.encode("utf-16-be")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))


class ReportConsole(Console):
    """A console for tables of stored names: they are text, no markup and no emoji codes, and no character is obeyed.

    A style is given as a style, or as a `rich.text.Text`.
    """

    def __init__(self, *, width: int | None = None, stderr: bool = False) -> None:
        super().__init__(highlight=False, markup=False, emoji=False, width=width, stderr=stderr)

    def render_str(self, text: str, **options: Any) -> Text:
        """Make text of a string, for a cell, a title or a line."""
        return super().render_str(printable_lines(text), **options)
