"""Pulls: 11 PULL_MESSAGE and 361 LITE_PULL_MESSAGE.

Source: RocketMQ 5.5.0 PullMessageProcessor, DefaultPullMessageResultHandler.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from rmqcore._native.broker.pull_reader import Pull
from rmqcore.broker.call import Call, answer_later
from rmqcore.broker.handlers.message_filters import PulledRecords
from rmqcore.broker.handlers.pull_checks import (
    COMMIT_OFFSET,
    SUSPEND,
    PullOrder,
    PullRefused,
    check_pull,
)
from rmqcore.broker.state.held_pulls import HeldPull
from rmqcore.broker.state.offsets import OffsetsFullError
from rmqcore.remoting.bodies.heartbeat import TAG
from rmqcore.remoting.bodies.subscription_groups import SubscriptionGroupConfig
from rmqcore.remoting.codes import RequestCode, ResponseCode
from rmqcore.remoting.command import RemotingCommand
from rmqcore.remoting.request_fields import RequestFields
from rmqcore.vocabulary.java_json import shown_value
from rmqcore.vocabulary.status import GetMessageStatus as Status

if TYPE_CHECKING:
    from rmqcore.broker.broker import Broker

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
_HELD_BYTES = 2_500
"""A held pull without its texts and its filter."""


def _pull(call: Call) -> RemotingCommand | None:
    return _answer(call, is_first=True)


def _answer(call: Call, *, is_first: bool, is_read_in: bool = False) -> RemotingCommand | None:
    """Return the response to a pull; None if it is held, at its first arrival only, or if its messages are read first."""
    broker, peer, pull = call.broker, call.channel.peer, pull_of(call.fields)
    try:
        order = check_pull(broker, pull, peer)
    except PullRefused as refused:
        return refused.response(call)
    if (
        is_first and not is_read_in
    ):  # before the wait for the disk: a later commit may come during it
        commit_offset(broker, pull, order, peer)
    found = look_up(broker, pull, order, is_read_in=is_read_in)
    if found is None and call.request.is_oneway:
        return None  # no client gets what would be read in
    if found is None:
        _read_in(call, pull, order, is_first=is_first)
        return None
    note_pull(broker, pull, order, found)
    code = _code(found, pull.queue_offset)
    if (
        code == ResponseCode.PULL_NOT_FOUND
        and is_first
        and pull.sys_flag & SUSPEND
        and not call.request.is_oneway
    ):
        _hold(call, pull, order, found)
        return None
    return _response(call, pull, order, found, code)


def pull_of(fields: RequestFields) -> Pull:
    """Parse the fields of a pull."""
    return Pull(
        group=fields.text("consumerGroup"),
        topic=fields.text("topic"),
        queue_id=fields.number("queueId"),
        queue_offset=fields.number("queueOffset"),
        max_msg_nums=fields.number("maxMsgNums"),
        sys_flag=fields.number("sysFlag"),
        commit_offset=fields.number("commitOffset"),
        suspend_timeout_ms=fields.number("suspendTimeoutMillis"),
        sub_version=fields.number("subVersion"),
        subscription=fields.text("subscription"),
        expression_type=fields.text("expressionType", TAG),
    )


def look_up(
    broker: Broker, pull: Pull, order: PullOrder, *, is_read_in: bool = False
) -> PulledRecords | None:
    """Return the messages for a checked pull; None if a read would wait for the disk, unless they were read in (`is_read_in`)."""
    most = max(1, pull.max_msg_nums)
    return order.pull_filter.get(
        broker.store, pull.topic, pull.queue_id, pull.queue_offset, most, is_read_in=is_read_in
    )


def _read_in(call: Call, pull: Pull, order: PullOrder, *, is_first: bool) -> None:
    """Respond when the messages are in memory; building the response raises an error of the read again."""
    call.broker.readers.run(
        partial(
            order.pull_filter.read_in,
            call.broker.store,
            pull.topic,
            pull.queue_id,
            pull.queue_offset,
            max(1, pull.max_msg_nums),
        ),
        lambda _: _run_again(call, is_first=is_first, is_read_in=True),
    )
    call.drop_frame()


def commit_offset(broker: Broker, pull: Pull, order: PullOrder, peer: str) -> None:
    """Commit the offset of a pull, if the pull has one to commit."""
    if pull.sys_flag & COMMIT_OFFSET and pull.commit_offset >= 0:
        group, topic = order.group.group_name, order.topic.name
        try:
            broker.offsets.commit(group, topic, pull.queue_id, pull.commit_offset, peer)
        except OffsetsFullError as error:
            # As in Java, a pull is answered even if its commit fails.
            _LOG.warning("%s: a commit of group %s is refused: %s", peer, shown_value(group), error)


def note_pull(broker: Broker, pull: Pull, order: PullOrder, found: PulledRecords) -> None:
    """Note the offset up to which a group received messages, and count them."""
    group, topic = order.group.group_name, order.topic.name
    broker.offsets.note_pull(group, topic, pull.queue_id, found.next_begin_offset)
    broker.stats.broker_get(found.messages)
    if found.status is Status.FOUND:
        broker.stats.group_get(group, topic, found.messages, len(found.body))


def _code(found: PulledRecords, queue_offset: int) -> ResponseCode:
    """Return the response code for a status."""
    if found.status in (Status.NO_MATCHED_LOGIC_QUEUE, Status.NO_MESSAGE_IN_QUEUE):
        return ResponseCode.PULL_OFFSET_MOVED if queue_offset else ResponseCode.PULL_NOT_FOUND
    return _CODES[found.status]


def _response(
    call: Call, pull: Pull, order: PullOrder, found: PulledRecords, code: ResponseCode
) -> RemotingCommand:
    broker_id = suggested_broker(call.broker, order.group, found)
    if code == ResponseCode.PULL_OFFSET_MOVED:
        code, broker_id = _offset_moved(call, pull, order, found, broker_id)
    fields = found_fields(
        order.group.group_sys_flag,
        found.max_offset,
        found.min_offset,
        found.next_begin_offset,
        broker_id,
        order.topic.topic_sys_flag,
    )
    return call.respond(code, found.status.name, ext_fields=fields, body=found.body)


def suggested_broker(broker: Broker, group: SubscriptionGroupConfig, found: PulledRecords) -> int:
    """Return the id of the broker that the next pull should ask."""
    if not broker.settings.slave_read_enable:
        return _MASTER_ID
    slowly = found.suggest_pulling_from_slave
    return group.which_broker_when_consume_slowly if slowly else group.broker_id


def found_fields(
    group_sys_flag: object,
    max_offset: object,
    min_offset: object,
    next_begin_offset: object,
    broker_id: object,
    topic_sys_flag: object,
) -> dict[str, str]:
    """Return the fields of a response, sorted by name, as Java writes them."""
    return {
        "groupSysFlag": str(group_sys_flag),
        "maxOffset": str(max_offset),
        "minOffset": str(min_offset),
        "nextBeginOffset": str(next_begin_offset),
        "suggestWhichBrokerId": str(broker_id),
        "topicSysFlag": str(topic_sys_flag),
    }


def _offset_moved(
    call: Call, pull: Pull, order: PullOrder, found: PulledRecords, broker_id: int
) -> tuple[ResponseCode, int]:
    """Return the response that moves a client's offset; a slave, which may only be late, moves none."""
    config = call.broker.store.config
    is_right = config.corrects_offsets
    _LOG.warning(
        "%s: group %s, topic %s, queue %d: pulled at %d, the queue has %d to %d%s",
        call.channel.peer,
        order.group.group_name,
        order.topic.name,
        pull.queue_id,
        pull.queue_offset,
        found.min_offset,
        found.max_offset,
        "" if is_right else "; the master may know better",
    )
    if is_right:
        return ResponseCode.PULL_OFFSET_MOVED, broker_id
    return ResponseCode.PULL_RETRY_IMMEDIATELY, order.group.broker_id


def _hold(call: Call, pull: Pull, order: PullOrder, found: PulledRecords) -> None:
    """Hold the pull until a message that passes the filter arrives, or the time is over."""
    broker = call.broker
    call.drop_frame()
    timeout_ms = pull.suspend_timeout_ms
    if not broker.settings.long_polling_enable:
        timeout_ms = broker.settings.short_polling_time_mills
    held = HeldPull(
        call.channel,
        pull.topic,
        pull.queue_id,
        found.max_offset,
        wants=partial(order.pull_filter.wants, broker.store),
        run=partial(_run_again, call),
        refuse=partial(_refuse, call),
        memory_bytes=_HELD_BYTES + call.memory_bytes() + order.pull_filter.memory_bytes,
    )
    broker.held_pulls.hold(held, timeout_ms)


def _refuse(call: Call) -> None:
    """Refuse a pull because the memory for held pulls is full; its client waits a while before it asks again."""
    if not call.channel.closed:
        remark = "[OVERLOAD]the broker holds too many pulls (maxHeldPullBytes), try again later"
        call.answer(call.respond(ResponseCode.SYSTEM_BUSY, remark))


def _run_again(call: Call, *, is_first: bool = False, is_read_in: bool = False) -> None:
    """Respond to a pull that has waited, unless its client is gone."""
    if not call.channel.closed:
        answer_later(call, partial(_answer, call, is_first=is_first, is_read_in=is_read_in))


HANDLERS: Mapping[RequestCode, Callable[[Call], RemotingCommand | None]] = {
    RequestCode.PULL_MESSAGE: _pull,
    RequestCode.LITE_PULL_MESSAGE: _pull,
}
