"""Requests for the connected clients.

Source: RocketMQ 5.5.0 AdminBrokerProcessor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from rmqcore.broker.call import Call
from rmqcore.broker.handlers.in_background import answer_with_table
from rmqcore.broker.state.clients import ClientChannelInfo
from rmqcore.remoting.bodies.heartbeat import subscription_json
from rmqcore.remoting.bodies.json_object import encode_json
from rmqcore.remoting.codes import RequestCode, ResponseCode
from rmqcore.remoting.command import RemotingCommand


def _get_consumer_connection_list(call: Call) -> RemotingCommand:
    """Return the members of a consumer group and their subscriptions.

    Source: RocketMQ 5.5.0 AdminBrokerProcessor#getConsumerConnectionList.
    """
    name = call.fields.text("consumerGroup")
    info = call.broker.consumers.group(name)
    if info is None:
        remark = f"the consumer group[{name}] not online"
        return call.respond(ResponseCode.CONSUMER_NOT_ONLINE, remark)
    body = {
        "connectionSet": _connections(info.clients.values()),
        "consumeFromWhere": info.consume_from_where,
        "consumeType": info.consume_type,
        "messageModel": info.message_model,
        "subscriptionTable": {
            topic: subscription_json(wanted) for topic, wanted in info.subscriptions.items()
        },
    }
    return call.respond(body=encode_json(body))


def _get_producer_connection_list(call: Call) -> RemotingCommand:
    """Return the members of a producer group.

    Source: RocketMQ 5.5.0 AdminBrokerProcessor#getProducerConnectionList.
    """
    name = call.fields.text("producerGroup")
    clients = call.broker.producers.clients(name)
    if not clients:
        remark = f"the producer group[{name}] not exist"
        return call.respond(ResponseCode.SYSTEM_ERROR, remark)
    return call.respond(body=encode_json({"connectionSet": _connections(clients)}))


def _connections(clients: Iterable[ClientChannelInfo]) -> list[dict[str, object]]:
    return [
        {
            "clientAddr": client.channel.peer,
            "clientId": client.client_id,
            "language": client.language.name,
            "version": client.version,
        }
        for client in clients
    ]


def _get_all_producer_info(call: Call) -> RemotingCommand | None:
    """Return the members of all producer groups.

    Source: RocketMQ 5.5.0 ProducerManager#getProducerTable.
    """
    known = call.broker.producers.groups()
    groups = [(name, list(clients.values())) for name, clients in known.items()]
    entries = sum(len(clients) for _, clients in groups)

    def make() -> dict[str, object]:
        return {"data": {name: list(map(_producer_json, clients)) for name, clients in groups}}

    return answer_with_table(call, make, entries)


def _producer_json(client: ClientChannelInfo) -> dict[str, object]:
    return {
        "clientId": client.client_id,
        "language": client.language.name,
        "lastUpdateTimestamp": client.last_update_timestamp_ms,
        "remoteIP": f"/{client.channel.peer}",
        "version": client.version,
    }


HANDLERS: Mapping[RequestCode, Callable[[Call], RemotingCommand | None]] = {
    RequestCode.GET_CONSUMER_CONNECTION_LIST: _get_consumer_connection_list,
    RequestCode.GET_PRODUCER_CONNECTION_LIST: _get_producer_connection_list,
    RequestCode.GET_ALL_PRODUCER_INFO: _get_all_producer_info,
}
