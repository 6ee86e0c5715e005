"""The requests that a name server answers, as functions from a request, a connection and the time to a response.

Source: RocketMQ 5.5.0 DefaultRequestProcessor, ClientRequestProcessor.
"""

from __future__ import annotations

import logging
import zlib
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Any, Protocol, cast

from rmqcore.errors import RequestError
from rmqcore.namesrv.kv_config import ORDER_TOPIC_CONFIG, KvConfig, KvConfigFullError
from rmqcore.namesrv.route_table import (
    DEFAULT_TIMEOUT_MS,
    BrokerAddress,
    LiveBrokerError,
    RegisteredBroker,
    RegisteredTopics,
    RouteTable,
    registered_topics,
)
from rmqcore.namesrv.settings import NameServerBounds, NameServerSettings
from rmqcore.remoting.bodies.json_object import encode_json, encode_long_json
from rmqcore.remoting.bodies.routes import encode_cluster_info, encode_route
from rmqcore.remoting.bodies.topic_configs import (
    RegistrationBounds,
    parse_data_version,
    parse_registration,
)
from rmqcore.remoting.codes import RequestCode, ResponseCode
from rmqcore.remoting.command import RemotingCommand
from rmqcore.remoting.request_fields import RequestFields, parse_fields
from rmqcore.remoting.said_once import SaidOnce, warn_unserved
from rmqcore.vocabulary.java_json import shown_value

MOST_BODY_BYTES = 4 << 20
"""Of a registration, plain; and of any other request `MOST_OTHER_BODY_BYTES`."""
MOST_PLAIN_BYTES = 8 << 20
"""Bytes that the compressed topics of one registration may become."""
MOST_OTHER_BODY_BYTES = 64 << 10
LONG_BODY_BYTES = 64 << 10
"""Longer registrations are parsed in another thread."""
MOST_LONG_WAITING = 4
"""Long registrations that may wait for that thread."""
SHORT_TABLE = 500
"""Entries of a table that is written at once."""
MOST_TOPICS = 50_000
"""Of one registration."""
MOST_VALUES = 400_000
"""Of one registration in JSON. A topic of Java's brokers has nine or ten, so that 4 MiB of them have 270,000."""
MOST_BROKERS = 1_000
_CRC_MASK = 0x7FFFFFFF
_LOG = logging.getLogger("rmqcore.namesrv")
_SEE = "\nSee https://rocketmq.apache.org/docs/bestPractice/06FAQ for further details."


class Asking(Protocol):
    """A connection of a client or a broker."""

    @property
    def closed(self) -> bool:
        """True if the connection is closed: nothing that is sent arrives any more."""
        ...

    def send(self, command: RemotingCommand) -> None:
        """Send a command."""
        ...

    def hold(self) -> None:
        """Leave the requests that follow unanswered until `release`."""
        ...

    def release(self) -> None:
        """Continue with the requests that followed."""
        ...


Parsed = tuple[RegisteredBroker, RegisteredTopics] | None
Later = Callable[[Callable[[], Any], Callable[[Future[Any]], object]], object]
"""Does a piece of work in another thread, one after the other, then calls back in this one; ValueError: too much work waits."""


class NameServer:
    """A name server without its socket. Not thread-safe.

    Attributes
    ----------
    routes : RouteTable
    kv_config : KvConfig
    settings : NameServerSettings
    bounds : NameServerBounds
    said_once : SaidOnce
        Warnings that peers cause.
    """

    def __init__(
        self, settings: NameServerSettings | None = None, bounds: NameServerBounds | None = None
    ) -> None:
        self.bounds = bounds or NameServerBounds()
        self.routes = RouteTable()
        self.kv_config = KvConfig(self.bounds.kv_config_bytes)
        self.settings = settings or NameServerSettings()
        self.said_once = SaidOnce(_LOG)
        self._long = 0

    def answer_peer(
        self, request: RemotingCommand, peer: Asking, *, now_ms: int, later: Later
    ) -> RemotingCommand | None:
        """Return the response to a request of another process, within bounds; None also if it is sent later.

        `later` parses the topics of a long registration. Requests that follow over the same connection wait, so that
        the last registration counts, and an unregistration takes effect after the registration.
        """
        if request.is_response:
            return None
        refused = self._refusal(request)
        if refused is not None:
            return None if request.is_oneway else refused
        is_registration = request.code == RequestCode.REGISTER_BROKER
        if not is_registration or len(request.body) <= LONG_BODY_BYTES:
            return self.answer(
                request, connection=peer, now_ms=now_ms, is_bounded=True, later=later
            )
        try:
            self._parse_later(request, peer, now_ms, later)
        except RequestError as error:
            response = request.response(ResponseCode.SYSTEM_ERROR, str(error))
        except ValueError as error:
            response = request.response(ResponseCode.SYSTEM_BUSY, str(error))
        else:
            return None
        return None if request.is_oneway else response

    def _refusal(self, request: RemotingCommand) -> RemotingCommand | None:
        """Return the response to a request that is too long."""
        is_registration = request.code == RequestCode.REGISTER_BROKER
        most = MOST_BODY_BYTES if is_registration else MOST_OTHER_BODY_BYTES
        if len(request.body) <= most:
            return None
        remark = f"{len(request.body)} bytes in the body, expected at most {most}"
        return request.response(ResponseCode.INVALID_PARAMETER, remark)

    def _parse_later(
        self, request: RemotingCommand, peer: Asking, now_ms: int, later: Later
    ) -> None:
        if self._long >= MOST_LONG_WAITING:
            raise ValueError(
                f"{MOST_LONG_WAITING} long registrations are already waiting, try again"
            )
        call = _Call(self, request, peer, now_ms, is_bounded=True)

        def parsed(done: Future[Parsed]) -> None:
            self._long -= 1
            peer.release()
            if peer.closed:
                return  # `connection_closed` came first: the registration would stay
            try:
                response = _register_table(call, done.result())
            except RequestError as error:
                response = request.response(ResponseCode.SYSTEM_ERROR, str(error))
            if not request.is_oneway:
                peer.send(response)

        later(partial(_registered_topics, call), parsed)
        self._long += 1
        peer.hold()

    def answer(
        self,
        request: RemotingCommand,
        *,
        connection: object,
        now_ms: int,
        is_bounded: bool = False,
        later: Later | None = None,
    ) -> RemotingCommand | None:
        """Return the response to a request; None for a one-way request or for a response.

        Parameters
        ----------
        request : RemotingCommand
        connection : object
            The connection of the request: a broker that registers over it is gone when it closes.
        now_ms : int
        is_bounded : bool
            Apply the bounds for requests of other processes.
        later : callable, optional
            Runs the writing of long tables: the response is sent afterwards, and None is returned. `connection` is an
            `Asking` then.
        """
        if request.is_response:
            return None
        handler = _HANDLERS.get(request.code)
        if handler is None:
            warn_unserved(self.said_once, now_ms, "name server", peer_of(connection), request)
            response: RemotingCommand | None = request.not_supported()
        else:
            try:
                call = _Call(self, request, connection, now_ms, is_bounded=is_bounded)
                found = handler(call)
                response = (
                    found if isinstance(found, RemotingCommand) else found.answer(call, later)
                )
            except RequestError as error:
                response = request.response(ResponseCode.SYSTEM_ERROR, str(error))
        return None if request.is_oneway else response

    def register(
        self, request: RemotingCommand, table: RegisteredTopics, *, connection: object, now_ms: int
    ) -> RemotingCommand:
        """Return the response to a registration of this process; its topics are used without a detour over JSON."""
        call = _Call(self, request, connection, now_ms, is_bounded=False)
        return _register_table(call, (_who_registers(call.fields), table))


def peer_of(connection: object) -> str:
    """Return the ``ip:port`` of a connection; ``this process`` for the broker of this process."""
    return str(getattr(connection, "peer", "this process"))


class _Call:
    """One request with all that its handler needs."""

    def __init__(
        self,
        server: NameServer,
        request: RemotingCommand,
        connection: object,
        now_ms: int,
        *,
        is_bounded: bool,
    ) -> None:
        self.server = server
        self.request = request
        self.connection = connection
        self.now_ms = now_ms
        self.is_bounded = is_bounded
        self.code = RequestCode(request.code)
        self.fields: RequestFields = parse_fields(self.code, request.ext_fields)
        self.respond = request.response

    @property
    def instance(self) -> BrokerAddress:
        return BrokerAddress(self.fields.text("clusterName"), self.fields.text("brokerAddr"))


class _Table:
    """A table to return as JSON, which must not change any more. Another thread writes a table of many entries."""

    def __init__(self, member: str, entries: list[str] | dict[str, str]) -> None:
        self._body = {member: entries}
        self._is_long = len(entries) > SHORT_TABLE

    def answer(self, call: _Call, later: Later | None) -> RemotingCommand | None:
        if later is None or not self._is_long:
            return call.respond(body=encode_json(self._body))
        if call.request.is_oneway:
            return None
        peer = cast("Asking", call.connection)
        try:
            later(
                partial(encode_long_json, self._body),
                lambda done: peer.send(call.respond(body=done.result())),
            )
        except ValueError as error:
            return call.respond(ResponseCode.SYSTEM_BUSY, str(error))
        return None


def _registered_topics(call: _Call) -> Parsed:
    """Parse a registration; return None if the body's CRC differs. Any thread may call it.

    Raises
    ------
    RequestError
        The body is not a registration, or has too many topics.
    """
    fields, body, name = call.fields, call.request.body, call.code.name
    crc = fields.number("bodyCrc32")
    if crc and crc != zlib.crc32(body) & _CRC_MASK:
        return None
    bounds = RegistrationBounds()
    if call.is_bounded:
        bounds = RegistrationBounds(MOST_PLAIN_BYTES, MOST_TOPICS, MOST_VALUES)
    compressed, version = fields.flag("compressed"), call.request.version
    table = parse_registration(name, body, version=version, compressed=compressed, bounds=bounds)
    who = _who_registers(fields)
    return who, registered_topics(table, read_only=who.is_read_only)


def _who_registers(fields: RequestFields) -> RegisteredBroker:
    return RegisteredBroker(
        cluster=fields.text("clusterName"),
        broker_name=fields.text("brokerName"),
        broker_id=fields.number("brokerId"),
        address=fields.text("brokerAddr"),
        ha_address=fields.text("haServerAddr"),
        timeout_ms=fields.number("heartbeatTimeoutMillis", DEFAULT_TIMEOUT_MS),
        enable_acting_master=(
            fields.flag("enableActingMaster") if "enableActingMaster" in fields else None
        ),
    )


def _register_broker(call: _Call) -> RemotingCommand:
    return _register_table(call, _registered_topics(call))


def _register_table(call: _Call, parsed: Parsed) -> RemotingCommand:
    if parsed is None:
        return call.respond(ResponseCode.SYSTEM_ERROR, "crc32 not match")
    who, table = parsed
    if call.is_bounded:
        _check_room(call, len(table.queues))
    settings = call.server.settings
    try:
        master = call.server.routes.register(
            who,
            table,
            connection=call.connection,
            now_ms=call.now_ms,
            delete_missing_topics=settings.delete_topic_with_broker_registration,
        )
    except LiveBrokerError as error:
        peer = peer_of(call.connection)
        host = peer.rpartition(":")[0] or peer
        text = "refused the registration of %s from %s: %s"
        shown = shown_value(who.broker_name), shown_value(who.address)
        call.server.said_once.warn(
            call.now_ms, ("taken", host, *shown), text, shown[1], host, error
        )
        return call.respond(ResponseCode.SYSTEM_ERROR, f"register broker failed: {error}")
    except ValueError:
        return call.respond(ResponseCode.SYSTEM_ERROR, "register broker failed")
    ext_fields = {"haServerAddr": master.ha_address, "masterAddr": master.address} if master else {}
    ordered = call.server.kv_config.namespace(ORDER_TOPIC_CONFIG)
    if not settings.return_order_topic_config_to_broker or ordered is None:
        return call.respond(ext_fields=ext_fields)
    return call.respond(ext_fields=ext_fields, body=encode_json({"table": ordered}))


def _check_room(call: _Call, topics: int) -> None:
    """Refuse a registration for which the table has no room.

    Raises
    ------
    RequestError
        The table is full.
    """
    routes, name = call.server.routes, call.code.name
    broker_name = call.fields.text("brokerName")
    if routes.broker(broker_name) is None and len(routes.brokers()) >= MOST_BROKERS:
        raise RequestError(name, "brokerName", f"one of {MOST_BROKERS:,} brokers", "another one")
    most = call.server.bounds.topics
    if routes.size() + topics > most:
        raise RequestError(
            name, "topics", f"at most {most:,} of all brokers (maxRegisteredTopics)", "more"
        )


def _unregister_broker(call: _Call) -> RemotingCommand:
    cluster, address = call.instance
    call.server.routes.unregister(cluster, call.fields.text("brokerName"), address)
    return call.respond()


def _broker_heartbeat(call: _Call) -> RemotingCommand:
    call.server.routes.heard_of(call.instance, call.now_ms)
    return call.respond()


def _query_data_version(call: _Call) -> RemotingCommand:
    theirs = parse_data_version(call.code.name, call.request.body)
    known = call.server.routes.data_version(call.instance)
    call.server.routes.heard_of(call.instance, call.now_ms)
    ext_fields = {"changed": "false" if known == theirs else "true"}
    body = b"" if known is None else encode_json(known.as_json())
    return call.respond(ext_fields=ext_fields, body=body)


def _member_group(call: _Call) -> RemotingCommand:
    name = call.fields.text("brokerName")
    broker = call.server.routes.broker(name)
    addresses = dict(sorted(broker.addresses.items())) if broker else {}
    group = {
        "brokerAddrs": {str(broker_id): address for broker_id, address in addresses.items()},
        "brokerName": name,
        "cluster": call.fields.text("clusterName"),
    }
    return call.respond(body=encode_json({"brokerMemberGroup": group}))


def _route(call: _Call) -> RemotingCommand:
    topic, settings = call.fields.text("topic"), call.server.settings
    route = call.server.routes.route(topic, acting_master=settings.support_acting_master)
    if route is None:
        remark = f"No topic route info in name server for the topic: {topic}{_SEE}"
        return call.respond(ResponseCode.TOPIC_NOT_EXIST, remark)
    order = None
    if settings.order_message_enable:
        order = call.server.kv_config.get(ORDER_TOPIC_CONFIG, topic)
    return call.respond(body=encode_route(route, order_topic_conf=order))


def _cluster_info(call: _Call) -> RemotingCommand:
    routes = call.server.routes
    return call.respond(body=encode_cluster_info(routes.brokers(), routes.clusters()))


def _topic_list(call: _Call) -> RemotingCommand | _Table:
    if not call.server.settings.enable_all_topic_list:
        return call.respond(ResponseCode.SYSTEM_ERROR, "disable")
    return _Table("topicList", call.server.routes.topics())


def _topics_by_cluster(call: _Call) -> _Table:
    """Return the topics of a cluster's brokers; an empty table for an unknown cluster."""
    return _Table("topicList", call.server.routes.topics_of_cluster(call.fields.text("cluster")))


def _system_topics(call: _Call) -> RemotingCommand:
    """Return the names of clusters and brokers, which every broker creates as topics, and one broker's address."""
    routes = call.server.routes
    listed: list[str] = []
    for cluster, names in routes.clusters().items():
        listed += [cluster, *names]
    body: dict[str, object] = {"topicList": list(dict.fromkeys(listed))}
    if brokers := [broker for broker in routes.brokers() if broker.addresses]:
        body = {"brokerAddr": brokers[0].addresses[min(brokers[0].addresses)], **body}
    return call.respond(body=encode_json(body))


def _delete_topic(call: _Call) -> RemotingCommand:
    cluster = call.fields.text("clusterName") or None
    call.server.routes.delete_topic(call.fields.text("topic"), cluster)
    return call.respond()


def _wipe_write_perm(call: _Call) -> RemotingCommand:
    count = call.server.routes.wipe_write_perm(call.fields.text("brokerName"))
    return call.respond(ext_fields={"wipeTopicCount": str(count)})


def _add_write_perm(call: _Call) -> RemotingCommand:
    count = call.server.routes.add_write_perm(call.fields.text("brokerName"))
    return call.respond(ext_fields={"addTopicCount": str(count)})


def _put_kv(call: _Call) -> RemotingCommand:
    namespace, key = call.fields.text("namespace"), call.fields.text("key")
    try:
        call.server.kv_config.put(namespace, key, call.fields.text("value"))
    except KvConfigFullError as error:
        return call.respond(ResponseCode.SYSTEM_ERROR, str(error))
    return call.respond()


def _get_kv(call: _Call) -> RemotingCommand:
    namespace, key = call.fields.text("namespace"), call.fields.text("key")
    value = call.server.kv_config.get(namespace, key)
    if value is None:
        remark = f"No config item, Namespace: {namespace} Key: {key}"
        return call.respond(ResponseCode.QUERY_NOT_FOUND, remark)
    return call.respond(ext_fields={"value": value})


def _kv_list(call: _Call) -> RemotingCommand | _Table:
    namespace = call.fields.text("namespace")
    found = call.server.kv_config.namespace(namespace)
    if found is None:
        remark = f"No config item, Namespace: {namespace}"
        return call.respond(ResponseCode.QUERY_NOT_FOUND, remark)
    return _Table("table", found)


def _delete_kv(call: _Call) -> RemotingCommand:
    call.server.kv_config.delete(call.fields.text("namespace"), call.fields.text("key"))
    return call.respond()


def _get_settings(call: _Call) -> RemotingCommand:
    return call.respond(body=call.server.settings.as_text().encode())


def _update_settings(call: _Call) -> RemotingCommand:
    call.server.settings = call.server.settings.changed(call.code.name, call.request.body)
    return call.respond()


_HANDLERS: dict[int, Callable[[_Call], RemotingCommand | _Table]] = {
    RequestCode.PUT_KV_CONFIG: _put_kv,
    RequestCode.GET_KV_CONFIG: _get_kv,
    RequestCode.DELETE_KV_CONFIG: _delete_kv,
    RequestCode.GET_KVLIST_BY_NAMESPACE: _kv_list,
    RequestCode.GET_TOPICS_BY_CLUSTER: _topics_by_cluster,
    RequestCode.REGISTER_BROKER: _register_broker,
    RequestCode.UNREGISTER_BROKER: _unregister_broker,
    RequestCode.GET_ROUTEINFO_BY_TOPIC: _route,
    RequestCode.GET_BROKER_CLUSTER_INFO: _cluster_info,
    RequestCode.WIPE_WRITE_PERM_OF_BROKER: _wipe_write_perm,
    RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: _topic_list,
    RequestCode.DELETE_TOPIC_IN_NAMESRV: _delete_topic,
    RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS: _system_topics,
    RequestCode.UPDATE_NAMESRV_CONFIG: _update_settings,
    RequestCode.GET_NAMESRV_CONFIG: _get_settings,
    RequestCode.QUERY_DATA_VERSION: _query_data_version,
    RequestCode.ADD_WRITE_PERM_OF_BROKER: _add_write_perm,
    RequestCode.GET_BROKER_MEMBER_GROUP: _member_group,
    RequestCode.BROKER_HEARTBEAT: _broker_heartbeat,
}
