"""The error of a proof in which a promise does not hold."""

from __future__ import annotations

from typing import NoReturn


class PromiseBrokenError(Exception):
    """A store broke a promise of docs/durability.md: a bug of rmqcore, or of the disk below it."""


def broken(*parts: object) -> NoReturn:
    """Raise an error with a description of the broken promise."""
    raise PromiseBrokenError(" ".join(str(part) for part in parts))


def hold(condition: object, *parts: object) -> None:
    """Raise an error with a description, unless the condition holds."""
    if not condition:
        broken(*parts)
