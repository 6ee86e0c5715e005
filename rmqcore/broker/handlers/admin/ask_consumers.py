"""Requests that a broker passes on to consumers: 307, 309 CONSUME_MESSAGE_DIRECTLY, 223 about their offsets.

Source: RocketMQ 5.5.0 AdminBrokerProcessor#callConsumer, #consumeMessageDirectly, Broker2Client#getConsumeStatus.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import partial

from rmqcore.broker.call import Call
from rmqcore.broker.handlers.in_background import when_warm
from rmqcore.broker.state.clients import ClientChannelInfo
from rmqcore.codec import parse_msg_id
from rmqcore.errors import RequestError
from rmqcore.remoting.bodies.queue_locks import MessageQueue
from rmqcore.remoting.bodies.queue_tables import encode_consumer_status, parse_queue_numbers
from rmqcore.remoting.codes import RequestCode, ResponseCode
from rmqcore.remoting.command import RemotingCommand
from rmqcore.vocabulary.java_json import shown_value

ASK_TIMEOUT_MS = 10_000
STATUS_TIMEOUT_MS = 5_000
_LOG = logging.getLogger("rmqcore.broker")


def _get_consumer_running_info(call: Call) -> RemotingCommand | None:
    """Ask a consumer for its running info, and pass on its answer."""
    return _relay(call, dict(call.request.ext_fields), call.request.body)


def _consume_message_directly(call: Call) -> RemotingCommand | None:
    """Send a message of the log to a consumer, which consumes it at once, and pass on its result."""
    text = call.fields.text("msgId")
    try:
        phy_offset = parse_msg_id(text).phy_offset
    except ValueError as error:
        return call.respond(ResponseCode.SYSTEM_ERROR, f"msgId: {error}")
    return when_warm(call, phy_offset, lambda: _with_message(call, phy_offset))


def _with_message(call: Call, phy_offset: int) -> RemotingCommand | None:
    view = call.broker.store.lookup(phy_offset)
    if view is None:
        remark = f"can not find message by the offset, {phy_offset}"
        return call.respond(ResponseCode.SYSTEM_ERROR, remark)
    broker, fields = call.broker, call.fields
    ext_fields = {**call.request.ext_fields, "brokerName": broker.settings.broker_name}
    topic = broker.topics.get(fields.text("topic"))
    if topic is not None:
        ext_fields["topicSysFlag"] = str(topic.topic_sys_flag)
    group = broker.groups.get(fields.text("consumerGroup"))
    if group is not None:
        ext_fields["groupSysFlag"] = str(group.group_sys_flag)
    return _relay(call, ext_fields, view.raw)


def _relay(call: Call, ext_fields: dict[str, str], body: bytes) -> RemotingCommand | None:
    """Ask one consumer; its response is the answer to the request."""
    group, client_id = call.fields.text("consumerGroup"), call.fields.text("clientId")
    info = call.broker.consumers.group(group)
    client = None if info is None else info.find_client(client_id)
    if client is None:
        remark = f"The Consumer <{group}> <{client_id}> not online"
        return call.respond(ResponseCode.SYSTEM_ERROR, remark)
    question = RemotingCommand(call.code, ext_fields=ext_fields, body=body)

    def answered(response: RemotingCommand | None) -> None:
        if response is None:
            remark = f"consumer <{group}> <{client_id}> Timeout: {ASK_TIMEOUT_MS} ms"
            call.answer(call.respond(ResponseCode.CONSUME_MSG_TIMEOUT, remark))
            return
        call.answer(
            call.respond(
                response.code,
                response.remark,
                ext_fields=response.ext_fields,
                body=response.body,
            )
        )

    call.broker.client_requests.ask(client.channel, question, answered, ASK_TIMEOUT_MS)
    return None


def _get_consumer_status(call: Call) -> RemotingCommand | None:
    """Ask all members of a group, or the one that the request names, for their offsets in the queues of a topic.

    A member that does not answer in time is left out, as in Java.
    """
    name, client_id = call.fields.text("group"), call.fields.text("clientAddr").strip()
    info = call.broker.consumers.group(name)
    if info is None:
        remark = f"No Any Consumer online in the consumer group: [{name}]"
        return call.respond(ResponseCode.SYSTEM_ERROR, remark)
    asked = [one for one in info.members().values() if client_id in ("", one.client_id)]
    status = _Status(call, len(asked))
    code = RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT
    fields = {"topic": call.fields.text("topic"), "group": name}
    for client in asked:
        question = RemotingCommand(code, ext_fields=dict(fields))
        answered = partial(status.answered, client)
        call.broker.client_requests.ask(client.channel, question, answered, STATUS_TIMEOUT_MS)
    return None


class _Status:
    """The answers of the members that were asked; the last answer completes the response."""

    def __init__(self, call: Call, many: int) -> None:
        self._call = call
        self._left = many
        self._tables: dict[str, dict[MessageQueue, int]] = {}
        self._answer_if_done()

    def answered(self, client: ClientChannelInfo, response: RemotingCommand | None) -> None:
        self._left -= 1
        if response is not None and response.code == ResponseCode.SUCCESS and response.body:
            code = RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT
            try:
                table = parse_queue_numbers(code.name, "messageQueueTable", response.body)
            except RequestError as error:
                _LOG.warning("client %s: %s", shown_value(client.client_id), error)
            else:
                self._tables[client.client_id] = table
        self._answer_if_done()

    def _answer_if_done(self) -> None:
        if self._left == 0:
            self._call.answer(self._call.respond(body=encode_consumer_status(self._tables)))


HANDLERS: Mapping[RequestCode, Callable[[Call], RemotingCommand | None]] = {
    RequestCode.GET_CONSUMER_RUNNING_INFO: _get_consumer_running_info,
    RequestCode.CONSUME_MESSAGE_DIRECTLY: _consume_message_directly,
    RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS: _get_consumer_status,
}
