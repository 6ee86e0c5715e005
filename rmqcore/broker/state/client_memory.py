"""The memory for heartbeats of each connection, and the choice of connections to close when all exceed the bound.

Source: rmqcore's own; RocketMQ keeps all that its clients send.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from sys import getsizeof

from rmqcore.broker.channel import Channel
from rmqcore.remoting.bodies.heartbeat import SubscriptionData

_SUBSCRIPTION_BYTES = 600
"""A subscription and its places in tables, without its texts."""
_CODE_BYTES = 64
_FILTER_BYTES, _FILTER_BYTES_PER_LETTER = 500, 24
"""Of a compiled SQL92 expression; measured were 12 to 20 bytes per letter."""
_LOG = logging.getLogger("rmqcore.broker")


class ClientMemoryError(ValueError):
    """A heartbeat needs more memory for groups, subscriptions or expressions than the broker allows."""


class ClientMemory:
    """The bytes of groups, members and subscriptions, by connection. Used by the loop's thread only.

    Parameters
    ----------
    most_of_connection, most_of_all : int
        Bytes.
    evict : callable
        Closes a connection and forgets its data; called with the connection that holds most.
    """

    def __init__(
        self, most_of_connection: int, most_of_all: int, evict: Callable[[Channel], object]
    ) -> None:
        self._most_of_connection = most_of_connection
        self._most_of_all = most_of_all
        self._evict = evict
        self._held: dict[Channel, int] = {}
        self.total = 0

    def held_by(self, channel: Channel) -> int:
        """Bytes that a connection holds."""
        return self._held.get(channel, 0)

    def make_room(self, channel: Channel, size: int) -> None:
        """Make room for `size` more bytes: close connections that would hold more than `channel`, the largest first.

        Raises
        ------
        ClientMemoryError
            The bytes do not fit.
        """
        wanted = self.held_by(channel) + size
        if wanted > self._most_of_connection:
            raise ClientMemoryError(
                f"the groups and subscriptions of this connection need {wanted:,} bytes, the limit "
                f"is {self._most_of_connection:,} (maxClientBytesPerConnection)"
            )
        while self.total + size > self._most_of_all:
            largest = max(self._held, key=self._held.__getitem__, default=channel)
            if self.held_by(largest) <= wanted:
                raise ClientMemoryError(
                    f"the groups and subscriptions of all connections need {self.total:,} bytes, "
                    f"the limit is {self._most_of_all:,} (maxClientBytes)"
                )
            _LOG.warning(
                "%s: its groups and subscriptions use %d bytes, more than any other connection's, "
                "and all together exceed maxClientBytes (%d); the connection is closed",
                largest.peer,
                self.held_by(largest),
                self._most_of_all,
            )
            self._evict(largest)
            self._forget(largest)

    def add(self, channel: Channel, size: int) -> None:
        """Count bytes that a connection holds from now on; a negative number frees bytes."""
        held = self.held_by(channel) + size
        self.total += size
        if held:
            self._held[channel] = held
        else:
            self._held.pop(channel, None)

    def _forget(self, channel: Channel) -> None:
        """Drop the count of a closed connection, so that no loop waits for bytes that it did not free."""
        self.total -= self._held.pop(channel, 0)


def subscription_bytes(wanted: SubscriptionData, *, is_sql: bool) -> int:
    """Estimate the bytes of a subscription; with `is_sql` those of its compiled expression too."""
    size = _SUBSCRIPTION_BYTES + getsizeof(wanted.topic) + getsizeof(wanted.sub_string)
    size += getsizeof(wanted.tags) + sum(map(getsizeof, wanted.tags))
    size += getsizeof(wanted.codes) + _CODE_BYTES * len(wanted.codes)
    return size + (filter_bytes(wanted.sub_string) if is_sql else 0)


def filter_bytes(expression: str) -> int:
    """Estimate the bytes of a compiled SQL92 expression."""
    return _FILTER_BYTES + _FILTER_BYTES_PER_LETTER * len(expression)
