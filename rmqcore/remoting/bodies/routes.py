"""The brokers of a topic, and those of a cluster, as a name server sends them and a client reads them.

Source: RocketMQ 5.5.0 TopicRouteData, BrokerData, QueueData, ClusterInfo.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from rmqcore.errors import RequestError
from rmqcore.remoting.bodies.json_object import JsonObject, encode_json, parse_body
from rmqcore.vocabulary.java_json import shown_value

MASTER_ID = 0


@dataclass(frozen=True, slots=True)
class QueueData:
    """The queues of a topic on one broker."""

    broker_name: str
    read_queue_nums: int
    write_queue_nums: int
    perm: int
    topic_sys_flag: int = 0

    def as_json(self) -> dict[str, Any]:
        """Return it by Java's names."""
        return {
            "brokerName": self.broker_name,
            "perm": self.perm,
            "readQueueNums": self.read_queue_nums,
            "topicSysFlag": self.topic_sys_flag,
            "writeQueueNums": self.write_queue_nums,
        }


@dataclass(frozen=True, slots=True)
class BrokerData:
    """The instances of a broker by id; 0 is the master."""

    cluster: str
    broker_name: str
    addresses: Mapping[int, str] = field(default_factory=dict)
    enable_acting_master: bool = False

    def as_json(self) -> dict[str, Any]:
        """Return it by Java's names. Ids are keys in quotes, which all clients read, and strict ones require."""
        return {
            "brokerAddrs": {
                str(broker_id): self.addresses[broker_id] for broker_id in sorted(self.addresses)
            },
            "brokerName": self.broker_name,
            "cluster": self.cluster,
            "enableActingMaster": self.enable_acting_master,
        }


@dataclass(frozen=True, slots=True)
class TopicRoute:
    """The brokers and queues of a topic."""

    brokers: tuple[BrokerData, ...]
    queues: tuple[QueueData, ...]


def encode_route(route: TopicRoute, *, order_topic_conf: str | None = None) -> bytes:
    """Write the body of GET_ROUTEINFO_BY_TOPIC; for an ordered topic with the text that locates its queues."""
    body: dict[str, Any] = {
        "brokerDatas": [broker.as_json() for broker in route.brokers],
        "filterServerTable": {},
    }
    if order_topic_conf is not None:
        body["orderTopicConf"] = order_topic_conf
    body["queueDatas"] = [queues.as_json() for queues in route.queues]
    return encode_json(body)


def parse_route(request: str, body: bytes) -> TopicRoute:
    """Read the body of GET_ROUTEINFO_BY_TOPIC.

    Raises
    ------
    RequestError
        The body is not valid.
    """
    found = parse_body(request, body)
    return TopicRoute(
        tuple(_broker(request, broker) for broker in found.objects("brokerDatas")),
        tuple(
            QueueData(
                queues.text("brokerName"),
                queues.number("readQueueNums"),
                queues.number("writeQueueNums"),
                queues.number("perm"),
                queues.number("topicSysFlag", 0),
            )
            for queues in found.objects("queueDatas")
        ),
    )


def encode_cluster_info(
    brokers: Iterable[BrokerData], clusters: Mapping[str, Iterable[str]]
) -> bytes:
    """Write the body of GET_BROKER_CLUSTER_INFO: all brokers, and the names of those of each cluster."""
    return encode_json(
        {
            "brokerAddrTable": {broker.broker_name: broker.as_json() for broker in brokers},
            "clusterAddrTable": {cluster: list(names) for cluster, names in clusters.items()},
        }
    )


def parse_cluster_info(request: str, body: bytes) -> tuple[BrokerData, ...]:
    """Read the brokers of GET_BROKER_CLUSTER_INFO.

    Raises
    ------
    RequestError
        The body is not valid.
    """
    found = parse_body(request, body)
    return tuple(_broker(request, broker) for _, broker in found.table("brokerAddrTable"))


def _broker(request: str, found: JsonObject) -> BrokerData:
    addresses = {}
    for key, address in found.text_table("brokerAddrs").items():
        if not (key.isascii() and key.isdigit() and len(key) < 20):
            raise RequestError(request, "brokerAddrs", "a broker id", shown_value(key))
        addresses[int(key)] = address
    return BrokerData(
        found.text("cluster"), found.text("brokerName"), addresses, found.flag("enableActingMaster")
    )
