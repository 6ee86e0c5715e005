"""Requests of an administrator to name servers and brokers.

Source: RocketMQ 5.5.0 DefaultMQAdminExtImpl, MQAdminImpl, MQClientAPIImpl.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial

from rmqcore.client.instance import ClientInstance
from rmqcore.client.messages.admin_answers import NO_MESSAGE, found_messages, is_at
from rmqcore.client.messages.message_queue import MessageQueue
from rmqcore.client.messages.received_message import ReceivedMessage
from rmqcore.client.messages.response_fields import queue_offset_field
from rmqcore.client.messages.validators import check_topic
from rmqcore.client.remote import Answer
from rmqcore.client.routes import Routes
from rmqcore.codec import parse_msg_id
from rmqcore.errors import ClientError, GroupNotFoundError, NoRouteError, RefusedError
from rmqcore.remoting.bodies.json_object import parse_body
from rmqcore.remoting.bodies.queue_tables import parse_queue_numbers
from rmqcore.remoting.bodies.routes import MASTER_ID, BrokerData, TopicRoute, parse_cluster_info
from rmqcore.remoting.bodies.subscription_groups import subscription_group_table
from rmqcore.remoting.codes import RequestCode, ResponseCode
from rmqcore.remoting.command import RemotingCommand
from rmqcore.remoting.names import UNIQUE_KEY_QUERY
from rmqcore.remoting.request_fields import Value, encode_fields

LAST = -1
"""The time of a reset that goes behind the last message."""


class Cluster:
    """Sends requests to a cluster, and keeps nothing between two. Used by its loop's thread only.

    Parameters
    ----------
    instance : ClientInstance
    seconds : float
        Timeout of each answer; the caller limits the whole call.
    """

    def __init__(self, instance: ClientInstance, seconds: float) -> None:
        self._instance = instance
        self._seconds = seconds

    async def ask(
        self,
        address: str,
        code: RequestCode,
        fields: Mapping[str, Value],
        read: Callable[[RemotingCommand], Answer],
        *,
        accepted: Iterable[int] = (ResponseCode.SUCCESS,),
        more: Mapping[str, str] | None = None,
    ) -> Answer:
        """Ask one peer; `more` are fields outside the request's header."""
        ext_fields = {**encode_fields(code, fields), **(more or {})}
        request = RemotingCommand(code, ext_fields=ext_fields)
        return await self._instance.ask(
            address, request, read, seconds=self._seconds, accepted=accepted
        )

    async def ask_all(
        self,
        brokers: Iterable[BrokerData],
        code: RequestCode,
        fields: Mapping[str, Value],
        read: Callable[[RemotingCommand], Answer],
    ) -> list[Answer]:
        """Ask the masters of brokers at once."""
        return await all_of(
            self.ask(one.addresses[MASTER_ID], code, fields, read) for one in brokers
        )

    async def cluster(self) -> tuple[BrokerData, ...]:
        """Return all brokers that are registered at a name server."""
        code = RequestCode.GET_BROKER_CLUSTER_INFO
        return await self._instance.ask_name_server(
            code,
            {},
            lambda response: parse_cluster_info(code.name, response.body),
            seconds=self._seconds,
        )

    async def masters(self, cluster: str | None = None) -> list[BrokerData]:
        """Return the brokers that have a master, of one cluster or of all."""
        brokers = await self.cluster()
        found = with_master(one for one in brokers if cluster in (None, one.cluster))
        if not found:
            known = ", ".join(sorted({one.cluster for one in brokers})) or "none"
            what = "master" if cluster is None else f"master of cluster {cluster}"
            raise ClientError(
                f"no {what} is registered at the name server; clusters there: {known}"
            )
        return found

    async def route(self, topic: str) -> TopicRoute:
        """Return the route of a topic; raise NoRouteError if no broker has the topic."""
        check_topic(topic)
        route = await self._instance.ask_route(topic, seconds=self._seconds)
        if route is None:
            raise NoRouteError(f"no broker has topic {topic}")
        return route

    async def brokers_of(self, topic: str) -> set[str]:
        """Return the names of the brokers that have a topic."""
        route = await self._instance.ask_route(topic, seconds=self._seconds)
        return set() if route is None else {one.broker_name for one in route.queues}

    async def groups(self, brokers: Iterable[BrokerData]) -> dict[str, set[str]]:
        """Return the names of each broker's groups, by broker name."""
        code = RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG
        listed = list(brokers)
        found = await self.ask_all(
            listed,
            code,
            {},
            lambda response: set(
                subscription_group_table(parse_body(code.name, response.body)).groups
            ),
        )
        return {one.broker_name: names for one, names in zip(listed, found, strict=True)}

    async def brokers_with_group(
        self, group: str, brokers: Iterable[BrokerData]
    ) -> list[BrokerData]:
        """Return the brokers among the given ones that have a group; raise GroupNotFoundError if none has it."""
        listed = list(brokers)
        groups = await self.groups(listed)
        found = [one for one in listed if group in groups[one.broker_name]]
        if not found:
            raise GroupNotFoundError(group)
        return found

    async def reset(
        self, broker: BrokerData, group: str, topic: str, timestamp_ms: int, route: TopicRoute
    ) -> dict[MessageQueue, int]:
        """Set the offsets of a group at one broker, and return them."""
        code = RequestCode.INVOKE_BROKER_TO_RESET_OFFSET
        fields: dict[str, Value] = {
            "topic": topic,
            "group": group,
            "timestamp": timestamp_ms,
            "isForce": True,
        }
        address = broker.addresses[MASTER_ID]
        try:
            offsets = await self.ask(
                address,
                code,
                fields,
                lambda response: parse_queue_numbers(code.name, "offsetTable", response.body),
            )
        except RefusedError as error:
            if error.response_code != ResponseCode.CONSUMER_NOT_ONLINE:
                raise
            # A Java broker resets only groups with members, unless useServerSideResetOffset is set.
            return await self._reset_without_members(broker, group, topic, timestamp_ms, route)
        return {
            MessageQueue(topic, broker.broker_name, queue.queue_id): queue_offset
            for queue, queue_offset in offsets.items()
        }

    async def _reset_without_members(
        self, broker: BrokerData, group: str, topic: str, timestamp_ms: int, route: TopicRoute
    ) -> dict[MessageQueue, int]:
        """Commit the offsets in the group's place. Source: RocketMQ 5.5.0 DefaultMQAdminExtImpl#resetOffsetByTimestampOld."""
        done = {}
        for queue in readable_queues(topic, route):
            if queue.broker_name != broker.broker_name:
                continue
            place: dict[str, Value] = {"topic": topic, "queueId": queue.queue_id}
            code = RequestCode.GET_MAX_OFFSET
            fields = place
            if timestamp_ms != LAST:
                code = RequestCode.SEARCH_OFFSET_BY_TIMESTAMP
                fields = {**place, "timestamp": timestamp_ms}
            address = broker.addresses[MASTER_ID]
            done[queue] = await self.ask(address, code, fields, _offset_reader(code))
            committed = {**place, "consumerGroup": group, "commitOffset": done[queue]}
            code = RequestCode.UPDATE_CONSUMER_OFFSET
            await self.ask(address, code, committed, nothing_to_read)
        return done

    async def view(self, route: TopicRoute, topic: str, msg_id: str) -> list[ReceivedMessage]:
        """Return the message at the place that an id names, if the id is a broker's."""
        try:
            place = parse_msg_id(msg_id)
        except ValueError:
            return []
        code = RequestCode.VIEW_MESSAGE_BY_ID
        fields: dict[str, Value] = {"topic": topic, "offset": place.phy_offset}
        for broker in route.brokers:
            for address in broker.addresses.values():
                if not is_at(place.store_host, address):
                    continue
                try:
                    found = await self.ask(
                        address,
                        code,
                        fields,
                        partial(_messages, code, broker.broker_name),
                    )
                except RefusedError as error:
                    if not error.remark.startswith(NO_MESSAGE):
                        raise
                    continue
                if right := [
                    one for one in found if one.offset_msg_id == msg_id and one.topic == topic
                ]:
                    return right
        return []

    async def query(
        self,
        route: TopicRoute,
        topic: str,
        key: str,
        max_messages: int,
        begin_ms: int,
        end_ms: int,
        *,
        unique: bool,
    ) -> list[ReceivedMessage]:
        """Return the messages that a topic's brokers find for a key, oldest first; some may have another key."""
        code = RequestCode.QUERY_MESSAGE
        fields: dict[str, Value] = {
            "topic": topic,
            "key": key,
            "maxNum": max_messages,
            "beginTimestamp": begin_ms,
            "endTimestamp": end_ms,
        }

        async def ask(broker: BrokerData) -> list[ReceivedMessage]:
            return await self.ask(
                broker.addresses[min(broker.addresses)],
                code,
                fields,
                partial(_messages, code, broker.broker_name),
                accepted=(ResponseCode.SUCCESS, ResponseCode.QUERY_NOT_FOUND),
                more={UNIQUE_KEY_QUERY: str(unique).lower()},
            )

        found = await all_of(ask(one) for one in route.brokers if one.addresses)
        messages = (one for part in found for one in part if one.topic == topic)
        return sorted(messages, key=lambda one: (one.store_timestamp_ms, one.phy_offset))


async def all_of(asked: Iterable[Awaitable[Answer]]) -> list[Answer]:
    """Wait for all answers, and raise the first error."""
    done = await asyncio.gather(*asked, return_exceptions=True)
    answers = []
    for one in done:
        if isinstance(one, BaseException):
            raise one
        answers.append(one)
    return answers


def with_master(brokers: Iterable[BrokerData]) -> list[BrokerData]:
    """Return the brokers that have a master."""
    return [one for one in brokers if MASTER_ID in one.addresses]


def readable_queues(topic: str, route: TopicRoute) -> list[MessageQueue]:
    """Return the queues of a topic that consumers may read, sorted."""
    routes = Routes()
    routes.learn(topic, route)
    return routes.subscribe_queues(topic)


def _messages(
    code: RequestCode, broker_name: str, response: RemotingCommand
) -> list[ReceivedMessage]:
    return found_messages(code.name, broker_name, response.body)


def _offset_reader(code: RequestCode) -> Callable[[RemotingCommand], int]:
    return lambda response: queue_offset_field(response, code.name, "offset")


def nothing_to_read(*_: object) -> None:
    """Read an answer without contents."""
