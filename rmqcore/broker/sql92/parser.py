"""The parser that turns the text of a filter into an expression.

Precedence from weak to strong: OR; AND; ``=``, ``<>`` and IS [NOT] NULL; ``>``, ``>=``, ``<``, ``<=``, [NOT] BETWEEN, [NOT] IN,
[NOT] CONTAINS, [NOT] STARTSWITH and [NOT] ENDSWITH; signs and NOT. So ``NOT a = 1`` asks whether NOT a is 1. LIKE and
arithmetic are missing, as in Java. Also as in Java, only the first word behind a whole expression is checked.

Source: RocketMQ 5.5.0 SelectorParser.jj, and the checks in ComparisonExpression and ConstantExpression.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NoReturn

from rmqcore.broker.sql92.expressions import (
    BooleanCast,
    Constant,
    Equal,
    Expression,
    In,
    Logic,
    Negate,
    Not,
    Order,
    Property,
    TextTest,
    is_condition,
)
from rmqcore.broker.sql92.lexer import Kind, Lexer, Token
from rmqcore.broker.sql92.values import Long, compare
from rmqcore.errors import FilterExpressionError
from rmqcore.vocabulary.units import INT_MAX, LONG_MAX

MAX_NESTED = 60
"""Brackets, signs and NOTs in each other."""
MAX_DEPTH = 200
"""Parts in each other; conditions beside each other, with AND or OR between them, count once."""
_SMALLEST_DOUBLE = 5e-324
_ORDERS: dict[str, Callable[[int], bool]] = {
    ">": lambda answer: answer > 0,
    ">=": lambda answer: answer >= 0,
    "<": lambda answer: answer < 0,
    "<=": lambda answer: answer <= 0,
}
_TEXT_TESTS: dict[str, Callable[[str, str], bool]] = {
    "CONTAINS": operator.contains,
    "STARTSWITH": str.startswith,
    "ENDSWITH": str.endswith,
}
_CONSTANTS = {"TRUE": Constant(True), "FALSE": Constant(False), "NULL": Constant(None)}


class Parser:
    """Reads one text."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._words = Lexer(text)
        self._nested = 0

    def parse(self) -> Expression:
        """Parse the expression, which is a condition.

        Raises
        ------
        FilterExpressionError
            The text is not an expression that Java accepts, or is nested too deeply.
        """
        start = self._words.peek()
        return self._condition(self._or(), start)

    # ---- the grammar, from weak to strong ---------------------------------------------------------

    def _or(self) -> Expression:
        return self._logic("OR", self._and, decisive=True)

    def _and(self) -> Expression:
        return self._logic("AND", self._equality, decisive=False)

    def _logic(self, word: str, operand: Callable[[], Expression], *, decisive: bool) -> Expression:
        start = self._words.peek()
        first = operand()
        if not self._words.peek().is_sign(word):
            return first
        parts = [self._condition(first, start)]
        while self._words.peek().is_sign(word):
            self._words.take()
            start = self._words.peek()
            parts.append(self._condition(operand(), start))
        return Logic(tuple(parts), decisive, self._depth_over(start, *parts))

    def _equality(self) -> Expression:
        left = self._comparison()
        while (sign := self._words.peek()).is_sign("=", "<>", "IS"):
            self._words.take()
            is_null = sign.text == "IS"
            left = (
                self._is_null(left, sign)
                if is_null
                else self._equal(left, self._comparison(), sign)
            )
        return left

    def _is_null(self, left: Expression, sign: Token) -> Expression:
        negated = self._words.peek().is_sign("NOT")
        if negated:
            self._words.take()
        self._expect("NULL")
        made = Equal(left, Constant(None), self._depth_over(sign, left))
        return Not(made, self._depth_over(sign, made)) if negated else made

    def _equal(self, left: Expression, right: Expression, sign: Token) -> Expression:
        for part in (left, right):
            if isinstance(part, Constant) and part.value is None:
                self._refuse(sign, "a value on both sides", "NULL")
        constants = isinstance(left, Constant) and isinstance(right, Constant)
        if constants and is_condition(left) and not is_condition(right):
            self._refuse(sign, "two booleans", "one boolean and another constant")
        made = Equal(left, right, self._depth_over(sign, left, right))
        return made if sign.text == "=" else Not(made, self._depth_over(sign, made))

    def _comparison(self) -> Expression:
        left = self._unary()
        while True:
            sign = self._words.peek()
            if negated := sign.is_sign("NOT"):
                # Java reads one word further, and refuses a NOT before any other word.
                self._words.peek(1)
                self._words.take()
            word = self._words.peek()
            if word.is_sign(*_TEXT_TESTS):
                left = self._text_test(left, negated=negated)
            elif word.is_sign("BETWEEN"):
                left = self._between(left, negated=negated)
            elif word.is_sign("IN"):
                left = self._in(left, negated=negated)
            elif negated:
                self._refuse(word, "BETWEEN, IN, CONTAINS, STARTSWITH or ENDSWITH", word.text)
            elif word.is_sign(*_ORDERS):
                self._words.take()
                left = self._order(left, word.text, self._unary(), word)
            else:
                return left

    def _text_test(self, left: Expression, *, negated: bool) -> Expression:
        word = self._words.take()
        search = self._string()
        depth = self._depth_over(word, left)
        return TextTest(left, search, _TEXT_TESTS[word.text], negated, depth)

    def _between(self, value: Expression, *, negated: bool) -> Expression:
        word = self._words.take()
        low = self._unary()
        self._expect("AND")
        high = self._unary()
        if negated:
            below = self._order(value, "<", low, word)
            above = self._order(value, ">", high, word)
            return Logic((below, above), True, self._depth_over(word, below, above))
        if isinstance(low, Constant) and isinstance(high, Constant):
            self._check_range(low, high, word)
        not_below = self._order(value, ">=", low, word)
        not_above = self._order(value, "<=", high, word)
        return Logic((not_below, not_above), False, self._depth_over(word, not_below, not_above))

    def _check_range(self, low: Constant, high: Constant, word: Token) -> None:
        numbers = [isinstance(one.value, int | float) for one in (low, high)]
        if all(numbers) and compare(high.value, low.value) < 0:
            self._refuse(
                word, "the lower bound before the upper bound", f"{low.value} AND {high.value}"
            )

    def _order(self, left: Expression, sign: str, right: Expression, at: Token) -> Expression:
        for part in (left, right):
            is_text = isinstance(part, Constant) and isinstance(part.value, str)
            if is_text or is_condition(part):
                self._refuse(at, "a number or property", "a text or a condition")
        return Order(left, right, _ORDERS[sign], self._depth_over(at, left, right))

    def _in(self, left: Expression, *, negated: bool) -> Expression:
        word = self._words.take()
        self._expect("(")
        texts = [self._string()]
        while self._words.peek().is_sign(","):
            self._words.take()
            texts.append(self._string())
        self._expect(")")
        if not isinstance(left, Property):
            self._refuse(word, "a property on its left", "something else")
        return In(left, frozenset(texts), negated)

    def _unary(self) -> Expression:
        word = self._words.take()
        if not word.is_sign("+", "-", "NOT", "("):
            return self._primary(word)
        with self._deeper(word):
            if word.text == "(":
                inside = self._or()
                self._expect(")")
                return inside
            start = self._words.peek()
            operand = self._unary()
        if word.text == "-":
            return Negate(operand, self._depth_over(word, operand))
        if word.text == "NOT":
            operand = self._condition(operand, start)
            return Not(operand, self._depth_over(word, operand))
        return operand

    def _primary(self, word: Token) -> Expression:
        match word.kind:
            case Kind.STRING:
                return Constant(_unquoted(word))
            case Kind.DECIMAL:
                return Constant(self._decimal(word))
            case Kind.FLOAT:
                return Constant(self._double(word))
            case Kind.NAME:
                return Property(sys.intern(word.text))
        if word.text in _CONSTANTS:
            return _CONSTANTS[word.text]
        return self._refuse(word, "a value", word.text or "the end")

    # ---- single words -----------------------------------------------------------------------------

    def _decimal(self, word: Token) -> int:
        digits = word.text.rstrip("lL")
        if len(digits) > 19 or int(digits) > LONG_MAX:
            self._refuse(word, "a number of at most 64 bits", digits[:40])
        number = int(digits)
        return number if number <= INT_MAX else Long(number)

    def _double(self, word: Token) -> float:
        number = float(word.text)
        if not _SMALLEST_DOUBLE <= number < float("inf"):
            self._refuse(word, "a double above zero", word.text[:40])
        return number

    def _string(self) -> str:
        word = self._words.take()
        if word.kind is not Kind.STRING:
            self._refuse(word, "a text in quotes", word.text or "the end")
        return _unquoted(word)

    def _expect(self, text: str) -> None:
        word = self._words.take()
        if not word.is_sign(text):
            self._refuse(word, text, word.text or "the end")

    # ---- checks -----------------------------------------------------------------------------------

    def _condition(self, part: Expression, at: Token) -> Expression:
        if isinstance(part, Property):
            return BooleanCast(part)
        if not is_condition(part):
            self._refuse(at, "a condition", "a value")
        return part

    def _depth_over(self, at: Token, *parts: Expression) -> int:
        depth = 1 + max(part.depth for part in parts)
        if depth > MAX_DEPTH:
            self._refuse(at, f"at most {MAX_DEPTH} nested parts", "more")
        return depth

    @contextmanager
    def _deeper(self, at: Token) -> Iterator[None]:
        self._nested += 1
        if self._nested > MAX_NESTED:
            self._refuse(at, f"at most {MAX_NESTED} nested brackets, signs and NOTs", "more")
        yield
        self._nested -= 1

    def _refuse(self, at: Token, expected: str, found: str) -> NoReturn:
        raise FilterExpressionError(self._text, at.pos, expected, found)


def _unquoted(word: Token) -> str:
    return word.text[1:-1].replace("''", "'")
