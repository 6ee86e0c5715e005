"""Requests about master and slaves: 906 EXCHANGE_BROKER_HA_INFO, 907 GET_BROKER_HA_STATUS, and what a Java slave asks of timers.

Source: RocketMQ 5.5.0 AdminBrokerProcessor#exchangeBrokerHAInfo, #getBrokerHaStatus, #getTimerCheckPoint, #getTimerMetrics.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from struct import Struct

from rmqcore.broker.broker import Broker
from rmqcore.broker.call import Call
from rmqcore.broker.state.replication import MasterInfo, SlaveInfo
from rmqcore.remoting.bodies.json_object import encode_json
from rmqcore.remoting.codes import RequestCode
from rmqcore.remoting.command import RemotingCommand

_TIMER_CHECKPOINT = Struct(">7q")
"""lastReadTimeMs, lastTimerLogFlushPos, lastTimerQueueOffset, masterTimerQueueOffset, stateVersion, timestamp, counter."""
_NO_VERSION = {"counter": 0, "stateVersion": 0, "timestamp": 0}


def _exchange_ha_info(call: Call) -> RemotingCommand:
    """Return the addresses of a master's HA port and broker.

    Notes
    -----
    A Java slave follows the master that this request names, from any sender. This broker ignores the name: its master
    comes from its configuration or its name servers.
    """
    broker = call.broker
    if broker.store.config.is_slave or "masterHaAddress" in call.fields:
        return call.respond()
    fields = {
        "masterAddress": broker.address,
        "masterFlushOffset": str(broker.store.flushed_phy_offset),
    }
    if broker.replication.ha_address is not None:
        fields["masterHaAddress"] = broker.replication.ha_address
    return call.respond(ext_fields=fields)


def _get_ha_status(call: Call) -> RemotingCommand:
    """Return the connected slaves, or what a slave knows of its master."""
    broker = call.broker
    end = broker.store.max_phy_offset
    slaves = broker.replication.slaves()
    master = (
        None if not broker.store.config.is_slave else broker.replication.master() or MasterInfo()
    )
    body = {
        "haClientRuntimeInfo": _client_info(master, end),
        "haConnectionInfo": [_connection_info(one, end) for one in slaves],
        "inSyncSlaveNums": sum(one.in_sync for one in slaves),
        "master": master is None,
        "masterCommitLogMaxOffset": end if master is None else 0,
    }
    return call.respond(body=encode_json(body))


def _client_info(master: MasterInfo | None, end: int) -> dict[str, object]:
    found: dict[str, object] = {
        "activated": False,
        "lastReadTimestamp": 0,
        "lastWriteTimestamp": 0,
        "masterFlushOffset": 0,
        "maxOffset": 0,
        "transferredByteInSecond": 0,
    }
    if master is None:
        return found
    return {
        **found,
        "activated": master.connected,
        "lastReadTimestamp": master.last_read_ms,
        "lastWriteTimestamp": master.last_write_ms,
        "masterAddr": master.ha_address,
        "masterFlushOffset": master.master_end,
        "maxOffset": end,
        "transferredByteInSecond": master.bytes_per_second,
        "lagBytes": master.lag_bytes,
        "lagSeconds": round(master.lag_s, 1),
        "error": master.error,
    }


def _connection_info(one: SlaveInfo, end: int) -> dict[str, object]:
    return {
        "addr": one.peer,
        "diff": end - one.ack,
        "inSync": one.in_sync,
        "lagSeconds": round(one.lag_s, 1),
        "slaveAckOffset": one.ack,
        "transferFromWhere": one.sent_to,
        "transferredByteInSecond": one.bytes_per_second,
    }


def replication_info(broker: Broker) -> dict[str, str]:
    """Return role, master and slaves for the broker's runtime info."""
    found = {"brokerRole": broker.store.config.broker_role}
    if broker.store.config.is_slave:
        master = broker.replication.master() or MasterInfo()
        found["haMaster"] = master.ha_address or "not known"
        found["haMasterConnected"] = str(master.connected).lower()
        found["haMasterOffset"] = str(master.master_end)
        found["haLag"] = f"{master.lag_bytes} bytes {master.lag_s:.1f} s"
        if master.error:
            found["haMasterError"] = master.error
    slaves = broker.replication.slaves()
    if not broker.store.config.is_slave:
        found["haSlaves"] = str(len(slaves))
    for number, one in enumerate(sorted(slaves, key=lambda one: one.peer)):
        found[f"haSlave_{number}"] = (
            f"{one.peer} ack {one.ack} lag {one.lag_bytes} bytes {one.lag_s:.1f} s "
            f"{'in sync' if one.in_sync else 'not in sync'}"
        )
    found["replication"] = encode_json(_plain(broker, slaves)).decode()
    return found


def _plain(broker: Broker, slaves: list[SlaveInfo]) -> dict[str, object]:
    """Return the state of replication as numbers, for `rmqcore.client.peer_status`."""
    master = broker.replication.master() or MasterInfo() if broker.store.config.is_slave else None
    return {
        "role": broker.store.config.broker_role,
        "log_end": broker.store.max_phy_offset,
        "ha_address": broker.replication.ha_address,
        "master": None
        if master is None
        else {
            "ha_address": master.ha_address,
            "connected": master.connected,
            "master_end": master.master_end,
            "lag_bytes": master.lag_bytes,
            "lag_ms": round(master.lag_s * 1000),
            "error": master.error,
        },
        "slaves": [
            {
                "address": one.peer,
                "phy_offset": one.ack,
                "lag_bytes": one.lag_bytes,
                "lag_ms": round(one.lag_s * 1000),
                "in_sync": one.in_sync,
            }
            for one in slaves
        ],
    }


def _get_timer_check_point(call: Call) -> RemotingCommand:
    """Return how far timed messages are delivered: none are kept here."""
    return call.respond(body=_TIMER_CHECKPOINT.pack(*[0] * 7))


def _get_timer_metrics(call: Call) -> RemotingCommand:
    """Return how many timed messages of each topic wait: none are kept here."""
    return call.respond(body=encode_json({"dataVersion": _NO_VERSION, "timingCount": {}}))


HANDLERS: Mapping[RequestCode, Callable[[Call], RemotingCommand | None]] = {
    RequestCode.EXCHANGE_BROKER_HA_INFO: _exchange_ha_info,
    RequestCode.GET_BROKER_HA_STATUS: _get_ha_status,
    RequestCode.GET_TIMER_CHECK_POINT: _get_timer_check_point,
    RequestCode.GET_TIMER_METRICS: _get_timer_metrics,
}
