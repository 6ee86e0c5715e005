"""Callbacks that wait for one event, called in order."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import TypeVarTuple

_Args = TypeVarTuple("_Args")
_LOG = logging.getLogger("rmqcore.broker")


def call_each(thens: Iterable[Callable[[*_Args], object]], *args: *_Args) -> None:
    """Call all callbacks; an error of one is logged, and the others are called too."""
    for then in thens:
        try:
            then(*args)
        except Exception:  # noqa: BLE001  it answers for itself alone, as a handler does
            _LOG.exception("a step of the broker")


def nothing() -> None:
    """Do nothing; the callback of a caller that does not wait."""
