"""An administrator's requests to a cluster, for asyncio: topics, groups, their offsets, and single messages.

Source: RocketMQ 5.5.0 DefaultMQAdminExtImpl, MQAdminImpl, MQClientAPIImpl.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Literal, Self

from rmqcore.client.cluster import (
    LAST,
    Cluster,
    all_of,
    nothing_to_read,
    readable_queues,
    with_master,
)
from rmqcore.client.deadlines import deadline
from rmqcore.client.events import OnEvent
from rmqcore.client.instance import CLOSE_SECONDS, ClientInstance
from rmqcore.client.messages.admin_answers import is_internal_topic, lags
from rmqcore.client.messages.group_lag import GroupLag
from rmqcore.client.messages.message_queue import MessageQueue
from rmqcore.client.messages.received_message import ReceivedMessage
from rmqcore.client.messages.validators import check_group, check_topic
from rmqcore.errors.arguments import check_ints, check_texts
from rmqcore.remoting.bodies.json_object import parse_body
from rmqcore.remoting.bodies.queue_tables import parse_consume_stats
from rmqcore.remoting.bodies.routes import TopicRoute
from rmqcore.remoting.bodies.topic_configs import READ, SINGLE_TAG, WRITE
from rmqcore.remoting.codes import RequestCode
from rmqcore.remoting.names import SYSTEM_GROUP_PREFIX
from rmqcore.remoting.request_fields import Value
from rmqcore.vocabulary.topics import DEFAULT_TOPIC, SYSTEM_GROUPS
from rmqcore.vocabulary.units import LONG_MAX

LOOK_AGAIN_SECONDS = 0.05
"""Between two looks whether name servers know a new topic."""
MOST_TIME_MS = LONG_MAX
StoreTime = int | Literal["first", "last"]


class AsyncAdmin:
    """Administers a cluster with the requests of `mqadmin`. Bound to the event loop that first uses it.

    Every method asks a name server for the brokers, then the masters concerned. Nothing is kept between two calls.

    Parameters
    ----------
    namesrv : str or iterable of str
        Addresses of name servers, ``host:port``; in one string with ``;`` between them.
    timeout : float
        Seconds that a call may take, with all its requests.
    on_event : callable, optional
        Receives a `ClientEvent` for everything that succeeds or fails, in the loop's thread.

    Raises
    ------
    ValueError
        An address is not ``host:port``.
    """

    def __init__(
        self,
        namesrv: str | Iterable[str],
        *,
        timeout: float = 5.0,
        on_event: OnEvent | None = None,
    ) -> None:
        self._timeout = timeout
        self._instance = ClientInstance(namesrv, on_event=on_event)
        self._cluster = Cluster(self._instance, timeout)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self, timeout: float = CLOSE_SECONDS) -> None:  # noqa: ASYNC109 as for AsyncPullConsumer
        """Close all connections. A second call does nothing.

        Parameters
        ----------
        timeout : float
            Seconds for the whole call, which sends no request and so returns at once.
        """
        await self._instance.close((), timeout)

    def abandon(self) -> None:
        """Close all connections without unregistering; for a loop that ends."""
        self._instance.abandon()

    # ---- topics -----------------------------------------------------------------------------------

    async def create_topic(
        self, topic: str, queues: int = 8, *, perm: int = READ | WRITE, cluster: str | None = None
    ) -> None:
        """Create a topic on all masters, or change its number of queues; clients find it when this returns.

        Parameters
        ----------
        topic : str
        queues : int
            Number of queues on each broker, for reading and writing.
        perm : int
            4 lets clients read, 2 write.
        cluster : str, optional
            Only the brokers of this cluster.

        Raises
        ------
        ValueError
            The topic's name is not allowed, or `queues` is below 1.
        RefusedError
            A broker refuses the topic; others may have it.
        ClientError
            A broker or the name servers cannot be asked.
        """
        check_topic(topic)
        check_ints(queues=queues, perm=perm)
        if queues < 1:
            raise ValueError(f"queues is {queues}, expected 1 or more")
        fields: dict[str, Value] = {
            "topic": topic,
            "defaultTopic": DEFAULT_TOPIC,
            "readQueueNums": queues,
            "writeQueueNums": queues,
            "perm": perm,
            "topicFilterType": SINGLE_TAG,
            "topicSysFlag": 0,
            "order": False,
        }
        async with self._call("create_topic"):
            brokers = await self._cluster.masters(cluster)
            await self._cluster.ask_all(
                brokers, RequestCode.UPDATE_AND_CREATE_TOPIC, fields, nothing_to_read
            )
            wanted = {one.broker_name for one in brokers}
            while not wanted <= await self._cluster.brokers_of(topic):  # noqa: ASYNC110  of another process
                await asyncio.sleep(LOOK_AGAIN_SECONDS)

    async def list_topics(self, *, internal: bool = False) -> list[str]:
        """Return the names of all topics, sorted.

        Parameters
        ----------
        internal : bool
            Include the topics that RocketMQ creates for itself, and those with retries and dead letters of groups.

        Raises
        ------
        ClientError
            No name server can be asked.
        """
        code = RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER
        async with self._call("list_topics"):
            topics = await self._instance.ask_name_server(
                code,
                {},
                lambda response: parse_body(code.name, response.body).texts("topicList"),
                seconds=self._timeout,
            )
            if not internal:
                brokers = await self._cluster.cluster()
                topics = [one for one in topics if not is_internal_topic(one, brokers)]
        return sorted(set(topics))

    async def delete_topic(self, topic: str) -> None:
        """Delete a topic from its brokers, and then from all name servers.

        Raises
        ------
        NoRouteError
            No broker has the topic.
        ClientError
            A broker or a name server failed; others may have deleted the topic.
        """
        async with self._call("delete_topic"):
            route = await self._cluster.route(topic)
            fields: dict[str, Value] = {"topic": topic}
            await self._cluster.ask_all(
                with_master(route.brokers),
                RequestCode.DELETE_TOPIC_IN_BROKER,
                fields,
                nothing_to_read,
            )
            code = RequestCode.DELETE_TOPIC_IN_NAMESRV
            await all_of(
                self._cluster.ask(address, code, fields, nothing_to_read)
                for address in self._instance.name_servers
            )

    async def topic_route(self, topic: str) -> TopicRoute:
        """Return the brokers of a topic, with the addresses of their instances, and the queues of each.

        Raises
        ------
        NoRouteError
            No broker has the topic.
        ClientError
            No name server can be asked.
        """
        async with self._call("topic_route"):
            return await self._cluster.route(topic)

    async def topic_queues(self, topic: str) -> list[MessageQueue]:
        """Return the queues of a topic that consumers may read, sorted.

        Raises
        ------
        NoRouteError, ClientError
            As for `topic_route`.
        """
        async with self._call("topic_queues"):
            return readable_queues(topic, await self._cluster.route(topic))

    # ---- groups -----------------------------------------------------------------------------------

    async def list_groups(self, *, internal: bool = False) -> list[str]:
        """Return the names of all consumer groups, sorted.

        Parameters
        ----------
        internal : bool
            Include the groups that every broker has.

        Raises
        ------
        ClientError
            A broker or the name servers cannot be asked.
        """
        async with self._call("list_groups"):
            found = await self._cluster.groups(await self._cluster.masters())
        names = set().union(*found.values())
        if not internal:
            names = {one for one in names if not one.startswith(SYSTEM_GROUP_PREFIX)}
            names -= set(SYSTEM_GROUPS)
        return sorted(names)

    async def delete_group(self, group: str) -> None:
        """Delete a consumer group with its offsets. Topics with its retries and dead letters stay.

        Raises
        ------
        GroupNotFoundError
            No broker has the group.
        ClientError
            A broker does not do it; others may have done it.
        """
        check_group(group)
        async with self._call("delete_group"):
            brokers = await self._cluster.brokers_with_group(group, await self._cluster.masters())
            fields: dict[str, Value] = {"groupName": group, "cleanOffset": True}
            code = RequestCode.DELETE_SUBSCRIPTIONGROUP
            await self._cluster.ask_all(brokers, code, fields, nothing_to_read)

    async def reset_offsets(self, group: str, topic: str, to: StoreTime) -> dict[MessageQueue, int]:
        """Reset the offsets of a group in all queues of a topic.

        Running members drop the messages that they hold and continue from the new offsets, except Java's lite pull
        consumers: stop these first.

        Parameters
        ----------
        group, topic : str
        to : int, "first" or "last"
            A time in milliseconds since 1970: the first message stored then or later. Or the first message of the
            queue, or the end behind the last one.

        Returns
        -------
        dict
            The new queue offset of each queue.

        Raises
        ------
        ValueError
            `to` has another value.
        NoRouteError, GroupNotFoundError
            No broker has the topic, or no broker of the topic has the group.
        ClientError
            A broker does not do it; others may have done it.
        """
        check_group(group)
        timestamp_ms = _store_time(to)
        async with self._call("reset_offsets"):
            route = await self._cluster.route(topic)
            brokers = await self._cluster.brokers_with_group(group, with_master(route.brokers))
            done = await all_of(
                self._cluster.reset(broker, group, topic, timestamp_ms, route) for broker in brokers
            )
        return {queue: offset for one in done for queue, offset in sorted(one.items())}

    async def lag(self, group: str, topic: str | None = None) -> GroupLag:
        """Return how many messages a group has not consumed, for each queue and in total.

        Parameters
        ----------
        group : str
        topic : str, optional
            Only the queues of this topic; by default those of all topics in which the group has committed an offset.

        Raises
        ------
        GroupNotFoundError
            No broker has the group.
        NoRouteError
            No broker has the topic.
        ClientError
            A broker or the name servers cannot be asked.
        """
        check_group(group)
        fields: dict[str, Value] = {"consumerGroup": group, "topic": topic or ""}
        code = RequestCode.GET_CONSUME_STATS
        async with self._call("lag"):
            if topic is None:
                brokers = await self._cluster.masters()
            else:
                brokers = with_master((await self._cluster.route(topic)).brokers)
            brokers = await self._cluster.brokers_with_group(group, brokers)
            stats = await self._cluster.ask_all(
                brokers,
                code,
                fields,
                lambda response: parse_consume_stats(code.name, response.body),
            )
        return GroupLag(group, lags(stats))

    # ---- messages ---------------------------------------------------------------------------------

    async def message_by_id(self, topic: str, msg_id: str) -> ReceivedMessage | None:
        """Return the message with an id; None if no broker of the topic has it.

        Parameters
        ----------
        topic : str
        msg_id : str
            The id that its producer gave it (`SendResult.msg_id`), or the broker's (`ReceivedMessage.offset_msg_id`).

        Raises
        ------
        NoRouteError
            No broker has the topic.
        ClientError
            A broker or the name servers cannot be asked.
        """
        check_texts(msg_id=msg_id)
        async with self._call("message_by_id"):
            route = await self._cluster.route(topic)
            at_place = await self._cluster.view(route, topic, msg_id)
            found = at_place or [
                one
                for one in await self._cluster.query(
                    route, topic, msg_id, 32, 0, MOST_TIME_MS, unique=True
                )
                if one.msg_id == msg_id
            ]
        return found[0] if found else None

    async def messages_by_key(
        self,
        topic: str,
        key: str,
        *,
        max_messages: int = 32,
        begin_ms: int = 0,
        end_ms: int = MOST_TIME_MS,
    ) -> list[ReceivedMessage]:
        """Return the newest messages with a key, in the order in which they were stored.

        Parameters
        ----------
        topic, key : str
        max_messages : int
            Most messages of each broker.
        begin_ms, end_ms : int
            Range of store times, in milliseconds since 1970.

        Raises
        ------
        NoRouteError
            No broker has the topic.
        ClientError
            A broker or the name servers cannot be asked.
        """
        check_texts(key=key)
        check_ints(max_messages=max_messages, begin_ms=begin_ms, end_ms=end_ms)
        async with self._call("messages_by_key"):
            route = await self._cluster.route(topic)
            found = await self._cluster.query(
                route, topic, key, max_messages, begin_ms, end_ms, unique=False
            )
        return [one for one in found if key in one.keys]

    # ---- inside -----------------------------------------------------------------------------------

    @asynccontextmanager
    async def _call(self, name: str) -> AsyncIterator[None]:
        self._instance.check_open()
        with self._instance.events.timed("call", name):
            async with deadline(self._timeout, name):
                yield


def _store_time(to: object) -> int:
    if to == "first":
        return 0
    if to == "last":
        return LAST
    if isinstance(to, bool) or not isinstance(to, int) or not 0 <= to <= MOST_TIME_MS:
        raise ValueError(f"to is {to!r}, expected milliseconds since 1970, 'first' or 'last'")
    return to
