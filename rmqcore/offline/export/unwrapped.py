"""Stored batches taken apart into their messages."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from rmqcore.codec import unwrap
from rmqcore.codec.message import MessageView
from rmqcore.errors import CompressionError, CorruptMessageError

Item = TypeVar("Item")
OnFailure = Callable[[int, Exception], object]
"""Called with the CommitLog offset of a batch that cannot be taken apart, and the error."""


def unwrapped(items: Iterable[Item], on_failure: OnFailure) -> Iterator[Item | MessageView]:
    """Yield the messages of each stored batch, and all other items unchanged.

    Parameters
    ----------
    items : iterable
        Messages with whole bodies, and other items, which are yielded unchanged.
    on_failure : callable
        Called for a batch that cannot be taken apart; the batch itself is yielded then.
    """
    for item in items:
        if not isinstance(item, MessageView):
            yield item
            continue
        try:
            found = unwrap(item)
        except (CorruptMessageError, CompressionError) as error:
            on_failure(item.phy_offset, error)
            yield item
        else:
            yield from found
