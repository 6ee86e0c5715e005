"""Requests about a broker's settings: read all, change a few.

Source: RocketMQ 5.5.0 AdminBrokerProcessor#updateBrokerConfig, #getBrokerConfig.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import fields, replace

from rmqcore.broker.call import Call
from rmqcore.broker.settings import parse_settings
from rmqcore.config.broker_conf import java_name, parse_properties
from rmqcore.remoting.bodies.json_object import encode_json
from rmqcore.remoting.codes import RequestCode, ResponseCode
from rmqcore.remoting.command import RemotingCommand
from rmqcore.vocabulary.data_version import DataVersion

CHANGEABLE = frozenset(
    {
        "auto_create_subscription_group",
        "auto_create_topic_enable",
        "broker_permission",
        "filter_support_retry",
        "long_polling_enable",
        "reject_transaction_message",
        "short_polling_time_mills",
        "slave_read_enable",
        "trace_on",
        "transaction_check_max",
        "transaction_time_out",
    }
)
"""Settings that a request may change: no path, no address, nothing that a store or another broker was told."""
MOST_BYTES = 8 << 10
"""Of a request that changes settings."""
_LOG = logging.getLogger("rmqcore.broker")


def _update_broker_config(call: Call) -> RemotingCommand:
    """Change settings until the broker ends: all that the request names, or none.

    Notes
    -----
    Java refuses a few keys, ignores unknown ones, and writes all others into its ``broker.conf``.
    """
    broker = call.broker
    if len(call.request.body) > MOST_BYTES:
        remark = f"{len(call.request.body)} bytes of settings, expected at most {MOST_BYTES}"
        return call.respond(ResponseCode.INVALID_PARAMETER, remark)
    try:
        given = parse_properties(call.request.body.decode("utf-8"))
        known = parse_settings(given)
        unknown = [
            key for key in given if not parse_settings({key: given[key]}).keys() & CHANGEABLE
        ]
        if unknown:
            may = ", ".join(sorted(map(java_name, CHANGEABLE)))
            remark = f"Can not update config {ascii(unknown[0])[:100]}: a request may change {may}"
            return call.respond(ResponseCode.NO_PERMISSION, remark)
        changed = replace(broker.settings, **known)
    except ValueError as error:
        return call.respond(ResponseCode.SYSTEM_ERROR, str(error))
    _LOG.warning("%s changes settings: %s", call.channel.peer, given)
    broker.change_settings(changed)
    if "broker_permission" in known:
        broker.topics.tell_all()
    return call.respond()


def _get_broker_config(call: Call) -> RemotingCommand:
    """Return the settings of broker and store as a properties file."""
    broker = call.broker
    host, _, port = broker.address.rpartition(":")
    root = str(broker.store.paths.root)
    values: dict[str, object] = {"brokerIP1": host, "listenPort": port, "storePathRootDir": root}
    for part in (broker.store.config, broker.settings):
        for one in fields(part):
            value = getattr(part, one.name)
            if isinstance(value, str | int | float):
                values.setdefault(java_name(one.name), value)
    lines = (f"{name}={_text(value)}\n" for name, value in sorted(values.items()))
    version = encode_json(DataVersion().as_json()).decode()
    return call.respond(ext_fields={"version": version}, body="".join(lines).encode())


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


HANDLERS: Mapping[RequestCode, Callable[[Call], RemotingCommand | None]] = {
    RequestCode.UPDATE_BROKER_CONFIG: _update_broker_config,
    RequestCode.GET_BROKER_CONFIG: _get_broker_config,
}
