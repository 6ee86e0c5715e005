"""Requests that create, change, delete and list consumer groups.

Source: RocketMQ 5.5.0 AdminBrokerProcessor.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

from rmqcore.broker.call import Call
from rmqcore.broker.handlers.in_background import answer_with_table
from rmqcore.broker.handlers.topics import answer_when_done, part_of
from rmqcore.broker.state.topics import MOST_QUEUES
from rmqcore.remoting.bodies.json_object import encode_json, parse_body
from rmqcore.remoting.bodies.subscription_groups import SubscriptionGroupConfig, subscription_group
from rmqcore.remoting.codes import RequestCode, ResponseCode
from rmqcore.remoting.command import RemotingCommand
from rmqcore.remoting.names import wrong_group

MOST_BYTES = 64 << 10
"""Of a request that makes a group: the broker keeps all that it says."""


def _update_and_create_group(call: Call) -> RemotingCommand | None:
    """Make or change a group.

    Source: RocketMQ 5.5.0 AdminBrokerProcessor#updateAndCreateSubscriptionGroup.
    """
    if not call.request.body:
        return call.respond()
    if len(call.request.body) > MOST_BYTES:
        remark = f"{len(call.request.body)} bytes for a group, expected at most {MOST_BYTES}"
        return call.respond(ResponseCode.INVALID_PARAMETER, remark)
    return _make(call, [subscription_group(parse_body(call.code.name, call.request.body), "")])


def _update_and_create_groups(call: Call) -> RemotingCommand | None:
    """Make or change several groups, all or none.

    Source: RocketMQ 5.5.0 AdminBrokerProcessor#updateAndCreateSubscriptionGroupList.
    """
    found = parse_body(call.code.name, call.request.body).objects("groupConfigList")
    return _make(call, [subscription_group(one, "") for one in found])


def _make(call: Call, groups: list[SubscriptionGroupConfig]) -> RemotingCommand | None:
    """Make or change groups, all or none."""
    for group in groups:
        wrong = _wrong(group)
        if wrong is not None:
            return call.respond(ResponseCode.INVALID_PARAMETER, wrong)
    try:
        call.broker.groups.update_all(groups, answer_when_done(call))
    except ValueError as error:
        return call.respond(ResponseCode.SYSTEM_ERROR, str(error))
    return None


def _wrong(group: SubscriptionGroupConfig) -> str | None:
    wrong = wrong_group(group.group_name)
    if wrong is None and group.retry_queue_nums > MOST_QUEUES:
        wrong = f"retryQueueNums is {group.retry_queue_nums}, expected at most {MOST_QUEUES}"
    if wrong is None and len(encode_json(group.as_json())) > MOST_BYTES:
        wrong = f"group {group.group_name} has more than {MOST_BYTES} bytes"
    return wrong


def _delete_group(call: Call) -> RemotingCommand | None:
    """Delete a group and its counters, and its offsets if the request asks for that.

    Source: RocketMQ 5.5.0 AdminBrokerProcessor#deleteSubscriptionGroup.
    """
    name = call.fields.text("groupName")
    call.broker.stats.group_deleted(name)
    if call.fields.flag("cleanOffset"):
        call.broker.offsets.remove(name)
    # Offsets first: after a crash between the two, a new group of that name must not inherit them.
    delete = partial(call.broker.groups.delete, name, answer_when_done(call))
    call.broker.offsets.save_if_changed(delete)
    return None


def _get_all_groups(call: Call) -> RemotingCommand | None:
    """Return all groups, or one part of them to a client that asks for parts.

    Source: RocketMQ 5.5.0 AdminBrokerProcessor#getAllSubscriptionGroup, SubscriptionGroupManager#subGroupTable.
    """
    table = call.broker.groups.table()
    total = len(table.groups)

    def make() -> dict[str, object]:
        groups = part_of(call, table.groups, table.data_version, "groupSeq", "maxGroupNum")
        forbidden = {name: bits for name, bits in table.forbidden.items() if name in groups}
        return replace(table, groups=groups, forbidden=forbidden).as_json()

    return answer_with_table(call, make, total, ext_fields={"totalGroupNum": str(total)})


def _get_group(call: Call) -> RemotingCommand:
    """Return a group; as in Java, a broker that creates groups by itself creates a missing one."""
    group = call.broker.groups.find(call.fields.text("group"))
    if group is None:
        remark = "No group in this broker"
        return call.respond(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, remark)
    return call.respond(body=encode_json(group.as_json()))


def _update_and_get_group_forbidden(call: Call) -> RemotingCommand:
    """Return whether a group may read a topic, after changing that if the request asks for it.

    Source: RocketMQ 5.5.0 AdminBrokerProcessor#updateAndGetGroupForbidden.
    """
    fields, broker = call.fields, call.broker
    group, topic = fields.text("group"), fields.text("topic")
    if "readable" in fields:
        if broker.groups.get(group) is None:
            remark = f"Group {group} does not exist"
            return call.respond(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, remark)
        if broker.topics.get(topic) is None:
            return call.respond(ResponseCode.TOPIC_NOT_EXIST, f"Topic {topic} does not exist")
        broker.groups.forbid_read(group, topic, forbidden=not fields.flag("readable"))
    readable = not broker.groups.is_read_forbidden(group, topic)
    body = {"group": group, "readable": readable, "topic": topic}
    return call.respond(remark="", body=encode_json(body))


HANDLERS: Mapping[RequestCode, Callable[[Call], RemotingCommand | None]] = {
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: _update_and_create_group,
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: _update_and_create_groups,
    RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN: _update_and_get_group_forbidden,
    RequestCode.DELETE_SUBSCRIPTIONGROUP: _delete_group,
    RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: _get_all_groups,
    RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG: _get_group,
}
