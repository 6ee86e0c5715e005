"""Java's values, and how two of them compare.

A property is text. A constant of an expression is text, a boolean, an Integer, a Long or a Double. The type of a number
matters in a comparison with text: the text has to be a number of the same type.

Source: RocketMQ 5.5.0 ComparisonExpression#__compare, java.lang Integer#valueOf, Double#valueOf, Double#compareTo.
"""

from __future__ import annotations

import math
import re


class Long(int):
    """A Java Long; a plain int is an Integer."""

    __slots__ = ()


Value = str | bool | int | float | None

_JAVA_SPACE = "".join(map(chr, range(33)))  # the characters that String#trim removes
_DECIMAL = re.compile(r"([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)[fFdD]?")
_HEX = re.compile(
    r"([+-]?0[xX](?:[0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP][+-]?[0-9]+)[fFdD]?"
)
_SPECIAL = {"NaN": math.nan, "Infinity": math.inf}


def compare(left: Value, right: Value) -> int:
    """Return whether `left` is below, equal to or above `right`; values that cannot be compared are below.

    Raises
    ------
    ValueError
        One is a text that is not a number of the other's type, or `left` is a boolean and `right` a text.
    """
    if type(left) is not type(right):
        if isinstance(left, str):
            left = _parse(left, type(right))
        elif isinstance(right, str) and isinstance(left, bool):
            raise ValueError(
                "a boolean before a text"
            )  # Java intends to parse the text, but parses the boolean as text
        elif isinstance(right, str):
            right = _parse(right, type(left))
        elif isinstance(left, bool) or isinstance(right, bool):
            return -1
    if isinstance(left, str) and isinstance(right, str):
        return (left > right) - (left < right)
    assert isinstance(left, int | float), "null cannot be compared"
    assert isinstance(right, int | float), "texts were compared above"
    if isinstance(left, float) or isinstance(right, float):
        return _compare_doubles(float(left), float(right))
    return (left > right) - (left < right)


def parse_double(text: str) -> float:
    """Read a Double as Java does: with blanks around it, a suffix, or in hexadecimal.

    Raises
    ------
    ValueError
        The text is not a Double.
    """
    text = text.strip(_JAVA_SPACE)
    sign = -1.0 if text.startswith("-") else 1.0
    if (special := _SPECIAL.get(text[1:] if text[:1] in ("+", "-") else text)) is not None:
        return sign * special
    if found := _DECIMAL.fullmatch(text):
        return float(found[1])
    if found := _HEX.fullmatch(text):
        try:
            return float.fromhex(found[1])
        except OverflowError:
            return sign * math.inf
    raise ValueError(f"{text[:100]!a} is not a number")


def parse_whole(text: str, bits: int) -> int:
    """Read an Integer or a Long as Java does: an optional sign, and digits of any script.

    Raises
    ------
    ValueError
        The text is not a whole number, or does not fit `bits` bits.
    """
    digits = text[1:] if text[:1] in ("+", "-") else text
    if not digits.isdecimal() or max(digits) > "\uffff":
        raise ValueError(f"{text[:100]!a} is not a whole number")
    # Digit by digit: int() refuses very long texts, even if they are only zeros.
    digits = "".join(str(int(digit)) for digit in digits).lstrip("0") or "0"
    number = int(digits[:40]) * (-1 if text.startswith("-") else 1)
    if not -(1 << bits - 1) <= number < 1 << bits - 1:
        raise ValueError(f"{text[:100]!a} does not fit {bits} bits")
    return number


def _parse(text: str, wanted: type) -> Value:
    if wanted is bool:
        return text.lower() == "true"
    if wanted is float:
        return parse_double(text)
    return Long(parse_whole(text, 64)) if wanted is Long else parse_whole(text, 32)


def _compare_doubles(left: float, right: float) -> int:
    """Compare as Double#compareTo: NaN is above all and equal to itself, -0.0 below 0.0."""
    if math.isnan(left) or math.isnan(right):
        return math.isnan(left) - math.isnan(right)
    if left == right == 0:
        return int(math.copysign(1, left) - math.copysign(1, right))
    return (left > right) - (left < right)
