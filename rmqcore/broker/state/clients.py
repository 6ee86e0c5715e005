"""A client of a group: its connection, and the time of its last heartbeat.

Source: RocketMQ 5.5.0 ClientChannelInfo.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from sys import getsizeof

from rmqcore.broker.channel import Channel
from rmqcore.remoting.codes import LanguageCode

_MEMBER_BYTES = 300


@dataclass(slots=True)
class ClientChannelInfo:
    """A client as a member of one group.

    Attributes
    ----------
    channel : Channel
    client_id : str
        The name that the client chose.
    language : LanguageCode
    version : int
        The version of its RocketMQ.
    last_update_timestamp_ms : int
        Time of its last heartbeat.
    """

    channel: Channel
    client_id: str
    language: LanguageCode
    version: int
    last_update_timestamp_ms: int

    @property
    def memory_bytes(self) -> int:
        """Return the estimated bytes of a group's entry for the client."""
        return _MEMBER_BYTES + getsizeof(self.client_id)


def silent_clients(
    clients: Iterable[ClientChannelInfo], now_ms: int, timeout_ms: int
) -> list[ClientChannelInfo]:
    """Return the clients that were silent for longer than the timeout."""
    return [one for one in clients if now_ms - one.last_update_timestamp_ms > timeout_ms]
