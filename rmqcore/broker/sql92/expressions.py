"""The parts of a filter expression; each part evaluates a message's properties.

Null is the third truth value. Values that cannot be compared raise `ValueError`, as Java throws: the broker does not
deliver the message.

Source: RocketMQ 5.5.0 org.apache.rocketmq.filter.expression.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from rmqcore.broker.sql92.values import Long, Value, compare, parse_double

Properties = Mapping[str, str]


class Expression(Protocol):
    """A part of an expression."""

    @property
    def depth(self) -> int:
        """Return how deep the parts are nested."""
        ...

    def evaluate(self, properties: Properties) -> Value:
        """Return the value of this part for the properties of a message."""
        ...


@dataclass(frozen=True, slots=True)
class Constant:
    """A constant of the expression; TRUE, FALSE and NULL are conditions too."""

    value: Value

    depth = 1

    def evaluate(self, properties: Properties) -> Value:  # noqa: ARG002  (the same for every message)
        """Return the value."""
        return self.value


@dataclass(frozen=True, slots=True)
class Property:
    """A property by its name; null if the message lacks it."""

    name: str

    depth = 1

    def evaluate(self, properties: Properties) -> Value:
        """Return the property's text."""
        return properties.get(self.name)


@dataclass(frozen=True, slots=True)
class Negate:
    """A minus sign; null before anything but a number."""

    operand: Expression
    depth: int

    def evaluate(self, properties: Properties) -> Value:
        """Return the number with its sign changed."""
        value = self.operand.evaluate(properties)
        if isinstance(value, bool) or not isinstance(value, int | float):
            return None
        return Long(-value) if isinstance(value, Long) else -value


@dataclass(frozen=True, slots=True)
class Not:
    """The opposite of a condition."""

    operand: Expression
    depth: int

    def evaluate(self, properties: Properties) -> Value:
        """Return true for false and false for true."""
        value = self.operand.evaluate(properties)
        return None if value is None else value is False


@dataclass(frozen=True, slots=True)
class BooleanCast:
    """A property in the place of a condition: false, because text is not a boolean, or null."""

    operand: Property
    depth: int = 2

    def evaluate(self, properties: Properties) -> Value:
        """Return false, or null if the message lacks the property."""
        return None if self.operand.evaluate(properties) is None else False


@dataclass(frozen=True, slots=True)
class Logic:
    """Conditions with OR, or with AND, between them.

    `decisive` is the value of one condition that decides for all, so that later ones are not evaluated: true for OR,
    false for AND.
    """

    operands: Sequence[Expression]
    decisive: bool
    depth: int

    def evaluate(self, properties: Properties) -> Value:
        """Return the decisive value if one side has it, else null if one side is null, else the other value."""
        found: Value = not self.decisive
        for operand in self.operands:
            value = operand.evaluate(properties)
            if value is self.decisive:
                return self.decisive
            if value is None:
                found = None
        return found


@dataclass(frozen=True, slots=True)
class Equal:
    """An equals sign, and IS NULL."""

    left: Expression
    right: Expression
    depth: int

    def evaluate(self, properties: Properties) -> Value:
        """Return whether both are equal; null if the left alone is null."""
        left, right = self.left.evaluate(properties), self.right.evaluate(properties)
        if left is None:
            return True if right is None else None
        return False if right is None else compare(left, right) == 0


@dataclass(frozen=True, slots=True)
class Order:
    """A comparison by order; texts are compared as numbers."""

    left: Expression
    right: Expression
    holds: Callable[[int], bool]
    depth: int

    def evaluate(self, properties: Properties) -> Value:
        """Return whether the comparison holds; null if one side is null."""
        left = self.left.evaluate(properties)
        right = None if left is None else self.right.evaluate(properties)
        if left is None or right is None:
            return None
        if isinstance(left, str) and isinstance(right, str):
            left, right = parse_double(left), parse_double(right)
        return self.holds(compare(left, right))


@dataclass(frozen=True, slots=True)
class In:
    """IN and NOT IN a list of texts."""

    operand: Property
    texts: frozenset[str]
    negated: bool
    depth: int = 2

    def evaluate(self, properties: Properties) -> Value:
        """Return whether the property is in the list; null if the message lacks it."""
        value = self.operand.evaluate(properties)
        return None if value is None else (value in self.texts) is not self.negated


@dataclass(frozen=True, slots=True)
class TextTest:
    """CONTAINS, STARTSWITH, ENDSWITH, and each with NOT: false if the operand is not text or `search` is empty."""

    operand: Expression
    search: str
    test: Callable[[str, str], bool]
    negated: bool
    depth: int

    def evaluate(self, properties: Properties) -> Value:
        """Return whether the text matches."""
        if not self.search:
            return False
        value = self.operand.evaluate(properties)
        if not isinstance(value, str):
            return False
        return self.test(value, self.search) is not self.negated


CONDITIONS = (Not, BooleanCast, Logic, Equal, Order, In, TextTest)


def is_condition(part: Expression) -> bool:
    """Return True if the value is true, false or null for every message."""
    if isinstance(part, Constant):
        return part.value is None or isinstance(part.value, bool)
    return isinstance(part, CONDITIONS)
