"""GET_ALL_DELAY_OFFSET: how far the delay levels were delivered, for a slave.

Source: RocketMQ 5.5.0 AdminBrokerProcessor#getAllDelayOffset.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from rmqcore.broker.call import Call
from rmqcore.remoting.bodies.json_object import encode_json
from rmqcore.remoting.codes import RequestCode
from rmqcore.remoting.command import RemotingCommand


def all_delay_offsets(call: Call) -> RemotingCommand:
    """Give what `delayOffset.json` is to have."""
    return call.respond(body=encode_json(call.broker.schedule.as_json()))


HANDLERS: Mapping[RequestCode, Callable[[Call], RemotingCommand | None]] = {
    RequestCode.GET_ALL_DELAY_OFFSET: all_delay_offsets,
}
