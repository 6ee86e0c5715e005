"""Assignment of queues to consumers by a broker: 400 QUERY_ASSIGNMENT, 401 SET_MESSAGE_REQUEST_MODE.

Source: RocketMQ 5.5.0 QueryAssignmentProcessor.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from rmqcore.broker.call import Call, answer_later
from rmqcore.broker.state.consumers import BROADCASTING, CLUSTERING
from rmqcore.remoting.allocation import STRATEGIES
from rmqcore.remoting.bodies.json_object import encode_json, parse_body
from rmqcore.remoting.bodies.queue_locks import MessageQueue
from rmqcore.remoting.bodies.routes import TopicRoute
from rmqcore.remoting.bodies.topic_configs import READ
from rmqcore.remoting.codes import RequestCode, ResponseCode
from rmqcore.remoting.command import RemotingCommand
from rmqcore.remoting.names import RETRY_PREFIX
from rmqcore.vocabulary.java_json import shown_value
from rmqcore.vocabulary.topics import LMQ_PREFIX

PULL, POP = "PULL", "POP"
"""Names of Java's enum values MessageRequestMode."""
_LOG = logging.getLogger("rmqcore.broker")


@dataclass(frozen=True, slots=True)
class _Wanted:
    """The body of QUERY_ASSIGNMENT."""

    topic: str
    group: str
    client_id: str
    strategy: str
    message_model: str


def _query_assignment(call: Call) -> None:
    """Distribute the queues of a topic, including those of other brokers, among the members of a group.

    Notes
    -----
    If no broker has the topic, the group has no member, or the strategy is unknown, the answer has no list, as in Java,
    and the client keeps its queues. A client that is not a member gets an empty list.
    """
    found = parse_body(call.code.name, call.request.body)
    wanted = _Wanted(
        found.text("topic"),
        found.text("consumerGroup"),
        found.text("clientId", ""),
        found.text("strategyName", ""),
        found.enum_name("messageModel", (BROADCASTING, CLUSTERING)),
    )
    if wanted.message_model not in (BROADCASTING, CLUSTERING):
        found.refuse("messageModel", f"{BROADCASTING} or {CLUSTERING}", wanted.message_model)
    call.broker.find_route(
        wanted.topic, lambda route: answer_later(call, lambda: _shared_out(call, wanted, route))
    )


def _shared_out(call: Call, wanted: _Wanted, route: TopicRoute | None) -> RemotingCommand:
    queues = _queues(call, wanted, route)
    if queues is None:
        return call.respond(body=encode_json({}))
    if wanted.message_model == CLUSTERING:
        queues = _own_part(call, wanted, sorted(queues))
    if queues is None:
        return call.respond(body=encode_json({}))
    listed = [{"messageQueue": queue.as_json(), "mode": PULL} for queue in queues]
    return call.respond(body=encode_json({"messageQueueAssignments": listed}))


def _queues(call: Call, wanted: _Wanted, route: TopicRoute | None) -> list[MessageQueue] | None:
    """Return the readable queues of a topic, on all its brokers."""
    if wanted.message_model == CLUSTERING and wanted.topic.startswith(LMQ_PREFIX):
        return [MessageQueue(wanted.topic, call.broker.settings.broker_name, 0)]
    if route is None:
        if not wanted.topic.startswith(RETRY_PREFIX):
            _warn(call, wanted, "no broker has the topic")
        return None
    return [
        MessageQueue(wanted.topic, queues.broker_name, queue_id)
        for queues in route.queues
        if queues.perm & READ
        for queue_id in range(queues.read_queue_nums)
    ]


def _own_part(call: Call, wanted: _Wanted, queues: list[MessageQueue]) -> list[MessageQueue] | None:
    group = call.broker.consumers.group(wanted.group)
    if group is None:
        _warn(call, wanted, "the group has no member")
        return None
    strategy = STRATEGIES.get(wanted.strategy)
    if strategy is None:
        known = ", ".join(STRATEGIES)
        why = f"strategyName is {shown_value(wanted.strategy)}, expected one of {known}"
        _warn(call, wanted, why)
        return None
    if not wanted.client_id or not queues:
        return None
    return strategy(wanted.client_id, queues, sorted(group.client_ids()))


def _warn(call: Call, wanted: _Wanted, why: str) -> None:
    shown = shown_value(wanted.group), shown_value(wanted.topic)
    text = "no queues for a consumer of group %s, topic %s: %s"
    now_ms = call.broker.now_ms()
    call.broker.said_once.warn(now_ms, ("assignment", *shown, why), text, *shown, why)


def _set_message_request_mode(call: Call) -> RemotingCommand:
    """Set whether members of a group pull or pop a topic.

    Notes
    -----
    Every member pulls, so PULL changes nothing, and POP is refused.
    """
    found = parse_body(call.code.name, call.request.body)
    topic, group = found.text("topic"), found.text("consumerGroup")
    if topic.startswith(RETRY_PREFIX):
        remark = "retry topic is not allowed to set mode"
        return call.respond(ResponseCode.NO_PERMISSION, remark)
    if call.broker.topics.get(topic) is None:
        return call.respond(ResponseCode.TOPIC_NOT_EXIST, f"topic[{topic}] not exist")
    if call.broker.groups.find(group) is None:
        remark = "subscription group does not exist"
        return call.respond(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, remark)
    if found.enum_name("mode", (PULL, POP)) != PULL:
        remark = "mode: expected PULL: this broker does not serve POP"
        return call.respond(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark)
    return call.respond()


HANDLERS: Mapping[RequestCode, Callable[[Call], RemotingCommand | None]] = {
    RequestCode.QUERY_ASSIGNMENT: _query_assignment,
    RequestCode.SET_MESSAGE_REQUEST_MODE: _set_message_request_mode,
}
