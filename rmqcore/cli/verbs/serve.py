"""``rmqcore serve``: a broker and a name server on a store."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import signal
import sys
import warnings
from collections.abc import Coroutine, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from rmqcore.broker.network.server import MOST_CONNECTIONS, VIP_BELOW, Ports, Ready, bind
from rmqcore.broker.network.server import serve as serve_store
from rmqcore.broker.settings import BrokerSettings
from rmqcore.cli.common import arguments
from rmqcore.cli.common.errors import note
from rmqcore.cli.common.output import print_json
from rmqcore.cli.common.shown import printable
from rmqcore.cli.stores.store_settings import read_config, store_settings
from rmqcore.cli.values import (
    MOST_PORT,
    endpoint,
    is_port,
    whole_number,
    wrong_value,
)
from rmqcore.config import MessageStoreConfig
from rmqcore.config.broker_conf import read_properties, wrong_in_file
from rmqcore.config.fields import BROKER_ROLES
from rmqcore.config.unused import (
    LEFT_TO_JAVA,
    NOT_SERVED_KEYS,
    UnusedSettingWarning,
    not_true_here,
)
from rmqcore.disk.paths import StorePaths
from rmqcore.engine.recovery.thoroughness import RecoverMode
from rmqcore.engine.store.store import MessageStore
from rmqcore.errors.arguments import SettingError
from rmqcore.errors.exit_codes import FAILED, OK
from rmqcore.ha.common_end import CommonEnd
from rmqcore.offline.log.store_paths import store_paths
from rmqcore.offline.queues.compacted_topics import list_compacted
from rmqcore.offline.waiting import count_waiting
from rmqcore.opening import open as open_store
from rmqcore.opening import open_by_mode, other_root
from rmqcore.vocabulary.units import INT_MAX

LOOPBACK = "127.0.0.1"
BROKER_PORT = 10911
NAMESRV_PORT = 9876
SLAVE_ID = 1
"""The brokerId of a slave whose configuration has none."""
FIRST, LAST = "first", "last"
FREE = "free"
OFF = "0"
_LOG = logging.getLogger("rmqcore.broker")


def serve(
    store: Annotated[
        Path,
        typer.Argument(
            metavar="STORE",
            help="The store's root; a new store is created if there is none.",
            show_default=False,
            parser=arguments.local_path,
        ),
    ],
    host: Annotated[
        str, typer.Option("--host", metavar="H", help="Listen on this address only.")
    ] = LOOPBACK,
    port: Annotated[
        int | None,
        typer.Option(
            "--port",
            metavar="P",
            parser=whole_number(0, MOST_PORT, "a port"),
            help="The broker's port; 0 picks a free one.",
            show_default=f"listenPort of the configuration, {BROKER_PORT}",
        ),
    ] = None,
    vip: Annotated[
        bool,
        typer.Option(
            "--vip",
            help=(
                "Also listen two ports below the broker's port, where RocketMQ clients before 4.5 "
                "connect (vipChannelEnabled)."
            ),
        ),
    ] = False,
    namesrv_port: Annotated[
        str | None,
        typer.Option(
            "--namesrv-port",
            metavar="N",
            help=f"The name server's port; {OFF} starts none, '{FREE}' picks a free one.",
            show_default=f"{NAMESRV_PORT}; a free one with --port 0; none with --namesrv",
        ),
    ] = None,
    namesrv: Annotated[
        list[str] | None,
        typer.Option(
            "--namesrv",
            metavar="H:N",
            help="Register at this name server; may be repeated.",
            show_default="namesrvAddr of the configuration",
        ),
    ] = None,
    role: Annotated[
        str | None,
        typer.Option(
            "--role",
            metavar="ROLE",
            help=f"{', '.join(BROKER_ROLES)}: masters accept messages, a SLAVE follows a master.",
            show_default=f"brokerRole of the configuration, {BROKER_ROLES[0]}",
        ),
    ] = None,
    ha_port: Annotated[
        int | None,
        typer.Option(
            "--ha-port",
            metavar="P",
            parser=whole_number(0, MOST_PORT, "a port"),
            help="The port on which a master serves its slaves; 0 picks a free one.",
            show_default="haListenPort of the configuration; one above the broker's with SYNC_MASTER; else none",
        ),
    ] = None,
    ha_master: Annotated[
        str | None,
        typer.Option(
            "--ha-master",
            metavar="H:A",
            help="Address and HA port of the slave's master.",
            show_default="haMasterAddress of the configuration; else the name server's answer",
        ),
    ] = None,
    ha_from: Annotated[
        str,
        typer.Option(
            "--ha-from",
            metavar="FILE",
            help=(
                "Where a slave with an empty store starts: at its master's 'first' or 'last' "
                "CommitLog file."
            ),
        ),
    ] = LAST,
    truncate_to_master: Annotated[
        bool,
        typer.Option(
            "--truncate-to-master",
            help=(
                "For a slave whose log differs from its master's: cut the bytes that the master "
                "lacks, keep them in STORE/cut/, and follow."
            ),
        ),
    ] = False,
    advertise: Annotated[
        str | None,
        typer.Option(
            "--advertise",
            metavar="H",
            help="The host under which clients reach the broker (brokerIP1).",
            show_default="--host",
        ),
    ] = None,
    allow: Annotated[
        list[str] | None,
        typer.Option(
            "--allow", metavar="CIDR", help="Only accept peers from this network; may be repeated."
        ),
    ] = None,
    insecure: Annotated[
        bool,
        typer.Option(
            "--insecure",
            help=(
                "Listen on a non-loopback address without --allow: every host that reaches it may "
                "connect."
            ),
        ),
    ] = False,
    max_connections: Annotated[
        int,
        typer.Option(
            "--max-connections",
            metavar="N",
            parser=whole_number(1, INT_MAX),
            help="Accept at most N connections at once.",
        ),
    ] = MOST_CONNECTIONS,
    config: arguments.BrokerConf = None,
    stay: Annotated[
        bool,
        typer.Option("--stay", help="Keep serving reads after the store has failed."),
    ] = False,
    for_version: arguments.ForVersion = None,
    json: Annotated[
        bool, typer.Option("--json", help="Print the ready line as a JSON object.")
    ] = False,
) -> int:
    """Serve a store to RocketMQ's clients: broker and name server.

    One line on stdout says that they are ready, and their addresses. There is no authentication: every client
    that can connect can read, write and delete. So the default is 127.0.0.1; another --host needs --allow or
    --insecure.

    SIGTERM and Ctrl-C stop it with exit code 0, after appended messages are answered and flushed and the store is
    closed. If the store fails (such as a failing disk) the exit code is 1. SIGHUP is ignored.

    Example:
      rmqcore serve /data/store
      rmqcore serve /data/store --port 0 --json
      rmqcore serve /data/store --host 192.0.2.7 --allow 192.0.2.0/24
    """
    given = read_config(config, runs=True) if config is not None else MessageStoreConfig()
    if for_version is not None:
        given = given.changed(for_version=for_version)
    given = _replicated(given, role, ha_master)
    from_first = _from_first(ha_from, given)
    if truncate_to_master and given.broker_role != "SLAVE":
        raise typer.BadParameter("--truncate-to-master needs --role SLAVE")
    settings = _broker_settings(config, given)
    ports = _ports(
        host, port, namesrv_port, namesrv, advertise, allow, max_connections, given.extra, vip=vip
    )
    ha = _ha_port(ha_port, ports.broker, config, given)
    ports = replace(ports, ha=ha, ha_from_first=from_first, ha_truncates=truncate_to_master)
    _check_reach(ports, insecure=insecure, broker_ip1=settings.broker_ip1)
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(message)s")
    _say_what_is_not_true(store, config, given)
    # The ports before the store: a start that fails because of a port leaves the store unchanged.
    with _ignoring_hangup(), closing(bind(settings, ports)) as bound:
        cut = None
        while True:
            with _opened(store, _store_config(store, given), cut) as opened:
                if cut is None:
                    _say_what_was_found(opened)
                    _say_what_is_not_served(store_paths(store, given))
                else:
                    _say_what_was_cut(opened, cut)
                on_ready = partial(_say_ready, json=json) if cut is None else _say_nothing
                kept = bound.kept() if truncate_to_master else bound
                cut = _run(serve_store(opened, settings, ports, on_ready, stay=stay, bound=kept))
                if opened.failed:
                    return FAILED
            if cut is None:
                return OK


def _say_what_is_not_served(paths: StorePaths) -> None:
    """Name messages that wait for a Java broker, and live ones that the log has deleted: pulls read the log."""
    for sentence in count_waiting(paths).sentences:
        note(printable(sentence))
    for one in list_compacted(paths):
        if one.only_here:
            note(printable(f"compacted topic {one.sentence}: consumers do not get these"))


def _say_what_is_not_true(store: Path, config: Path | None, given: MessageStoreConfig) -> None:
    """Print the keys of the configuration that have an effect in Java's broker only."""
    if config is None:
        return
    places = read_properties(config)
    if differs := other_root(store, given):
        note(printable(f"Warning: {config}:{places['storePathRootDir'].line}: {differs}"))
    for sentence in not_true_here(given.extra, {**LEFT_TO_JAVA, **NOT_SERVED_KEYS}):
        note(f"Warning: {config}:{places[sentence.partition('=')[0]].line}: {sentence}")


def _opened(store: Path, config: MessageStoreConfig, cut: CommonEnd | None) -> MessageStore:
    """Open the store, cut at the end set for its log; warnings about unused settings were printed before."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnusedSettingWarning)
        if cut is None:
            return open_store(store, config)
        return open_by_mode(store, config, RecoverMode(ends_at=cut.phy_offset), services=True)


@contextmanager
def _ignoring_hangup() -> Iterator[None]:
    """Ignore SIGHUP, which a closing terminal or a tool that rotates logs sends, also during recovery and close."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGHUP, before)


def _broker_settings(config: Path | None, given: MessageStoreConfig) -> BrokerSettings:
    try:
        return _with_role(BrokerSettings.from_properties(given.extra), given)
    except SettingError as error:
        if config is None:
            raise
        places = {key: (key, line) for key, (_, line) in read_properties(config).items()}
        raise wrong_in_file(config, error, places) from None


def _with_role(settings: BrokerSettings, given: MessageStoreConfig) -> BrokerSettings:
    """Return the settings with id 0 for a master and another id for a slave, as in Java's broker.

    Raises
    ------
    SettingError
        A slave is configured with the id 0.

    Notes
    -----
    Source: RocketMQ 5.5.0 BrokerStartup#createBrokerController, which ends if a SLAVE has no brokerId.
    """
    if not given.is_slave:
        return replace(settings, broker_id=0)
    if settings.broker_id:
        return settings
    if "brokerId" in given.extra:
        raise SettingError(
            ("brokerId",),
            "expected 1 or more with brokerRole=SLAVE, got 0: 0 is reserved for the master",
        )
    return replace(settings, broker_id=SLAVE_ID)


def _replicated(
    given: MessageStoreConfig, role: str | None, ha_master: str | None
) -> MessageStoreConfig:
    """Return the configuration with the options of replication."""
    if role is not None:
        if role.upper() not in BROKER_ROLES:
            raise wrong_value(role, f"one of {', '.join(BROKER_ROLES)}", "--role")
        given = given.changed(broker_role=role.upper())
    if ha_master is not None:
        if not given.is_slave:
            raise typer.BadParameter("--ha-master needs --role SLAVE")
        given = given.changed(ha_master_address=endpoint(ha_master, "--ha-master"))
    return given


def _from_first(option: str, given: MessageStoreConfig) -> bool:
    """Return True if a slave with an empty store gets all of its master's log."""
    if option not in (FIRST, LAST):
        raise wrong_value(option, f"{FIRST} or {LAST}", "--ha-from")
    if option == FIRST and not given.is_slave:
        raise typer.BadParameter("--ha-from needs --role SLAVE")
    return option == FIRST


def _ha_port(
    option: int | None, broker_port: int, config: Path | None, given: MessageStoreConfig
) -> int | None:
    """Return the port for slaves; None if slaves are not served."""
    if given.is_slave:
        if option is not None:
            raise typer.BadParameter("--ha-port needs a master's role: a slave cannot have slaves")
        return None
    if option is not None:
        return option
    above = broker_port and broker_port + 1  # a free port if the broker's port is a free one
    if config is not None and "haListenPort" in read_properties(config):
        return given.ha_listen_port or above
    return above if given.broker_role == "SYNC_MASTER" else None


def _say_what_was_cut(store: MessageStore, cut: CommonEnd) -> None:
    """Log the bytes that only the slave had, and the place where they are kept."""
    found = store.recovery
    _LOG.warning(
        "the log was cut at phy_offset %d, behind the last record in common with its master: %d "
        "messages (%d bytes, up to phy_offset %d) are not in the master's log, and are kept in "
        "%s: %s",
        cut.phy_offset,
        cut.messages,
        cut.slave_end - cut.phy_offset,
        cut.slave_end,
        found.cut_path,
        ", ".join(Path(one).name for one in found.cut_files),
    )


def _say_what_was_found(store: MessageStore) -> None:
    """Print the messages that the recovery removed, which clients may miss, and how many followers puts wait for."""
    found = store.recovery
    if found.cut_bytes:
        note(
            f"Warning: {found.cut_bytes} bytes behind the end of the log, at {found.end_phy_offset}, were cut "
            f"({found.stop_reason}); they are kept in {found.cut_path}"
        )
    for warning in found.warnings:
        note(f"Warning: {warning}")
    if found.unread is not None:
        note(f"Warning: {found.unread}")
    if store.config.broker_role == "SYNC_MASTER" and store.config.in_sync_replicas < 2:
        note(
            "Warning: brokerRole is SYNC_MASTER and inSyncReplicas 1, as in Java: a send waits for no slave; "
            "inSyncReplicas=2 waits for one"
        )


def _ports(
    host: str,
    port: int | None,
    namesrv_port: str | None,
    namesrv: list[str] | None,
    advertise: str | None,
    allow: list[str] | None,
    max_connections: int,
    given: Mapping[str, str],
    *,
    vip: bool = False,
) -> Ports:
    """Return the addresses to listen on and to register at, from the options and the configuration."""
    if port is None:
        port = _port(given.get("listenPort", str(BROKER_PORT)), "listenPort")
    if vip and 0 < port <= VIP_BELOW:
        raise wrong_value(
            str(port),
            f"a port above {VIP_BELOW}, because --vip also listens {VIP_BELOW} ports below it",
            "--port",
        )
    elsewhere = namesrv or [one for one in given.get("namesrvAddr", "").split(";") if one.strip()]
    if namesrv_port is None:
        namesrv_port = OFF if elsewhere else FREE if port == 0 else str(NAMESRV_PORT)
    number = {OFF: None, FREE: 0}.get(namesrv_port, -1)
    return Ports(
        host=host,
        broker=port,
        namesrv=_port(namesrv_port, "--namesrv-port", f", {OFF} or {FREE}")
        if number == -1
        else number,
        namesrvs=tuple(endpoint(one.strip(), "--namesrv") for one in elsewhere),
        advertise=advertise,
        allowed=tuple(_network(one) for one in allow or ()),
        max_connections=max_connections,
        vip=vip,
    )


def _port(text: str, name: str, more: str = "") -> int:
    if not is_port(text):
        raise wrong_value(text, f"a port from 1 to {MOST_PORT}{more}", name)
    return int(text)


def _network(text: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network:
    try:
        return ipaddress.ip_network(text)
    except ValueError:
        raise wrong_value(text, f"a network, such as {_network_around(text)}", "--allow") from None


def _network_around(text: str) -> str:
    """Return the network of a numeric address; an example for any other text."""
    try:
        return str(ipaddress.ip_network(text, strict=False))
    except ValueError:
        return "192.0.2.0/24"


def _check_reach(ports: Ports, *, insecure: bool, broker_ip1: str | None) -> None:
    """Refuse addresses that other machines reach, unless allowed, and addresses at which clients miss the broker."""
    try:
        address = ipaddress.ip_address(ports.host)
        loopback, everywhere = address.is_loopback, address.is_unspecified
    except ValueError:
        loopback, everywhere = ports.host == "localhost", False
    if not (loopback or ports.allowed or insecure):
        raise typer.BadParameter(
            f"--host {ports.host} can be reached from other hosts, and there is no authentication: "
            "name the networks that may connect with --allow CIDR, or allow all with --insecure"
        )
    if everywhere and not (ports.advertise or broker_ip1):
        raise typer.BadParameter(
            f"--host {ports.host} is not an address that clients can connect to: name the one they "
            "use with --advertise H"
        )


def _store_config(store: Path, given: MessageStoreConfig) -> MessageStoreConfig:
    """Return the configuration with the file sizes of the store, if it exists."""
    if not (store / "commitlog").is_dir():
        return given
    return store_settings(store, given, None, follow_links=False, to_open=True)[1]


def _run(serving: Coroutine[Any, Any, CommonEnd | None]) -> CommonEnd | None:
    """Run on uvloop if it is installed: it needs half of the CPU time of asyncio's own loop."""
    try:
        import uvloop
    except ImportError:
        return asyncio.run(serving)
    return uvloop.run(serving)


def _say_nothing(_: Ready) -> None:
    """Do nothing: the ready line has the ports already."""


def _say_ready(ready: Ready, *, json: bool) -> None:
    found = {
        "broker": ready.broker,
        "namesrv": ready.namesrv,
        "ha": ready.ha,
        "metrics": None,
        "web": None,
    }
    if json:
        print_json(found, one_line=True)
    else:
        listening = "  ".join(f"{name} {where}" for name, where in found.items() if where)
        sys.stdout.write(f"ready  {listening}\n")
        sys.stdout.flush()
