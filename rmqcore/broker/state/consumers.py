"""Consumer groups: their members, their subscriptions, and the notification of members on a change.

Source: RocketMQ 5.5.0 ConsumerManager, ConsumerGroupInfo, DefaultConsumerIdsChangeListener,
Broker2Client#notifyConsumerIdsChanged.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from sys import getsizeof

from rmqcore.broker.channel import Channel
from rmqcore.broker.state.client_memory import ClientMemory, subscription_bytes
from rmqcore.broker.state.clients import ClientChannelInfo, silent_clients
from rmqcore.broker.state.consumer_filters import ConsumerFilters, is_tag_type
from rmqcore.remoting.bodies.heartbeat import ConsumerData, SubscriptionData
from rmqcore.remoting.codes import RequestCode
from rmqcore.remoting.command import ONEWAY_FLAG, RemotingCommand
from rmqcore.remoting.request_fields import encode_fields

BROADCASTING = "BROADCASTING"
CLUSTERING = "CLUSTERING"
CONSUME_ACTIVELY = "CONSUME_ACTIVELY"
CONSUME_PASSIVELY = "CONSUME_PASSIVELY"
"""Names of Java's enum values MessageModel and ConsumeType."""
_GROUP_BYTES = 1_000
"""A group's tables, without its members, subscriptions and the letters of its name."""


@dataclass(slots=True)
class ConsumerGroupInfo:
    """A group that has members now. If its members disagree, the last heartbeat counts.

    Attributes
    ----------
    group_name : str
    consume_type, message_model, consume_from_where : str
        Names of Java's enum values.
    subscriptions : dict of str to SubscriptionData
        By topic.
    clients : dict of Channel to ClientChannelInfo
    owner : Channel or None
        The member whose heartbeat had these subscriptions; `ClientMemory` counts them as its own.
    memory_bytes : int
        Estimated bytes of the group and its subscriptions.
    """

    group_name: str
    consume_type: str
    message_model: str
    consume_from_where: str
    subscriptions: dict[str, SubscriptionData] = field(default_factory=dict)
    clients: dict[Channel, ClientChannelInfo] = field(default_factory=dict)
    owner: Channel | None = None
    memory_bytes: int = 0

    @property
    def is_broadcasting(self) -> bool:
        """Return True if each member gets all messages and keeps its own offsets."""
        return self.message_model == BROADCASTING

    def channels(self) -> list[Channel]:
        """Return the members' connections."""
        return list(self.clients)

    def client_ids(self) -> list[str]:
        """Return the members' client ids, each once: a client that reconnected has two connections for a while."""
        return list(dict.fromkeys(client.client_id for client in self.clients.values()))

    def members(self) -> dict[str, ClientChannelInfo]:
        """Return the members by client id; for a member that reconnected, the newest connection."""
        return {client.client_id: client for client in self.clients.values()}

    def find_client(self, client_id: str) -> ClientChannelInfo | None:
        """Return the newest connection of a member; None if it has none."""
        return self.members().get(client_id)

    def update_client(self, client: ClientChannelInfo, consumer: ConsumerData) -> bool:
        """Note a heartbeat of a member; return whether the member is new."""
        self.consume_type = consumer.consume_type
        self.message_model = consumer.message_model
        self.consume_from_where = consumer.consume_from_where
        known = self.clients.get(client.channel)
        self.clients[client.channel] = client
        return known is None

    def has_all(self, wanted: Iterable[SubscriptionData]) -> bool:
        """Return True if a heartbeat with these subscriptions changes nothing, as nearly every heartbeat."""
        known, listed = self.subscriptions, set()
        for one in wanted:
            before = known.get(one.topic)
            if before is None or one.sub_version > before.sub_version:
                return False
            listed.add(one.topic)
        return len(listed) == len(known)

    def update_subscriptions(self, wanted: Iterable[SubscriptionData]) -> bool:
        """Store the subscriptions of a heartbeat; return whether the topics have changed.

        For each topic the highest ``subVersion`` stays; a topic that the heartbeat lacks is removed.
        """
        before = set(self.subscriptions)
        listed = set()
        for one in wanted:
            known = self.subscriptions.get(one.topic)
            if known is None or one.sub_version > known.sub_version:
                self.subscriptions[one.topic] = one
            listed.add(one.topic)
        for topic in before - listed:
            del self.subscriptions[topic]
        return before != listed


class Consumers:
    """The consumer groups that have members. Its methods are called by the loop's thread only.

    Parameters
    ----------
    timeout_ms : int
        A member that is silent for longer is gone.
    notify : bool
        Members are notified of changes.
    filters : ConsumerFilters
        Receives the subscriptions of the groups.
    memory : ClientMemory
        Bounds the memory of groups, members and subscriptions.
    """

    def __init__(
        self, timeout_ms: int, *, notify: bool, filters: ConsumerFilters, memory: ClientMemory
    ) -> None:
        self._timeout_ms = timeout_ms
        self._notify = notify
        self._filters = filters
        self._memory = memory
        self._groups: dict[str, ConsumerGroupInfo] = {}
        self._fingerprints: dict[str, int] = {}

    def group(self, name: str) -> ConsumerGroupInfo | None:
        """Return a group that has members."""
        return self._groups.get(name)

    def groups(self) -> Mapping[str, ConsumerGroupInfo]:
        """Return all groups that have members, by name."""
        return self._groups

    def groups_of(self, topic: str) -> list[str]:
        """Return the groups with members that subscribe to a topic."""
        return [name for name, info in self._groups.items() if topic in info.subscriptions]

    def subscription(self, group: str, topic: str) -> SubscriptionData | None:
        """Return the subscription of a group with members to a topic."""
        info = self._groups.get(group)
        return None if info is None else info.subscriptions.get(topic)

    def register(
        self,
        consumer: ConsumerData,
        client: ClientChannelInfo,
        *,
        notify: bool = True,
        without_sub: bool = False,
        now_ms: int,
    ) -> bool:
        """Note a heartbeat of a member; return whether members or topics have changed.

        Parameters
        ----------
        consumer : ConsumerData
        client : ClientChannelInfo
            An object for this group alone: it is kept.
        notify : bool
            Notify all members of a change, the new one included; members of a broadcasting group are never notified.
        without_sub : bool
            The heartbeat leaves out the subscriptions: the present ones stay.
        now_ms : int

        Raises
        ------
        ClientMemoryError
            The member or its subscriptions exceed the broker's memory for clients; nothing is changed.
        """
        info = self._groups.get(consumer.group_name)
        is_kept = without_sub or (info is not None and info.has_all(consumer.subscriptions))
        self._make_room(consumer, client, without_sub=is_kept)
        info = self._groups.get(consumer.group_name)  # may have been dropped to make room
        if info is None:
            is_kept = without_sub
            info = self._groups[consumer.group_name] = ConsumerGroupInfo(
                consumer.group_name,
                consumer.consume_type,
                consumer.message_model,
                consumer.consume_from_where,
            )
        before = info.clients.get(client.channel)
        changed = info.update_client(client, consumer)
        kept = 0 if before is None else before.memory_bytes
        self._memory.add(client.channel, client.memory_bytes - kept)
        if not without_sub:
            changed |= info.update_subscriptions(consumer.subscriptions)
        if not is_kept or info.owner is None:
            self._own(
                info, client.channel, _group_bytes(info.group_name, info.subscriptions.values())
            )
        if not without_sub:
            self._filters.register(consumer.group_name, consumer.subscriptions, now_ms)
        if changed and notify:
            self._tell(info)
        return changed

    def _make_room(
        self, consumer: ConsumerData, client: ClientChannelInfo, *, without_sub: bool
    ) -> None:
        """Make room for the contents of a heartbeat, if necessary by dropping other clients."""
        info = self._groups.get(consumer.group_name)
        grown = client.memory_bytes
        if not without_sub:
            grown += _group_bytes(consumer.group_name, consumer.subscriptions)
        if info is not None:
            before = info.clients.get(client.channel)
            grown -= 0 if before is None else before.memory_bytes
            grown -= info.memory_bytes if info.owner is client.channel and not without_sub else 0
        if grown > 0:
            self._memory.make_room(client.channel, grown)

    def _own(self, info: ConsumerGroupInfo, owner: Channel | None, size: int) -> None:
        """Count a group and its subscriptions as those of one member."""
        if info.owner is not None:
            self._memory.add(info.owner, -info.memory_bytes)
        info.owner, info.memory_bytes = owner, size
        if owner is not None:
            self._memory.add(owner, size)

    def unregister(self, group: str, channel: Channel, *, notify: bool = True, now_ms: int) -> None:
        """Drop a member that unregisters, and notify the others, even if it was not a member."""
        info = self._groups.get(group)
        if info is None:
            return
        if channel in info.clients:
            self._remove(info, channel)
        self._drop_if_empty(info, now_ms)
        if notify:
            self._tell(info)

    def channel_closed(self, channel: Channel, now_ms: int) -> None:
        """Drop a connection from all groups."""
        for info in [info for info in self._groups.values() if channel in info.clients]:
            self._drop(info, [info.clients[channel]], now_ms)

    def drop_silent(self, now_ms: int) -> None:
        """Drop the members that were silent for too long, and close their connections."""
        for info in list(self._groups.values()):
            silent = silent_clients(info.clients.values(), now_ms, self._timeout_ms)
            if silent:
                self._drop(info, silent, now_ms)
                for client in silent:
                    client.channel.close()

    def note_fingerprint(self, group: str, fingerprint: int) -> bool:
        """Keep the fingerprint of the subscriptions in a group's last heartbeat; return whether it has changed."""
        before = self._fingerprints.get(group, fingerprint)
        self._fingerprints[group] = fingerprint
        return before != fingerprint

    def _drop(self, info: ConsumerGroupInfo, clients: list[ClientChannelInfo], now_ms: int) -> None:
        for client in clients:
            self._remove(info, client.channel)
        self._drop_if_empty(info, now_ms)
        self._tell(info)

    def _remove(self, info: ConsumerGroupInfo, channel: Channel) -> None:
        """Drop a member; one of the others owns the subscriptions from now on."""
        self._memory.add(channel, -info.clients.pop(channel).memory_bytes)
        if info.owner is channel:
            self._own(info, next(iter(info.clients), None), info.memory_bytes)

    def _drop_if_empty(self, info: ConsumerGroupInfo, now_ms: int) -> None:
        if not info.clients:
            del self._groups[info.group_name]
            self._fingerprints.pop(info.group_name, None)
            self._filters.unregister(info.group_name, now_ms)

    def _tell(self, info: ConsumerGroupInfo) -> None:
        """Ask all members to redistribute the queues."""
        if not self._notify or info.is_broadcasting:
            return
        code = RequestCode.NOTIFY_CONSUMER_IDS_CHANGED
        for channel in info.channels():
            ext_fields = encode_fields(code, {"consumerGroup": info.group_name})
            channel.send(RemotingCommand(code, flag=ONEWAY_FLAG, ext_fields=ext_fields))


def _group_bytes(name: str, subscriptions: Iterable[SubscriptionData]) -> int:
    """Estimate the bytes of a group with its subscriptions and their filters."""
    size = _GROUP_BYTES + getsizeof(name)
    for one in subscriptions:
        size += subscription_bytes(one, is_sql=not is_tag_type(one.expression_type))
    return size
