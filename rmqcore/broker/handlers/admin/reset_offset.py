"""The request that moves a group's offsets in a topic to a time: back to read again, or forward to skip messages.

Source: RocketMQ 5.5.0 AdminBrokerProcessor#resetOffset, #resetOffsetInner, Broker2Client#resetOffset.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future

from rmqcore.broker.call import Call
from rmqcore.broker.state.clients import ClientChannelInfo
from rmqcore.broker.state.offsets import OffsetsFullError
from rmqcore.broker.worker import WorkerBusyError
from rmqcore.engine.store.store import MessageStore
from rmqcore.errors import StoreError
from rmqcore.remoting.bodies.queue_locks import MessageQueue
from rmqcore.remoting.bodies.queue_tables import encode_reset_offsets, encode_reset_offsets_for_c
from rmqcore.remoting.codes import LanguageCode, RequestCode, ResponseCode
from rmqcore.remoting.command import ONEWAY_FLAG, RemotingCommand

ALL_QUEUES = -1
NO_OFFSET = -1


def _reset_offset(call: Call) -> RemotingCommand | None:
    """Set the offsets of a group, and let its members continue from there.

    Notes
    -----
    Members receive RESET_CONSUMER_CLIENT_OFFSET, as in Java without ``useServerSideResetOffset``; with it, Java moves
    the next pull of each queue instead. The offsets are committed in any case, also for a group without members.
    """
    fields = call.fields
    name, group = fields.text("topic"), fields.text("group")
    topic = call.broker.topics.get(name)
    if topic is None:
        return call.respond(ResponseCode.TOPIC_NOT_EXIST, f"Topic {name} does not exist")
    if call.broker.groups.get(group) is None:
        remark = f"Group {group} does not exist"
        return call.respond(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, remark)
    queue_id, given = fields.number("queueId", ALL_QUEUES), fields.number("offset", NO_OFFSET)
    queue_ids = range(topic.read_queue_nums) if queue_id < 0 else (queue_id,)
    if not queue_ids:
        return call.respond(ResponseCode.SYSTEM_ERROR, "No queues to reset.")
    broker_name, store = call.broker.settings.broker_name, call.broker.store
    queues = [MessageQueue(name, broker_name, one) for one in queue_ids]
    timestamp_ms = fields.number("timestamp")

    def work() -> dict[MessageQueue, int]:
        if queue_id >= 0 and given != NO_OFFSET:
            return {queues[0]: _checked(store, queues[0], given)}
        return {queue: _offset_at(store, queue, timestamp_ms) for queue in queues}

    try:
        call.broker.worker.run(work, lambda done: _found(call, group, done))
    except WorkerBusyError as error:
        return call.respond(ResponseCode.SYSTEM_BUSY, str(error))
    return None


def _checked(store: MessageStore, queue: MessageQueue, queue_offset: int) -> int:
    first = store.min_offset(queue.topic, queue.queue_id)
    last = store.max_offset(queue.topic, queue.queue_id)
    if not first <= queue_offset <= last + 1:
        where = f"[{first}-{last}]"
        raise ValueError(f"Target offset {queue_offset} not in consume queue range {where}")
    return queue_offset


def _offset_at(store: MessageStore, queue: MessageQueue, timestamp_ms: int) -> int:
    if timestamp_ms < 0:
        return store.max_offset(queue.topic, queue.queue_id)
    return store.offset_by_time(queue.topic, queue.queue_id, timestamp_ms)


def _found(call: Call, group: str, done: Future[dict[MessageQueue, int]]) -> None:
    """Commit the offsets and notify the members, in the loop's thread."""
    error = done.exception()
    if isinstance(error, StoreError | OSError | ValueError):
        call.answer(call.respond(ResponseCode.SYSTEM_ERROR, str(error)))
        return
    offsets = done.result()
    try:
        for queue, queue_offset in offsets.items():
            call.broker.offsets.commit(
                group, queue.topic, queue.queue_id, queue_offset, call.channel.peer
            )
    except OffsetsFullError as full:
        call.answer(call.respond(ResponseCode.SYSTEM_ERROR, str(full)))
        return
    info = call.broker.consumers.group(group)
    if info is not None:
        for client in info.members().values():
            _tell(call, client, group, offsets)
    response = call.respond(body=encode_reset_offsets(offsets))
    call.broker.offsets.save_if_changed(lambda: call.answer(response))


def _tell(
    call: Call, client: ClientChannelInfo, group: str, offsets: Mapping[MessageQueue, int]
) -> None:
    code = RequestCode.RESET_CONSUMER_CLIENT_OFFSET
    ext_fields = {
        "topic": call.fields.text("topic"),
        "group": group,
        "timestamp": str(call.fields.number("timestamp")),
        "isForce": "true" if call.fields.flag("isForce") else "false",
    }
    encode = (
        encode_reset_offsets_for_c if client.language is LanguageCode.CPP else encode_reset_offsets
    )
    client.channel.send(
        RemotingCommand(code, flag=ONEWAY_FLAG, ext_fields=ext_fields, body=encode(offsets))
    )


HANDLERS: Mapping[RequestCode, Callable[[Call], RemotingCommand | None]] = {
    RequestCode.INVOKE_BROKER_TO_RESET_OFFSET: _reset_offset
}
