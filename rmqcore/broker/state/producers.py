"""Producer groups: the clients to ask about transactions, and to send replies to.

Source: RocketMQ 5.5.0 ProducerManager.
"""

from __future__ import annotations

from collections.abc import Mapping
from sys import getsizeof

from rmqcore.broker.channel import Channel
from rmqcore.broker.state.client_memory import ClientMemory
from rmqcore.broker.state.clients import ClientChannelInfo, silent_clients

_GROUP_BYTES = 600
"""A group's tables and the entry of its name, without the name's letters."""


class Producers:
    """The producer groups that have members. Its methods are called by the loop's thread only.

    Parameters
    ----------
    timeout_ms : int
        A member that is silent for longer is gone.
    memory : ClientMemory
        Bounds the memory of the members.
    """

    def __init__(self, timeout_ms: int, memory: ClientMemory) -> None:
        self._timeout_ms = timeout_ms
        self._memory = memory
        self._groups: dict[str, dict[Channel, ClientChannelInfo]] = {}
        self._of_channel: dict[Channel, set[str]] = {}
        self._by_client_id: dict[str, Channel] = {}
        self._asked = 0

    def groups(self) -> Mapping[str, Mapping[Channel, ClientChannelInfo]]:
        """Return all groups that have members, and the members by connection."""
        return self._groups

    def clients(self, group: str) -> list[ClientChannelInfo]:
        """Return the members of a group."""
        return list(self._groups.get(group, {}).values())

    def channels(self, group: str) -> list[Channel]:
        """Return the connections of a group's members."""
        return list(self._groups.get(group, ()))

    def available_channel(self, group: str) -> Channel | None:
        """Return the connection of a member, another one with each call; None if no member can be reached."""
        channels = [channel for channel in self.channels(group) if not channel.closed]
        if not channels:
            return None
        self._asked += 1
        return channels[self._asked % len(channels)]

    def find_channel(self, client_id: str) -> Channel | None:
        """Return the connection of a client by its client id; of several connections the one that sent a heartbeat last."""
        return self._by_client_id.get(client_id)

    def register(self, group: str, client: ClientChannelInfo) -> None:
        """Note a heartbeat of a member.

        Raises
        ------
        ClientMemoryError
            The member exceeds the broker's memory for clients; nothing is changed.
        """
        channel = client.channel
        before = self._groups.get(group, {}).get(channel)
        grown = _bytes_of(group, client) - (0 if before is None else _bytes_of(group, before))
        if grown > 0:
            self._memory.make_room(channel, grown)
        self._memory.add(channel, grown)
        self._of_channel.setdefault(channel, set()).add(group)
        if before is not None and before.client_id != client.client_id:
            self._forget_id(before)
        self._groups.setdefault(group, {})[channel] = client
        self._by_client_id[client.client_id] = client.channel

    def unregister(self, group: str, channel: Channel) -> None:
        """Drop a member that unregisters."""
        clients = self._groups.get(group, {})
        client = clients.pop(channel, None)
        if client is not None:
            self._memory.add(channel, -_bytes_of(group, client))
            self._forget_id(client)
            names = self._of_channel[channel]
            names.discard(group)
            if not names:
                del self._of_channel[channel]
        if not clients:
            self._groups.pop(group, None)

    def _forget_id(self, client: ClientChannelInfo) -> None:
        if self._by_client_id.get(client.client_id) is client.channel:
            del self._by_client_id[client.client_id]

    def channel_closed(self, channel: Channel) -> None:
        """Drop a connection from all groups."""
        for group in list(self._of_channel.get(channel, ())):
            self.unregister(group, channel)

    def drop_silent(self, now_ms: int) -> None:
        """Drop the members that were silent for too long, and close their connections."""
        for group, clients in list(self._groups.items()):
            for client in silent_clients(clients.values(), now_ms, self._timeout_ms):
                self.unregister(group, client.channel)
                client.channel.close()


def _bytes_of(group: str, client: ClientChannelInfo) -> int:
    """Return the estimated bytes of a member, and of the group if it is the only member."""
    return _GROUP_BYTES + 2 * getsizeof(group) + client.memory_bytes
