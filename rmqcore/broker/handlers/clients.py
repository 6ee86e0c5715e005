"""Clients: 34 HEART_BEAT, 35 UNREGISTER_CLIENT, 38 GET_CONSUMER_LIST_BY_GROUP, 46 CHECK_CLIENT_CONFIG.

Source: RocketMQ 5.5.0 ClientManageProcessor, ConsumerManageProcessor#getConsumerListByGroup.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from rmqcore.broker.call import Call
from rmqcore.broker.handlers.in_background import with_parsed_body
from rmqcore.broker.sql92.sql_filter import SqlFilter
from rmqcore.broker.state.clients import ClientChannelInfo
from rmqcore.broker.state.consumer_filters import is_tag_type
from rmqcore.errors import FilterExpressionError
from rmqcore.remoting.bodies.heartbeat import (
    SQL92,
    ConsumerData,
    Heartbeat,
    parse_heartbeat,
    parse_subscription,
)
from rmqcore.remoting.bodies.json_object import encode_json, parse_body
from rmqcore.remoting.bodies.subscription_groups import SubscriptionGroupConfig
from rmqcore.remoting.bodies.topic_configs import READ, WRITE
from rmqcore.remoting.codes import RequestCode, ResponseCode
from rmqcore.remoting.command import RemotingCommand
from rmqcore.remoting.names import retry_topic

_UNIT_SUB = 2
"""Bit of a topic's ``topicSysFlag``: consumers in unit mode read it."""
_TRUE, _FALSE = "true", "false"


class _RetryTopics:
    """The retry topics that a heartbeat needs: the response waits until all are created or refused."""

    def __init__(self, call: Call) -> None:
        self._call = call
        self._missing = 0
        self._response: RemotingCommand | None = None

    def make(self, consumer: ConsumerData, group: SubscriptionGroupConfig) -> None:
        """Create the retry topic of a group if it is missing."""
        self._missing += 1
        self._call.broker.topics.create_for_send_back(
            retry_topic(group.group_name),
            group.retry_queue_nums,
            READ | WRITE,
            _UNIT_SUB if consumer.unit_mode else 0,
            lambda _: self._made(),
        )

    def _made(self) -> None:
        self._missing -= 1
        if not self._missing and self._response is not None:
            self._call.answer(self._response)

    def then(self, response: RemotingCommand) -> RemotingCommand | None:
        """Return the response now, or send it later."""
        if not self._missing:
            return response
        self._response = response
        return None


def _heartbeat(call: Call) -> RemotingCommand | None:
    """Note all groups at once, so that later pulls find them."""
    return with_parsed_body(call, parse_heartbeat, _note_heartbeat)


def _note_heartbeat(call: Call, beat: Heartbeat) -> RemotingCommand | None:
    broker = call.broker
    topics = _RetryTopics(call)
    now_ms = call.broker.now_ms()
    is_sub_change = False
    for consumer in beat.consumers:
        group = broker.groups.find(consumer.group_name)
        if group is None:
            continue
        without_sub = beat.without_sub and beat.fingerprint != 0
        known = broker.consumers.group(group.group_name)
        if without_sub and (known is None or not known.subscriptions):
            is_sub_change = (
                True  # no earlier subscriptions are known: the client has to send all of them
            )
        is_sub_change |= broker.consumers.note_fingerprint(group.group_name, beat.fingerprint)
        topics.make(consumer, group)
        broker.consumers.register(
            consumer,
            _client(call, beat.client_id),
            notify=group.notify_consumer_ids_changed_enable,
            without_sub=without_sub,
            now_ms=now_ms,
        )
    for producer_group in beat.producer_groups:
        broker.producers.register(producer_group, _client(call, beat.client_id))
    ext_fields = {
        "IS_SUPPORT_HEART_BEAT_V2": _TRUE,
        "IS_SUB_CHANGE": _TRUE if is_sub_change or not beat.fingerprint else _FALSE,
    }
    return topics.then(call.respond(ext_fields=ext_fields))


def _client(call: Call, client_id: str) -> ClientChannelInfo:
    request = call.request
    return ClientChannelInfo(
        call.channel, client_id, request.language, request.version, call.broker.now_ms()
    )


def _unregister(call: Call) -> RemotingCommand:
    broker, fields = call.broker, call.fields
    if "producerGroup" in fields:
        broker.producers.unregister(fields.text("producerGroup"), call.channel)
    if "consumerGroup" in fields:
        name = fields.text("consumerGroup")
        group = broker.groups.get(name)
        notify = group is None or group.notify_consumer_ids_changed_enable
        broker.consumers.unregister(name, call.channel, notify=notify, now_ms=broker.now_ms())
    return call.respond()


def _consumer_list(call: Call) -> RemotingCommand:
    name = call.fields.text("consumerGroup")
    group = call.broker.consumers.group(name)
    if group is None:
        return call.respond(ResponseCode.SYSTEM_ERROR, f"no consumer for this group, {name}")
    return call.respond(body=encode_json({"consumerIdList": group.client_ids()}))


def _check_client_config(call: Call) -> RemotingCommand:
    """Check a subscription before its client starts to pull."""
    body = call.request.body
    found = parse_body(call.code.name, body) if body else None
    if found is None or not found.has("subscriptionData"):
        return call.respond()
    wanted = parse_subscription(found.child("subscriptionData"))
    if is_tag_type(wanted.expression_type):
        return call.respond()
    if not call.broker.settings.enable_property_filter:
        remark = (
            f"The broker does not support consumer to filter message by {wanted.expression_type}"
        )
        return call.respond(ResponseCode.SYSTEM_ERROR, remark)
    if wanted.expression_type != SQL92:
        remark = f"expression type {wanted.expression_type!r}: expected TAG or SQL92"
        return call.respond(ResponseCode.SUBSCRIPTION_PARSE_FAILED, remark)
    try:
        SqlFilter(wanted.sub_string)
    except FilterExpressionError as error:
        return call.respond(ResponseCode.SUBSCRIPTION_PARSE_FAILED, str(error))
    return call.respond()


HANDLERS: Mapping[RequestCode, Callable[[Call], RemotingCommand | None]] = {
    RequestCode.HEART_BEAT: _heartbeat,
    RequestCode.UNREGISTER_CLIENT: _unregister,
    RequestCode.GET_CONSUMER_LIST_BY_GROUP: _consumer_list,
    RequestCode.CHECK_CLIENT_CONFIG: _check_client_config,
}
