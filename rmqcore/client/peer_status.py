"""Checks that a broker or name server is up and ready, by one request over a separate connection.

Source: RocketMQ 5.5.0 AdminBrokerProcessor#getBrokerRuntimeInfo, #getBrokerConfig, CleanCommitLogService#isSpaceToDelete.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from rmqcore.client.connection import Connection
from rmqcore.client.remote import Answer, Remote
from rmqcore.config.broker_conf import parse_properties
from rmqcore.errors import AnswerTimeoutError
from rmqcore.remoting.bodies.json_object import JsonObject, parse_body
from rmqcore.remoting.bodies.routes import parse_cluster_info
from rmqcore.remoting.codes import RequestCode, ResponseCode
from rmqcore.remoting.command import RemotingCommand

BROKER, NAME_SERVER = "broker", "name server"
OK, FULL = "ok", "full"
WARNING_LEVEL_PERCENT = 90
"""Above it a Java broker refuses messages. Source: RocketMQ 5.5.0 MessageStoreConfig#diskSpaceWarningLevelRatio."""
_RUNTIME_INFO = RequestCode.GET_BROKER_RUNTIME_INFO
_SETTINGS = RequestCode.GET_BROKER_CONFIG
_CLUSTER_INFO = RequestCode.GET_BROKER_CLUSTER_INFO
_MAYBE_NAME_SERVER = ResponseCode.SUCCESS, ResponseCode.REQUEST_CODE_NOT_SUPPORTED
_MAY_REFUSE = tuple(ResponseCode)


@dataclass(frozen=True, slots=True)
class PeerStatus:
    """Status reported by a broker or name server.

    Attributes
    ----------
    address : str
    role : str
        ``broker`` or ``name server``.
    name, cluster : str or None
        Names of a broker and its cluster; None if the broker does not report them.
    broker_id : int or None
        0: a master.
    version : str or None
        Version of RocketMQ, for example ``V5_5_0``; None for a name server, which does not report it.
    store : str or None
        ``ok``; ``full``: the disk has no room for messages; ``refusing``: the store refuses messages for now;
        ``failed``: it refuses them until the broker is restarted. None for a name server.
    reason : str or None
        Why the store is not ``ok``.
    brokers : list of str or None
        The brokers that a name server knows; None for a broker.
    replication : dict or None
        For a broker of rmqcore: ``role``, ``log_end`` and ``ha_address``; ``slaves``, each with ``address``,
        ``phy_offset`` up to which it holds the log, ``lag_bytes``, ``lag_seconds`` and ``in_sync``; ``master`` of a
        slave, with ``ha_address``, ``connected``, ``master_end``, ``lag_bytes``, ``lag_seconds`` and ``error``, else
        None.
    round_trip_ms : float
        Milliseconds from the request to the answer, without the time to connect.
    """

    address: str
    role: str
    round_trip_ms: float
    name: str | None = None
    cluster: str | None = None
    broker_id: int | None = None
    version: str | None = None
    store: str | None = None
    reason: str | None = None
    brokers: list[str] | None = None
    replication: dict[str, Any] | None = None

    @property
    def ready(self) -> bool:
        """True if clients can be served: a broker's store must accept messages."""
        return self.store in (None, OK)

    def as_dict(self) -> dict[str, Any]:
        """Return all attributes, and ``ready``."""
        return {"ready": self.ready, **asdict(self)}


async def ask_status(address: str, seconds: float) -> PeerStatus:
    """Ask a broker or a name server whether it is ready.

    Parameters
    ----------
    address : str
        ``host:port``.
    seconds : float
        Timeout of the whole call.

    Raises
    ------
    ClientError
        The peer cannot be reached, does not respond in time, or its response is invalid.
    """
    begin = end = 0.0
    now = asyncio.get_running_loop().time
    until = now() + seconds

    def connected(_: Connection) -> None:
        nonlocal begin
        begin = now()

    def came(response: RemotingCommand) -> dict[str, str] | None:
        nonlocal end
        end = now()
        if response.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
            return None
        return parse_body(_RUNTIME_INFO.name, response.body).text_table("table")

    remote = Remote(RemotingCommand.not_supported, connected)

    async def ask(
        code: RequestCode,
        read: Callable[[RemotingCommand], Answer],
        accepted: Collection[int] = (ResponseCode.SUCCESS,),
    ) -> Answer:
        left = max(round(until - now(), 3), 0)
        try:
            return await remote.ask(
                address, RemotingCommand(code), read, seconds=left, accepted=accepted
            )
        except AnswerTimeoutError:
            raise AnswerTimeoutError(address, code.name, seconds) from None

    try:
        table = await ask(_RUNTIME_INFO, came, _MAYBE_NAME_SERVER)
        trip_ms = round((end - begin) * 1000, 3)
        if table is None:
            brokers = await ask(_CLUSTER_INFO, _broker_names)
            return PeerStatus(address, NAME_SERVER, trip_ms, brokers=brokers)
        about = table if "storeState" in table else await ask(_SETTINGS, _settings, _MAY_REFUSE)
    finally:
        remote.close()
    return _broker(address, trip_ms, table, about)


def _broker(
    address: str, trip_ms: float, table: Mapping[str, str], about: Mapping[str, str]
) -> PeerStatus:
    if "storeState" in table:
        state, reason = table["storeState"], table.get("storeStateReason") or None
    else:
        state, reason = _state_of_java(table, about)
    broker_id = about.get("brokerId", "")
    return PeerStatus(
        address,
        BROKER,
        trip_ms,
        about.get("brokerName"),
        about.get("brokerClusterName"),
        int(broker_id) if broker_id.isascii() and broker_id.isdigit() else None,
        table.get("brokerVersionDesc"),
        state,
        reason,
        replication=_replication(table),
    )


def _replication(table: Mapping[str, str]) -> dict[str, Any] | None:
    """Read a broker's state of replication; None if the broker does not report it, as Java's."""
    if "replication" not in table:
        return None
    found = parse_body(_RUNTIME_INFO.name, table["replication"].encode())
    master = found.child("master") if found.has("master") else None
    return {
        "role": found.text("role"),
        "log_end": found.number("log_end"),
        "ha_address": found.text("ha_address", "") or None,
        "master": None
        if master is None
        else {
            "ha_address": master.text("ha_address"),
            "connected": master.flag("connected"),
            "master_end": master.number("master_end"),
            **_lag(master),
            "error": master.text("error"),
        },
        "slaves": [
            {
                "address": one.text("address"),
                "phy_offset": one.number("phy_offset"),
                **_lag(one),
                "in_sync": one.flag("in_sync"),
            }
            for one in found.objects("slaves")
        ],
    }


def _lag(one: JsonObject) -> dict[str, Any]:
    return {"lag_bytes": one.number("lag_bytes"), "lag_seconds": one.number("lag_ms") / 1000}


def _broker_names(response: RemotingCommand) -> list[str]:
    return sorted(one.broker_name for one in parse_cluster_info(_CLUSTER_INFO.name, response.body))


def _settings(response: RemotingCommand) -> dict[str, str]:
    """Read the settings of a Java broker, which include its name; empty if the broker refuses to send them."""
    if response.code != ResponseCode.SUCCESS:
        return {}
    return parse_properties(response.body.decode("utf-8", "replace"))


def _state_of_java(table: Mapping[str, str], settings: Mapping[str, str]) -> tuple[str, str | None]:
    """Derive from the used parts of the disks whether a Java broker accepts messages, which it does not report."""
    most = _number(settings.get("diskSpaceWarningLevelRatio", ""), WARNING_LEVEL_PERCENT)
    for key in ("commitLogDiskRatio", "consumeQueueDiskRatio"):
        used = _number(table.get(key, ""), 0.0) * 100
        if used > most:
            return FULL, f"{key} is {used:.0f} %, diskSpaceWarningLevelRatio is {most:g} %"
    return OK, None


def _number(text: str, default: float) -> float:
    try:
        return float(text)
    except ValueError:
        return default
