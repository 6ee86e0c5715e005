"""The registered brokers, and their topics.

Source: RocketMQ 5.5.0 RouteInfoManager.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import chain
from typing import NamedTuple

from rmqcore.remoting.bodies.routes import MASTER_ID, BrokerData, QueueData, TopicRoute
from rmqcore.remoting.bodies.topic_configs import WRITE, TopicTable
from rmqcore.vocabulary.data_version import DataVersion
from rmqcore.vocabulary.java_json import shown_value

DEFAULT_TIMEOUT_MS = 120_000
"""How long a broker may be silent, unless it says otherwise when it registers."""
READ_AND_WRITE = 6
LIVE_MS = 75_000
"""A broker that was heard of in this time is live: each registers at least every 60 seconds."""
MEMBER_GROUP_PREFIX = "rmq_sys_SYNC_BROKER_MEMBER_"
"""Topics whose routes say how a broker is made up: no slave plays the master there."""


Queues = tuple[int, int, int, int]
"""Of a topic on one broker: ``readQueueNums``, ``writeQueueNums``, ``perm``, ``topicSysFlag``. A plain tuple of numbers costs
the garbage collector nothing; a hundred thousand objects stop all threads for 0.1 s each time it looks at them."""


class BrokerAddress(NamedTuple):
    """Address of a broker's instance, whose id may change."""

    cluster: str
    address: str


@dataclass(frozen=True, slots=True)
class RegisteredBroker:
    """A broker that registers. `enable_acting_master` is None for brokers before 5.0, which do not send it."""

    cluster: str
    broker_name: str
    broker_id: int
    address: str
    ha_address: str = ""
    timeout_ms: int = DEFAULT_TIMEOUT_MS
    enable_acting_master: bool | None = None

    @property
    def instance(self) -> BrokerAddress:
        """Address of the instance."""
        return BrokerAddress(self.cluster, self.address)

    @property
    def is_read_only(self) -> bool:
        """True if the broker is a slave that acts as master, whose queues refuse messages."""
        return bool(self.enable_acting_master) and self.broker_id != MASTER_ID


@dataclass(frozen=True, slots=True)
class RegisteredTopics:
    """The queues of all topics of a broker by topic, and the version of the broker's table."""

    queues: Mapping[str, Queues]
    data_version: DataVersion


class LiveBrokerError(ValueError):
    """A registration takes the name and id of a broker that is live at another address.

    Attributes
    ----------
    address : str
        Address of the live broker.
    """

    def __init__(self, who: RegisteredBroker, address: str) -> None:
        super().__init__(
            f"broker {shown_value(who.broker_name)} with id {who.broker_id} is live at {shown_value(address)}; "
            "give each broker its own brokerName, or its own brokerId within one"
        )
        self.address = address


@dataclass(frozen=True, slots=True)
class Master:
    """The addresses at which a slave finds its master."""

    address: str
    ha_address: str


@dataclass(slots=True)
class _Live:
    """A registered instance."""

    last_ms: int
    timeout_ms: int
    data_version: DataVersion
    connection: object
    ha_address: str


class RouteTable:
    """The table of a name server. Callers pass the time; connections compare by identity. Not thread-safe."""

    def __init__(self) -> None:
        self._queues: dict[str, dict[str, Queues]] = {}
        self._brokers: dict[str, BrokerData] = {}
        self._clusters: dict[str, set[str]] = {}
        self._live: dict[BrokerAddress, _Live] = {}

    # ---- brokers ----------------------------------------------------------------------------------

    def register(
        self,
        who: RegisteredBroker,
        table: RegisteredTopics,
        *,
        connection: object,
        now_ms: int,
        delete_missing_topics: bool = False,
    ) -> Master | None:
        """Register a broker and its topics, or renew its registration.

        Parameters
        ----------
        who : RegisteredBroker
        table : RegisteredTopics
            Used if its version differs from the one that this instance had, and for topics that the broker lacks.
        connection : object
            The connection whose end ends the registration; see `connection_closed`.
        now_ms : int
        delete_missing_topics : bool
            Remove topics of the broker that are not in `table`.

        Returns
        -------
        Master or None
            The master of a slave, if it is known.

        Raises
        ------
        ValueError
            An unknown instance registers a single topic: it has to register all topics first. Nothing is changed.
        LiveBrokerError
            Another live instance has the same name and id. Nothing is changed.

        Notes
        -----
        In Java the newer registration replaces the live one. Here it does so only over the live one's connection, from
        an instance that is registered under another id (a slave that becomes the master), with a newer state of a
        controller, or after the live one was silent for `LIVE_MS`.
        """
        taken = self._taken_from_live(who, table, connection, now_ms)
        if taken is not None:
            raise LiveBrokerError(who, taken)
        broker = self._brokers.get(who.broker_name) or BrokerData(who.cluster, who.broker_name)
        addresses = {
            broker_id: address
            for broker_id, address in broker.addresses.items()
            if address != who.address or broker_id == who.broker_id
        }
        if self._is_stale(who, addresses, table):
            self._live.pop(who.instance, None)
            self._place(who, broker, addresses)
            return None
        if who.broker_id not in addresses and len(table.queues) == 1:
            raise ValueError("a single topic can only be registered by a registered broker")
        is_first = not addresses.get(who.broker_id)
        addresses[who.broker_id] = who.address
        self._place(who, broker, addresses)
        if who.broker_id == MASTER_ID or self._is_prime_slave(who, addresses):
            is_new = is_first or self.data_version(who.instance) != table.data_version
            self._take_queues(who, table.queues, is_new=is_new, drop_others=delete_missing_topics)
        self._live[who.instance] = _Live(
            now_ms, who.timeout_ms, table.data_version, connection, who.ha_address
        )
        return self._master_of(who, addresses)

    def unregister(self, cluster: str, broker_name: str, address: str) -> None:
        """Remove an instance; with its last instance a broker and its queues are removed."""
        self._live.pop(BrokerAddress(cluster, address), None)
        broker = self._brokers.get(broker_name)
        if broker is None:
            return
        left = {number: other for number, other in broker.addresses.items() if other != address}
        self._brokers[broker_name] = replace(broker, addresses=left)
        if not left:
            self._forget_broker(broker_name)
        elif broker.enable_acting_master and MASTER_ID not in left:
            self._set_perm(broker_name, remove=WRITE)

    def connection_closed(self, connection: object) -> None:
        """Remove the instances that registered over a connection."""
        for instance, live in list(self._live.items()):
            if live.connection is connection:
                self._forget_instance(instance)

    def expire(self, now_ms: int) -> list[object]:
        """Remove the instances that were silent for too long.

        Returns
        -------
        list of object
            Their connections, which the caller closes.
        """
        silent = {
            instance: live.connection
            for instance, live in self._live.items()
            if live.last_ms + live.timeout_ms < now_ms
        }
        for instance in silent:
            self._forget_instance(instance)
        return list(silent.values())

    def heard_of(self, instance: BrokerAddress, now_ms: int) -> None:
        """Note a sign of life of an instance, if it is known."""
        if live := self._live.get(instance):
            live.last_ms = now_ms

    def data_version(self, instance: BrokerAddress) -> DataVersion | None:
        """Return the version of the topics that an instance registered; None for an unknown instance."""
        live = self._live.get(instance)
        return None if live is None else live.data_version

    # ---- questions --------------------------------------------------------------------------------

    def route(self, topic: str, *, acting_master: bool = False) -> TopicRoute | None:
        """Return the brokers and queues of a topic; None if no broker has it.

        With `acting_master`, a broker without a master that has enabled acting masters shows a slave as master.
        """
        queues = {
            name: QueueData(name, *topics[topic])
            for name, topics in self._queues.items()
            if topic in topics
        }
        brokers = [self._brokers[name] for name in queues if name in self._brokers]
        if not brokers:
            return None
        if acting_master and not topic.startswith(MEMBER_GROUP_PREFIX):
            brokers = [_with_acting_master(one, queues[one.broker_name]) for one in brokers]
        return TopicRoute(tuple(brokers), tuple(queues.values()))

    def size(self) -> int:
        """Count the topics of all brokers."""
        return sum(map(len, self._queues.values()))

    def brokers(self) -> tuple[BrokerData, ...]:
        """Return all brokers."""
        return tuple(self._brokers.values())

    def broker(self, broker_name: str) -> BrokerData | None:
        """Return one broker."""
        return self._brokers.get(broker_name)

    def clusters(self) -> dict[str, list[str]]:
        """Return the names of the brokers of each cluster."""
        return {cluster: sorted(names) for cluster, names in self._clusters.items()}

    def topics(self) -> list[str]:
        """Return the names of all topics."""
        return list(dict.fromkeys(chain.from_iterable(self._queues.values())))

    def topics_of_cluster(self, cluster: str) -> list[str]:
        """Return the names of the topics of a cluster's brokers."""
        names = self._clusters.get(cluster, set())
        listed = (topics for name, topics in self._queues.items() if name in names)
        return list(dict.fromkeys(chain.from_iterable(listed)))

    # ---- changes by operators ---------------------------------------------------------------------

    def delete_topic(self, topic: str, cluster: str | None = None) -> None:
        """Remove a topic, from all brokers or from those of one cluster."""
        for name in self._queues if cluster is None else self._clusters.get(cluster, set()):
            self._queues.get(name, {}).pop(topic, None)

    def wipe_write_perm(self, broker_name: str) -> int:
        """Forbid writes to a broker's queues until it registers other topics; return the number of its topics."""
        return self._set_perm(broker_name, remove=WRITE)

    def add_write_perm(self, broker_name: str) -> int:
        """Allow reads and writes of a broker's queues; return the number of its topics."""
        return self._set_perm(broker_name, to=READ_AND_WRITE)

    # ---- inside -----------------------------------------------------------------------------------

    def _is_stale(
        self, who: RegisteredBroker, addresses: Mapping[int, str], table: RegisteredTopics
    ) -> bool:
        """Return True if another instance has this id and a newer state."""
        old = addresses.get(who.broker_id)
        if old is None or old == who.address:
            return False
        version = self.data_version(BrokerAddress(who.cluster, old))
        return version is not None and version.state_version > table.data_version.state_version

    def _taken_from_live(
        self, who: RegisteredBroker, table: RegisteredTopics, connection: object, now_ms: int
    ) -> str | None:
        """Return the address of the live instance whose place a registration would take."""
        broker = self._brokers.get(who.broker_name)
        old = None if broker is None else broker.addresses.get(who.broker_id)
        if broker is None or old is None or who.address in broker.addresses.values():
            return None
        live = self._live.get(BrokerAddress(broker.cluster, old))
        if live is None or live.connection is connection:
            return None
        if live.last_ms + min(LIVE_MS, live.timeout_ms) < now_ms:
            return None
        # Only a controller numbers states, from 1 on.
        is_elected = 0 < live.data_version.state_version <= table.data_version.state_version
        return None if is_elected else old

    def _place(self, who: RegisteredBroker, broker: BrokerData, addresses: dict[int, str]) -> None:
        self._clusters.setdefault(who.cluster, set()).add(who.broker_name)
        self._brokers[who.broker_name] = replace(
            broker, addresses=addresses, enable_acting_master=bool(who.enable_acting_master)
        )

    @staticmethod
    def _is_prime_slave(who: RegisteredBroker, addresses: Mapping[int, str]) -> bool:
        return who.enable_acting_master is not None and who.broker_id == min(addresses)

    def _take_queues(
        self,
        who: RegisteredBroker,
        queues: Mapping[str, Queues],
        *,
        is_new: bool,
        drop_others: bool,
    ) -> None:
        known = self._queues.setdefault(who.broker_name, {})
        if drop_others:
            for topic in known.keys() - queues.keys():
                del known[topic]
        if is_new:
            known.update(queues)
        elif not queues.keys() <= known.keys():
            known.update({topic: of for topic, of in queues.items() if topic not in known})

    def _master_of(self, who: RegisteredBroker, addresses: Mapping[int, str]) -> Master | None:
        address = addresses.get(MASTER_ID)
        if who.broker_id == MASTER_ID or address is None:
            return None
        live = self._live.get(BrokerAddress(who.cluster, address))
        return None if live is None else Master(address, live.ha_address)

    def _forget_instance(self, instance: BrokerAddress) -> None:
        for name in self._clusters.get(instance.cluster, set()):
            broker = self._brokers[name]
            if instance.address in broker.addresses.values():
                self.unregister(instance.cluster, name, instance.address)
                return
        del self._live[instance]

    def _forget_broker(self, broker_name: str) -> None:
        del self._brokers[broker_name]
        for cluster, names in list(self._clusters.items()):
            names.discard(broker_name)
            if not names:
                del self._clusters[cluster]
        self._queues.pop(broker_name, None)

    def _set_perm(self, broker_name: str, *, remove: int = 0, to: int | None = None) -> int:
        known = self._queues.get(broker_name, {})
        for topic, (reads, writes, perm, sys_flag) in known.items():
            known[topic] = (reads, writes, perm & ~remove if to is None else to, sys_flag)
        return len(known)


def registered_topics(table: TopicTable, *, read_only: bool = False) -> RegisteredTopics:
    """Return the part of a broker's topics that the route table keeps. Any thread may call it.

    Parameters
    ----------
    table : TopicTable
    read_only : bool
        As `RegisteredBroker.is_read_only` says.
    """
    removed = WRITE if read_only else 0
    queues = {
        topic.name: (
            topic.read_queue_nums,
            topic.write_queue_nums,
            topic.perm & ~removed,
            topic.topic_sys_flag,
        )
        for topic in table.topics.values()
    }
    return RegisteredTopics(queues, table.data_version)


def _with_acting_master(broker: BrokerData, queues: QueueData) -> BrokerData:
    """Return the broker with its lowest slave as master, if it has no master and its queues refuse writes."""
    has_master = MASTER_ID in broker.addresses
    if has_master or not broker.addresses or not broker.enable_acting_master or queues.perm & WRITE:
        return broker
    lowest = min(broker.addresses)
    others = {number: address for number, address in broker.addresses.items() if number != lowest}
    return replace(broker, addresses={MASTER_ID: broker.addresses[lowest], **others})
