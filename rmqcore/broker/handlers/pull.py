"""Pulls: 11 PULL_MESSAGE and 361 LITE_PULL_MESSAGE.

Source: RocketMQ 5.5.0 PullMessageProcessor, DefaultPullMessageResultHandler.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import partial

from rmqcore.broker.call import Call, error_response
from rmqcore.broker.handlers.message_filters import Found
from rmqcore.broker.handlers.pull_checks import (
    COMMIT_OFFSET,
    SUSPEND,
    PullOrder,
    PullRefused,
    check_pull,
)
from rmqcore.broker.state.held_pulls import HeldPull
from rmqcore.remoting.codes import RequestCode, ResponseCode
from rmqcore.remoting.command import RemotingCommand
from rmqcore.status import GetMessageStatus as Status

_LOG = logging.getLogger("rmqcore.broker")
_CODES = {
    Status.FOUND: ResponseCode.SUCCESS,
    Status.MESSAGE_WAS_REMOVING: ResponseCode.PULL_RETRY_IMMEDIATELY,
    Status.NO_MATCHED_MESSAGE: ResponseCode.PULL_RETRY_IMMEDIATELY,
    Status.OFFSET_FOUND_NULL: ResponseCode.PULL_NOT_FOUND,
    Status.OFFSET_OVERFLOW_ONE: ResponseCode.PULL_NOT_FOUND,
    Status.OFFSET_OVERFLOW_BADLY: ResponseCode.PULL_OFFSET_MOVED,
    Status.OFFSET_TOO_SMALL: ResponseCode.PULL_OFFSET_MOVED,
    Status.OFFSET_RESET: ResponseCode.PULL_OFFSET_MOVED,
}
_MASTER_ID = 0


def _pull(call: Call) -> RemotingCommand | None:
    return _answer(call, is_first=True)


def _answer(call: Call, *, is_first: bool) -> RemotingCommand | None:
    """Give the response to a pull; None where it is held, which happens at its first arrival alone."""
    try:
        order = check_pull(call)
    except PullRefused as refused:
        return refused.response(call)
    broker, fields = call.broker, call.fields
    group, topic, queue_id = order.group.group_name, order.topic.name, fields.number("queueId")
    queue_offset, sys_flag = fields.number("queueOffset"), fields.number("sysFlag")
    most = max(1, fields.number("maxMsgNums"))
    found = order.pull_filter.get(broker.store, topic, queue_id, queue_offset, most)
    broker.offsets.note_pull(group, topic, queue_id, found.next_begin_offset)
    committed = fields.number("commitOffset")
    if is_first and sys_flag & COMMIT_OFFSET and committed >= 0:
        broker.offsets.commit(group, topic, queue_id, committed, call.channel.peer)
    broker.stats.broker_get(found.messages)
    code = _code(found, queue_offset)
    if code == ResponseCode.SUCCESS:
        broker.stats.group_get(group, topic, found.messages, len(found.body))
    elif code == ResponseCode.PULL_NOT_FOUND and is_first and sys_flag & SUSPEND:
        _hold(call, order, found)
        return None
    return _response(call, order, found, code)


def _code(found: Found, queue_offset: int) -> ResponseCode:
    """Say what a status means for the client."""
    if found.status in (Status.NO_MATCHED_LOGIC_QUEUE, Status.NO_MESSAGE_IN_QUEUE):
        return ResponseCode.PULL_OFFSET_MOVED if queue_offset else ResponseCode.PULL_NOT_FOUND
    return _CODES[found.status]


def _response(call: Call, order: PullOrder, found: Found, code: ResponseCode) -> RemotingCommand:
    group = order.group
    broker_id = _MASTER_ID
    if call.broker.settings.slave_read_enable:
        slowly = found.suggest_pulling_from_slave
        broker_id = group.which_broker_when_consume_slowly if slowly else group.broker_id
    if code == ResponseCode.PULL_OFFSET_MOVED:
        code, broker_id = _offset_moved(call, order, found, broker_id)
    ext_fields = {
        "groupSysFlag": str(group.group_sys_flag),
        "maxOffset": str(found.max_offset),
        "minOffset": str(found.min_offset),
        "nextBeginOffset": str(found.next_begin_offset),
        "suggestWhichBrokerId": str(broker_id),
        "topicSysFlag": str(order.topic.topic_sys_flag),
    }
    return call.respond(code, found.status.name, ext_fields=ext_fields, body=found.body)


def _offset_moved(
    call: Call, order: PullOrder, found: Found, broker_id: int
) -> tuple[ResponseCode, int]:
    """Let the master alone move a client's offset: a slave may only be late."""
    config = call.broker.store.config
    is_right = config.broker_role != "SLAVE" or config.offset_check_in_slave
    _LOG.warning(
        "%s: group %s, topic %s, queue %d: pulled at %d, the queue has %d to %d%s",
        call.channel.peer,
        order.group.group_name,
        order.topic.name,
        call.fields.number("queueId"),
        call.fields.number("queueOffset"),
        found.min_offset,
        found.max_offset,
        "" if is_right else "; the master may know better",
    )
    if is_right:
        return ResponseCode.PULL_OFFSET_MOVED, broker_id
    return ResponseCode.PULL_RETRY_IMMEDIATELY, order.group.broker_id


def _hold(call: Call, order: PullOrder, found: Found) -> None:
    """Answer later: when a message comes that passes the filter, or the time is over."""
    broker, fields = call.broker, call.fields
    timeout_ms = fields.number("suspendTimeoutMillis")
    if not broker.settings.long_polling_enable:
        timeout_ms = broker.settings.short_polling_time_mills
    pull = HeldPull(
        call.channel,
        order.topic.name,
        fields.number("queueId"),
        found.max_offset,
        wants=partial(order.pull_filter.wants, broker.store),
        run=partial(_run_again, call),
    )
    broker.held_pulls.hold(pull, timeout_ms)


def _run_again(call: Call) -> None:
    """Answer a held pull, whatever there is now."""
    try:
        response = _answer(call, is_first=False)
    except Exception as error:  # noqa: BLE001 the client waits for an answer, whatever went wrong
        response = error_response(call.request, call.channel, error)
    assert response is not None
    call.answer(response)


HANDLERS: Mapping[RequestCode, Callable[[Call], RemotingCommand | None]] = {
    RequestCode.PULL_MESSAGE: _pull,
    RequestCode.LITE_PULL_MESSAGE: _pull,
}
