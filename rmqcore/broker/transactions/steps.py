"""Steps of a check round; the loop runs between two steps."""

from __future__ import annotations

from collections.abc import Callable, Generator
from functools import partial
from typing import Any

from rmqcore._native.queues.get import GetResult
from rmqcore.broker.parts import BrokerParts

Ask = Callable[[Callable[[Any], object]], object]
"""Something that calls back with what a round waits for."""
Steps = Generator[float | Ask, Any, None]
"""A round: it yields how many seconds it waits, or what it asks for and goes on with."""


def get_when_warm(
    broker: BrokerParts, topic: str, queue_id: int, queue_offset: int, max_messages: int
) -> Generator[Ask, Any, GetResult]:
    """Get messages; if that would wait for the disk, let another thread read them first."""
    wanted = topic, queue_id, queue_offset, max_messages
    found = broker.store.get_warm(*wanted)
    if found is None:
        yield partial(broker.readers.run, partial(broker.store.read_in, *wanted))
        found = broker.store.get(*wanted)  # raises an error of the read again
    return found
