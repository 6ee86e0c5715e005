"""The words of a filter expression, read one after the other as the parser asks for them.

Source: RocketMQ 5.5.0 SelectorParser.jj.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

from rmqcore.errors import FilterExpressionError


class Kind(Enum):
    """Kind of a token."""

    STRING = "string"
    FLOAT = "float"
    DECIMAL = "decimal"
    NAME = "name"
    WORD = "word"
    SIGN = "sign"
    END = "end"


@dataclass(frozen=True, slots=True)
class Token:
    """A word: its kind, its text (a reserved word in capitals) and where it begins."""

    kind: Kind
    text: str
    pos: int

    def is_sign(self, *texts: str) -> bool:
        """Return True if the token is one of these reserved words or signs."""
        return self.kind in (Kind.WORD, Kind.SIGN) and self.text in texts


RESERVED = frozenset(
    "NOT AND OR BETWEEN IN TRUE FALSE NULL IS CONTAINS STARTSWITH ENDSWITH".split()
)
# One piece of the text between words; it matches in one way only. A line comment without a line's end is two minus
# signs, as in Java. One possessive repetition would match all pieces, but Python 3.11.2 matches it wrongly.
_SKIPPED = re.compile(r"[ \t\n\r\f]+|--[^\n\r]*(?:\r\n|\n|\r)|/\*[^*]*\*+(?:[^*/][^*]*\*+)*/")
_TOKEN = re.compile(
    r"(?P<string>'(?:''|[^'])*')"
    r"|(?P<float>[0-9]+\.[0-9]*(?:[eE][+-]?[0-9]+)?|\.[0-9]+(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+)"
    r"|(?P<decimal>0|[1-9][0-9]*[lL]?)"
    r"|(?P<name>[a-zA-Z_$][a-zA-Z0-9_$]*)"
    r"|(?P<sign><>|>=|<=|[=<>(),+-])"
)


class Lexer:
    """Splits a text into words, on demand: what follows an expression may be anything."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._pos = 0
        self._ahead: list[Token] = []

    def peek(self, number: int = 0) -> Token:
        """Return the next word, or one behind it, without consuming it.

        Raises
        ------
        FilterExpressionError
            A character begins no word, or a string or comment has no end.
        """
        while len(self._ahead) <= number:
            self._ahead.append(self._read())
        return self._ahead[number]

    def take(self) -> Token:
        """Return the next word, and consume it."""
        token = self.peek()
        del self._ahead[0]
        return token

    def _read(self) -> Token:
        start = self._pos
        while (skipped := _SKIPPED.match(self._text, start)) is not None:
            start = skipped.end()
        if start == len(self._text):
            self._pos = start
            return Token(Kind.END, "", start)
        found = _TOKEN.match(self._text, start)
        if found is None or found.lastgroup is None:
            raise FilterExpressionError(self._text, start, "a word", self._text[start])
        self._pos = found.end()
        kind, word = Kind(found.lastgroup), found[0]
        if kind is Kind.NAME and word.upper() in RESERVED:
            return Token(Kind.WORD, word.upper(), start)
        return Token(kind, word, start)
