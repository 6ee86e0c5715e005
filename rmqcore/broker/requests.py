"""The handler for each request code, and the response to a request without a handler.

Source: RocketMQ 5.5.0 BrokerController#registerProcessor, NettyRemotingAbstract#processRequestCommand.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from rmqcore.broker.broker import Broker
from rmqcore.broker.call import Call, error_response
from rmqcore.broker.channel import Asker
from rmqcore.broker.handlers import (
    assignments,
    clients,
    groups,
    locks,
    offsets,
    pull,
    query,
    reply,
    retry,
    send,
    topics,
    transactions,
)
from rmqcore.broker.handlers.admin import (
    ask_consumers,
    broker_settings,
    cleaning,
    client_stats,
    clone_offsets,
    ha,
    queue_stats,
    reset_offset,
    runtime_info,
    tables,
)
from rmqcore.remoting.codes import RequestCode, ResponseCode
from rmqcore.remoting.command import RemotingCommand
from rmqcore.remoting.said_once import warn_unserved

Handler = Callable[[Call], RemotingCommand | None]

_TABLES: tuple[Mapping[RequestCode, Handler], ...] = (
    ask_consumers.HANDLERS,
    assignments.HANDLERS,
    broker_settings.HANDLERS,
    cleaning.HANDLERS,
    client_stats.HANDLERS,
    clone_offsets.HANDLERS,
    clients.HANDLERS,
    groups.HANDLERS,
    ha.HANDLERS,
    locks.HANDLERS,
    offsets.HANDLERS,
    pull.HANDLERS,
    query.HANDLERS,
    queue_stats.HANDLERS,
    reply.HANDLERS,
    reset_offset.HANDLERS,
    retry.HANDLERS,
    runtime_info.HANDLERS,
    send.HANDLERS,
    tables.HANDLERS,
    topics.HANDLERS,
    transactions.HANDLERS,
)
_WITH_MESSAGES = {*send.HANDLERS, *reply.HANDLERS}
MOST_BODY_BYTES = 1 << 20
"""Of a request without messages: JSON, whose objects are made in the loop's thread. A heartbeat with 15 MiB of them stopped all
clients for eight seconds."""
HANDLERS: Mapping[int, Handler] = {
    code: handler for table in _TABLES for code, handler in table.items()
}


def handle(broker: Broker, request: RemotingCommand, channel: Asker) -> RemotingCommand | None:
    """Return the response to a request; None if it needs no response, or the response is sent later through the channel.

    A handler that fails affects only its own request: the connection and all others continue.
    """
    if request.is_response:
        broker.client_requests.answered(channel, request)
        return None
    response = _response(broker, request, channel)
    return None if request.is_oneway else response


def _response(broker: Broker, request: RemotingCommand, channel: Asker) -> RemotingCommand | None:
    handler = HANDLERS.get(request.code)
    if handler is None:
        warn_unserved(broker.said_once, broker.now_ms(), "broker", channel.peer, request)
        return request.not_supported()
    if len(request.body) > MOST_BODY_BYTES and request.code not in _WITH_MESSAGES:
        remark = f"{len(request.body)} bytes in the body, expected at most {MOST_BODY_BYTES}"
        return request.response(ResponseCode.INVALID_PARAMETER, remark)
    try:
        return handler(Call(broker, request, channel))
    except Exception as error:  # noqa: BLE001 a bug in one handler must not end the loop that serves all clients
        return error_response(request, channel, error)
