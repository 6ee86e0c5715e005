"""The sockets: a broker and a name server on their ports, from the first connection to the last answer.

Source: RocketMQ 5.5.0 BrokerStartup, BrokerController#start, #shutdown.
"""

from __future__ import annotations

import asyncio
import gc
import ipaddress
import signal
import socket
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial

from rmqcore.broker import requests
from rmqcore.broker.broker import Broker
from rmqcore.broker.channel import Asker
from rmqcore.broker.long_work import SWITCH_INTERVAL_S
from rmqcore.broker.network.connection import ClientConnection, Connections
from rmqcore.broker.network.files_limit import LoopErrors, allowed_connections
from rmqcore.broker.network.ha_master import HaMaster
from rmqcore.broker.network.ha_slave import HaSlave
from rmqcore.broker.network.listener import Listener
from rmqcore.broker.network.name_server_link import host_port
from rmqcore.broker.network.registration import Registration
from rmqcore.broker.quick_pulls import QuickPulls
from rmqcore.broker.quick_sends import QuickSends
from rmqcore.broker.settings import BrokerSettings
from rmqcore.engine.store.store import MessageStore
from rmqcore.ha.common_end import CommonEnd
from rmqcore.namesrv.requests import NameServer
from rmqcore.namesrv.settings import NameServerBounds
from rmqcore.remoting.command import RemotingCommand

MOST_CONNECTIONS = 1_000
CHECK_IDLE_MS = 5_000
EXPIRE_BROKERS_MS = 5_000
LAST_ANSWERS_S = 10.0
"""Seconds that an ending broker waits for the answers to what it has appended."""
LAST_BYTES_S = 5.0
"""Seconds that its peers have to take them."""
END_STEP_S = 0.01
VIP_BELOW = 2
"""The second port of Java's broker, fastRemotingServer, is listenPort minus 2."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ports:
    """The ports and addresses on which a server listens, and the peers that may connect.

    Attributes
    ----------
    host : str
        The only host on which the broker and the name server listen.
    broker, namesrv : int or None
        Ports; 0 picks a free one. `namesrv` is None without a name server.
    vip : bool
        The broker also listens two ports below its own, where clients before 4.5 connect by default.
    namesrvs : tuple of str
        Name servers elsewhere, ``host:port``, where the broker registers as well.
    advertise : str or None
        The host that clients receive; None: `host`.
    ha : int or None
        The port at which slaves get the log of a master; 0 picks a free one, None: nothing listens.
    ha_from_first : bool
        A slave with an empty store begins with its master's first CommitLog file, not with its last.
    ha_truncates : bool
        A slave whose log has parted from its master's stops, and `serve` returns where the log must be cut.
    allowed : tuple of networks
        Peers that may connect; empty: all that reach the port.
    max_connections : int
        For the broker and the name server each; `serve` lowers it if the process may not open that many files.
    """

    host: str = "127.0.0.1"
    broker: int = 10911
    namesrv: int | None = 9876
    vip: bool = False
    namesrvs: tuple[str, ...] = ()
    advertise: str | None = None
    ha: int | None = None
    ha_from_first: bool = False
    ha_truncates: bool = False
    allowed: tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, ...] = ()
    max_connections: int = MOST_CONNECTIONS

    def may_connect(self, host: str) -> bool:
        """Return whether a peer may connect."""
        if not self.allowed:
            return True
        try:
            peer = ipaddress.ip_address(host.partition("%")[0])
        except ValueError:
            return False
        mapped = getattr(peer, "ipv4_mapped", None)
        return any((mapped or peer) in network for network in self.allowed)


@dataclass(frozen=True, slots=True)
class Ready:
    """Addresses of a server that is ready, each as ``host:port``; None if it does not listen there."""

    broker: str
    namesrv: str | None
    ha: str | None = None


@dataclass(frozen=True, slots=True)
class Bound:
    """The ports of a server, bound before the store is opened; none of them listens yet.

    Attributes
    ----------
    broker : socket
    namesrv, vip : socket or None
        None without a name server, and without a second port of the broker.
    ha : socket or None
        None without an HA port.
    host : str
        The host that clients receive.
    store_host : str
        The address of `host` in numbers, for records.
    """

    broker: socket.socket
    namesrv: socket.socket | None
    vip: socket.socket | None
    ha: socket.socket | None
    host: str
    store_host: str

    @property
    def port(self) -> int:
        """The broker's port."""
        return int(self.broker.getsockname()[1])

    def kept(self) -> Bound:
        """Return a copy that holds the same ports, for a restart of the server: new connections wait in between."""
        vip, namesrv, ha = (
            None if one is None else one.dup() for one in (self.vip, self.namesrv, self.ha)
        )
        return replace(self, broker=self.broker.dup(), vip=vip, namesrv=namesrv, ha=ha)

    def close(self) -> None:
        """Close the ports."""
        for one in (self.broker, self.namesrv, self.vip, self.ha):
            if one is not None:
                one.close()


def bind(settings: BrokerSettings, ports: Ports) -> Bound:
    """Bind the ports of a server first, so that a server that cannot start leaves its store unchanged.

    Raises
    ------
    OSError
        A port is taken, the host is not one of this machine, or the advertised host has no address.
    """
    host = ports.advertise or settings.broker_ip1 or ports.host
    with ExitStack() as stack:

        def bound_to(port: int) -> socket.socket:
            one = _bind(ports.host, port)
            stack.callback(one.close)
            return one

        broker = bound_to(ports.broker)
        vip = bound_to(broker.getsockname()[1] - VIP_BELOW) if ports.vip else None
        namesrv = None if ports.namesrv is None else bound_to(ports.namesrv)
        ha = None if ports.ha is None else bound_to(ports.ha)
        bound = Bound(broker, namesrv, vip, ha, host, _numbers(host))
        stack.pop_all()
    return bound


@dataclass(frozen=True, slots=True)
class Running:
    """A server that runs.

    Attributes
    ----------
    ready : Ready
    broker : Broker
    connections : Connections
        Those of the broker.
    asking : Connections or None
        Those of the name server.
    ha_master : HaMaster or None
        The HA port.
    ha_slave : HaSlave or None
        The part that follows a master.
    """

    ready: Ready
    broker: Broker
    connections: Connections
    asking: Connections | None
    ha_master: HaMaster | None
    ha_slave: HaSlave | None


async def serve(
    store: MessageStore,
    settings: BrokerSettings,
    ports: Ports,
    on_ready: Callable[[Ready], object],
    *,
    stay: bool = False,
    bound: Bound | None = None,
) -> CommonEnd | None:
    """Serve a store until SIGTERM, SIGINT or a failure of the store; then answer appended messages, flush and return.

    The caller closes the store.

    Parameters
    ----------
    store : MessageStore
        Open, with its threads.
    settings : BrokerSettings
    ports : Ports
    on_ready : callable
        Receives the addresses of the server, once clients can be served.
    stay : bool
        Continue to serve reads after the store has failed.
    bound : Bound, optional
        The result of `bind` for `settings` and `ports`; without it the ports are bound now.

    Returns
    -------
    CommonEnd or None
        With `ports.ha_truncates`, where the log has to be cut before it can follow its master. The caller cuts it and
        serves the store again.

    Raises
    ------
    OSError
        As for `bind`.
    """
    listening = 1 + (ports.namesrv is not None) + (ports.ha is not None)
    allowed = allowed_connections(listening, ports.max_connections)
    ports = replace(ports, max_connections=allowed)
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(LoopErrors())
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    ended, told_to_end = asyncio.Event(), asyncio.Event()

    def end() -> None:
        told_to_end.set()
        ended.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, end)
    async with serving(store, settings, ports, bound) as server:
        if not stay:
            server.broker.store_watch.on_failed = ended.set
        if server.ha_slave is not None:
            server.ha_slave.on_cut = ended.set
        # Objects that were read at the start live as long as the process: the collector need not visit them.
        gc.collect()
        gc.freeze()
        on_ready(server.ready)
        await ended.wait()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)  # a second one ends the process at once
        return None if server.ha_slave is None or told_to_end.is_set() else server.ha_slave.cut


@asynccontextmanager
async def serving(
    store: MessageStore, settings: BrokerSettings, ports: Ports, bound: Bound | None = None
) -> AsyncIterator[Running]:
    """Serve a store while the context lasts; at its end, answer and flush the appended messages.

    Parameters
    ----------
    store : MessageStore
        Open, with its threads. The caller closes it.
    settings : BrokerSettings
    ports : Ports
    bound : Bound, optional
        As for `serve`; closed at the end in any case.

    Raises
    ------
    OSError
        As for `bind`.
    """
    async with AsyncExitStack() as stack:
        if bound is None:
            bound = bind(settings, ports)
        stack.callback(bound.close)
        yield await _start(store, settings, ports, bound, stack)


async def _start(
    store: MessageStore,
    settings: BrokerSettings,
    ports: Ports,
    bound: Bound,
    stack: AsyncExitStack,
) -> Running:
    """Start all parts; `stack` ends them in the opposite order."""
    loop = asyncio.get_running_loop()
    port = bound.port
    address, store_host = host_port(bound.host, port), host_port(bound.store_host, port)
    broker = Broker(store, settings, loop, address=address, store_host=store_host)
    stack.callback(broker.stop)
    namesrv_address = None
    name_server = None
    asking = None
    if bound.namesrv is not None:
        bounds = NameServerBounds(settings.max_registered_topics, settings.max_kv_config_bytes)
        name_server = NameServer(bounds=bounds)
        asking = _name_connections(name_server, broker, ports)
        namesrv_address = host_port(ports.host, bound.namesrv.getsockname()[1])
        _listen(bound.namesrv, asking, broker, stack)
    ha_master = None if bound.ha is None else _listen_ha(bound.ha, bound.host, broker, ports, stack)
    registration = Registration(broker, name_server, ports.namesrvs)
    await registration.start()
    connections = Connections(
        partial(requests.handle, broker),
        broker.channel_closed,
        ports.may_connect,
        ports.max_connections,
        QuickSends(broker),
        QuickPulls(broker),
        None if ha_master is None else ha_master.requests_answered,
        settings.max_buffered_bytes,
    )
    broker.start()
    _listen(bound.broker, connections, broker, stack)
    if bound.vip is not None:
        _listen(bound.vip, connections, broker, stack)
    ha_slave = None
    if store.config.is_slave:
        ha_slave = HaSlave(
            broker,
            registration,
            from_first=ports.ha_from_first,
            truncates=ports.ha_truncates,
        )
        stack.push_async_callback(ha_slave.stop)
        ha_slave.start()
    stack.push_async_callback(registration.stop)
    ha_address = None if bound.ha is None else host_port(ports.host, bound.ha.getsockname()[1])
    ready = Ready(host_port(ports.host, port), namesrv_address, ha_address)
    return Running(ready, broker, connections, asking, ha_master, ha_slave)


def _listen_ha(
    bound: socket.socket, host: str, broker: Broker, ports: Ports, stack: AsyncExitStack
) -> HaMaster:
    """Listen for slaves; at the end they receive the appended messages before their connections are closed."""
    ha_master = HaMaster(broker, ports.may_connect, ports.max_connections, broker.store.replicated)
    broker.replication.ha_address = host_port(host, bound.getsockname()[1])
    broker.replication.slaves = ha_master.slaves
    server = _accept(bound, ha_master)

    async def end() -> None:
        server.close()
        await _until(ha_master.all_hold, LAST_BYTES_S)
        ha_master.close()
        await _until(lambda: not ha_master.open, LAST_BYTES_S)

    stack.push_async_callback(end)
    return ha_master


def _name_connections(name_server: NameServer, broker: Broker, ports: Ports) -> Connections:
    """Return the connections of a name server, which regularly drops silent brokers."""

    def answer(request: RemotingCommand, channel: Asker) -> RemotingCommand | None:
        return name_server.answer_peer(
            request, channel, now_ms=broker.now_ms(), later=broker.parser.run
        )

    def expire() -> None:
        for silent in name_server.routes.expire(broker.now_ms()):
            if isinstance(silent, ClientConnection):
                silent.close()

    broker.every(EXPIRE_BROKERS_MS, expire)
    closed = name_server.routes.connection_closed
    return Connections(
        answer,
        closed,
        ports.may_connect,
        ports.max_connections,
        max_buffered=broker.settings.max_buffered_bytes,
    )


def _listen(
    bound: socket.socket, connections: Connections, broker: Broker, stack: AsyncExitStack
) -> None:
    server = _accept(bound, connections)
    broker.every(CHECK_IDLE_MS, connections.close_idle)
    stack.push_async_callback(_end, server, connections, broker)


def _accept(bound: socket.socket, protocol: Callable[[], asyncio.BaseProtocol]) -> Listener:
    """Let peers connect to a port; each gets a protocol of its own."""
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # see _keep
    return Listener(bound, protocol)


async def _end(server: Listener, connections: Connections, broker: Broker) -> None:
    """Accept no more requests, answer those whose messages are appended or wait for their topic, and close the connections."""
    server.close()
    for connection in connections.open:
        connection.end_reading()
    await _until(
        lambda: broker.puts_in_flight == 0 and not broker.config_files.is_awaited, LAST_ANSWERS_S
    )
    for connection in list(connections.open):
        connection.close()
    await _until(lambda: not connections.open, LAST_BYTES_S)
    for connection in list(connections.open):
        connection.abort()


async def _until(holds: Callable[[], bool], seconds: float) -> None:
    """Wait until `holds` returns True, for at most some seconds; it is called every 10 ms."""
    for _ in range(round(seconds / END_STEP_S)):
        if holds():
            return
        await asyncio.sleep(END_STEP_S)


def _numbers(host: str) -> str:
    """Resolve a host's name to an address: records have no room for names.

    Raises
    ------
    OSError
        The host's name is unknown.
    """
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)[0][4][0]
    except OSError as error:
        raise OSError(error.errno, f"no address of {host}: {error.strerror}") from None
    return str(found).partition("%")[0]


def _bind(host: str, port: int) -> socket.socket:
    """Bind a port of one address, so that the port is known before a client can connect.

    Raises
    ------
    OSError
        The port is taken, or the host is not one of this machine; the message names both.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        bound = socket.socket(family, kind, protocol)
    except OSError as error:
        raise OSError(
            error.errno, f"cannot listen on {host_port(host, port)}: {error.strerror}"
        ) from None
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
        if port and sys.platform == "linux":
            _keep(bound)
    except OSError as error:
        bound.close()
        raise OSError(
            error.errno, f"cannot listen on {host_port(host, port)}: {error.strerror}"
        ) from None
    return bound


def _keep(bound: socket.socket) -> None:
    """Keep other processes from binding the port before the server listens.

    SO_REUSEADDR lets a server start while closed connections of an earlier one linger, but on Linux two servers can
    then bind one port as long as neither listens: the second would fail only after its store is open. So the socket
    listens for a moment, which the kernel notes, and forbids reuse until `_accept` allows it again. This would lose a
    port that the kernel has picked, which no other process asks for anyway.
    """
    bound.listen(1)
    bound.shutdown(socket.SHUT_RDWR)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 0)
