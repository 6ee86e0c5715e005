"""What a proof says when something does not hold."""

from __future__ import annotations

from typing import NoReturn


class PromiseBrokenError(Exception):
    """A store did what docs/durability.md says that it never does. This is a bug of rmqcore, or of the disk below it."""


def broken(*parts: object) -> NoReturn:
    """Raise an error that says what did not hold."""
    raise PromiseBrokenError(" ".join(str(part) for part in parts))


def hold(condition: object, *parts: object) -> None:
    """Raise an error that says what did not hold, unless it did."""
    if not condition:
        broken(*parts)
