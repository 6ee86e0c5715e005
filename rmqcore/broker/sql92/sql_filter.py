"""A compiled filter expression."""

from __future__ import annotations

from collections.abc import Mapping

from rmqcore.broker.sql92.parser import Parser


class SqlFilter:
    """An expression over the properties of messages. It is immutable, so that threads may share it.

    Parameters
    ----------
    text : str
        ``price BETWEEN 10 AND 20 AND region IN ('eu', 'us')``.

    Raises
    ------
    FilterExpressionError
        RocketMQ does not accept the expression.

    Notes
    -----
    Source: RocketMQ 5.5.0 SqlFilter, ExpressionMessageFilter#isMatchedByCommitLog.
    """

    __slots__ = ("_expression", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self._expression = Parser(text).parse()

    def evaluate(self, properties: Mapping[str, str]) -> bool | None:
        """Evaluate the expression for a message: true, false, or null.

        Raises
        ------
        ValueError
            A property cannot be compared with the other operand.
        """
        value = self._expression.evaluate(properties)
        return value if isinstance(value, bool) else None

    def matches(self, properties: Mapping[str, str]) -> bool:
        """Return whether a consumer gets a message: only if the expression is true, not if it is null or fails."""
        try:
            return self.evaluate(properties) is True
        except ValueError:
            return False
