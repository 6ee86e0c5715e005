"""Routes known to a client: readable and writable queues, and the addresses of their brokers.

Source: RocketMQ 5.5.0 MQClientInstance#topicRouteData2TopicPublishInfo, #topicRouteData2TopicSubscribeInfo,
#findBrokerAddressInPublish, #findBrokerAddressInSubscribe, #cleanOfflineBroker.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from rmqcore.client.messages.message_queue import MessageQueue
from rmqcore.errors import RequestError
from rmqcore.remoting.bodies.routes import MASTER_ID, QueueData, TopicRoute
from rmqcore.remoting.bodies.topic_configs import READ, WRITE
from rmqcore.vocabulary.java_json import shown_value

MOST_QUEUES = 65_536
"""Queues of one topic that a route may name, all brokers together: a number is only believed so far."""
MOST_NAME = 255
"""Letters of a broker's name or address: log lines and errors repeat it."""
_REQUEST = "GET_ROUTEINFO_BY_TOPIC"


class Routes:
    """The routes of a client's topics, from the last answers of name servers."""

    def __init__(self) -> None:
        self._topics: dict[str, TopicRoute] = {}
        self._brokers: dict[str, Mapping[int, str]] = {}
        self._publish_queues: dict[str, list[MessageQueue]] = {}

    def topics(self) -> tuple[str, ...]:
        """Return the names of the topics that have a route."""
        return tuple(self._topics)

    def has(self, topic: str) -> bool:
        """Return True if a topic's route is known."""
        return topic in self._topics

    def learn(self, topic: str, route: TopicRoute) -> bool:
        """Store the route of a topic.

        Returns
        -------
        bool
            Whether the route has changed.

        Raises
        ------
        RequestError
            The route has more queues than any cluster, or an invalid name or address of a broker.
        """
        _check(route)
        in_order = tuple(sorted(route.queues, key=lambda one: one.broker_name))
        route = replace(route, queues=in_order)
        changed = self._topics.get(topic) != route
        self._topics[topic] = route
        self._brokers.update({one.broker_name: one.addresses for one in route.brokers})
        self._forget_unused()
        return changed

    def forget(self, topic: str) -> None:
        """Drop the route of a topic."""
        self._topics.pop(topic, None)
        self._forget_unused()

    def publish_queues(self, topic: str) -> list[MessageQueue]:
        """Return the writable queues of brokers that have a master; callers must not change the list."""
        found = self._publish_queues.get(topic)
        if found is None:
            found = self._publish_queues[topic] = [
                MessageQueue(topic, queues.broker_name, queue_id)
                for queues in self._queues(topic)
                if queues.perm & WRITE and MASTER_ID in self.addresses(queues.broker_name)
                for queue_id in range(queues.write_queue_nums)
            ]
        return found

    def subscribe_queues(self, topic: str) -> list[MessageQueue]:
        """Return the readable queues, sorted."""
        return sorted(
            MessageQueue(topic, queues.broker_name, queue_id)
            for queues in self._queues(topic)
            if queues.perm & READ
            for queue_id in range(queues.read_queue_nums)
        )

    def addresses(self, broker_name: str) -> Mapping[int, str]:
        """Return the addresses of a broker's instances by id; empty if the broker is unknown."""
        return self._brokers.get(broker_name, {})

    def master(self, broker_name: str) -> str | None:
        """Return the address of a broker's master."""
        return self.addresses(broker_name).get(MASTER_ID)

    def instance(self, broker_name: str, broker_id: int) -> str | None:
        """Return the address of an instance of a broker; for a slave that is missing, of another instance.

        Source: RocketMQ 5.5.0 MQClientInstance#findBrokerAddressInSubscribe, with onlyThisBroker false.
        """
        addresses = self.addresses(broker_name)
        wanted = (broker_id,) if broker_id == MASTER_ID else (broker_id, broker_id + 1)
        for one in (*wanted, *sorted(addresses)):
            if one in addresses:
                return addresses[one]
        return None

    def all_addresses(self, *, masters_only: bool = False) -> set[str]:
        """Return the addresses of all brokers of all topics."""
        return {
            address
            for addresses in self._brokers.values()
            for broker_id, address in addresses.items()
            if broker_id == MASTER_ID or not masters_only
        }

    def addresses_of_topic(self, topic: str) -> list[str]:
        """Return one address of each broker that has a topic: its master, else its first slave."""
        route = self._topics.get(topic)
        brokers = () if route is None else route.brokers
        return [broker.addresses[min(broker.addresses)] for broker in brokers if broker.addresses]

    def _forget_unused(self) -> None:
        self._publish_queues.clear()
        named = {one.broker_name for route in self._topics.values() for one in route.brokers}
        for name in self._brokers.keys() - named:
            del self._brokers[name]

    def _queues(self, topic: str) -> Iterator[QueueData]:
        if topic in self._topics:
            yield from self._topics[topic].queues


def route_of_new_topic(default: TopicRoute, queue_nums: int) -> TopicRoute:
    """Return the route of a topic that the first send creates, from the route of `DEFAULT_TOPIC`.

    Source: RocketMQ 5.5.0 MQClientInstance#updateTopicRouteInfoFromNameServer.
    """
    queues = tuple(
        replace(
            one,
            read_queue_nums=min(queue_nums, one.read_queue_nums),
            write_queue_nums=min(queue_nums, one.read_queue_nums),
        )
        for one in default.queues
    )
    return replace(default, queues=queues)


def _check(route: TopicRoute) -> None:
    for queues in route.queues:
        _check_name("brokerName", queues.broker_name)
    for broker in route.brokers:
        _check_name("brokerName", broker.broker_name)
        for address in broker.addresses.values():
            _check_name("brokerAddrs", address)
    left = MOST_QUEUES
    for queues in route.queues:
        for name, number in (
            ("readQueueNums", queues.read_queue_nums),
            ("writeQueueNums", queues.write_queue_nums),
        ):
            if not 0 <= number <= left:
                raise RequestError(
                    _REQUEST, name, f"0 to {left}, of {MOST_QUEUES} for all brokers", number
                )
        left -= max(queues.read_queue_nums, queues.write_queue_nums)


def _check_name(field: str, name: str) -> None:
    if len(name) > MOST_NAME or not name.isprintable():
        expected = f"at most {MOST_NAME} letters, none of them a control character"
        raise RequestError(_REQUEST, field, expected, shown_value(name))
