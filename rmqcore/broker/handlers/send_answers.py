"""Responses to puts: code, remark, and the message's place.

Source: RocketMQ 5.5.0 SendMessageProcessor#handlePutMessageResult.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqcore._native.put.put_result import PutResult
from rmqcore.broker.call import Call
from rmqcore.broker.handlers.send_checks import broker_fields, refuse
from rmqcore.broker.settings import BrokerSettings
from rmqcore.remoting.codes import ResponseCode
from rmqcore.remoting.command import RemotingCommand
from rmqcore.vocabulary.rocketmq_versions import readable_records
from rmqcore.vocabulary.status import PutMessageStatus as Status

if TYPE_CHECKING:
    from rmqcore.broker.broker import Broker

STORED_CODES = {
    Status.PUT_OK: ResponseCode.SUCCESS,
    Status.FLUSH_DISK_TIMEOUT: ResponseCode.FLUSH_DISK_TIMEOUT,
    Status.FLUSH_SLAVE_TIMEOUT: ResponseCode.FLUSH_SLAVE_TIMEOUT,
    Status.SLAVE_NOT_AVAILABLE: ResponseCode.SLAVE_NOT_AVAILABLE,
}
"""The message is stored, and so the client is told where."""
_ERROR = ResponseCode.SYSTEM_ERROR
_REFUSED = {
    Status.IN_SYNC_REPLICAS_NOT_ENOUGH: (_ERROR, "in-sync replicas not enough"),
    Status.CREATE_MAPPED_FILE_FAILED: (
        _ERROR,
        "create mapped file failed, server is busy or broken.",
    ),
    Status.WHEEL_TIMER_NOT_ENABLE: (
        _ERROR,
        "accurate timer message is not enabled, timerWheelEnable is false",
    ),
    Status.OS_PAGE_CACHE_BUSY: (
        ResponseCode.SYSTEM_BUSY,
        "[PC_SYNCHRONIZED]broker busy, start flow control for a while",
    ),
    Status.UNKNOWN_ERROR: (_ERROR, "UNKNOWN_ERROR"),
}


def answer_send(
    call: Call,
    result: PutResult,
    topic: str,
    queue_id: int,
    uniq_key: str | None,
) -> RemotingCommand:
    """Return the response to a send, and count the stored messages.

    Parameters
    ----------
    call : Call
    result : PutResult
    topic : str
        The topic that holds the message: for a delayed one not the topic that the producer named.
    queue_id : int
        The queue that the response names.
    uniq_key : str, optional
    """
    code = STORED_CODES.get(result.status)
    if code is None:
        return refuse(call, *why_refused(call.broker, result.status))
    stats = call.broker.stats
    stats.topic_put(topic, result.count, result.msg_size)
    stats.broker_put(result.count)
    place = result.msg_id or "", str(queue_id), str(result.queue_offset)
    fields = stored_fields(call.broker.settings, *place, uniq_key)
    return call.respond(code, ext_fields=fields)


def stored_fields(
    settings: BrokerSettings, msg_id: str, queue_id: str, queue_offset: str, uniq_key: str | None
) -> dict[str, str]:
    """Return the fields that name the place of a stored message."""
    fields = broker_fields(settings)
    fields |= {"msgId": msg_id, "queueId": queue_id, "queueOffset": queue_offset}
    if uniq_key is not None:
        fields["transactionId"] = uniq_key
    return fields


def _unread(for_version: str | None) -> str:
    unread = readable_records(for_version).describe()
    return unread and f" forVersion is {for_version}: this release cannot read {unread}."


def _why_not_now(broker: Broker) -> str:
    """Return why messages are refused; a full disk is named only if the disk is full."""
    if (why := broker.store_watch.why()) is not None:
        return f"service not available now: {why}"
    if broker.disk_guard.is_full():
        return (
            "service not available now. It may be caused by one of the following reasons: "
            f"the broker's disk is full [{broker.disk_guard.describe()}], messages are put to the slave, "
            "message store has been shut down, etc."
        )
    if broker.store.config.takes_no_puts:
        return "service not available now: messages are put to the slave"
    return "service not available now: the store refused this message, and accepts messages again"


def why_refused(broker: Broker, status: Status) -> tuple[int, str]:
    """Return code and remark for a message that is not stored."""
    match status:
        case Status.MESSAGE_ILLEGAL | Status.PROPERTIES_SIZE_EXCEEDED:
            limit = broker.store.config.max_message_size
            return ResponseCode.MESSAGE_ILLEGAL, (
                "the message is illegal, maybe msg body or properties length not matched. "
                f"msg body length limit {limit}B, msg properties length limit 32KB."
                f"{_unread(broker.store.config.for_version)}"
            )
        case Status.SERVICE_NOT_AVAILABLE:
            return ResponseCode.SERVICE_NOT_AVAILABLE, _why_not_now(broker)
        case Status.CREATE_MAPPED_FILE_FAILED if (why := broker.store_watch.why()) is not None:
            code, words = _REFUSED[status]
            return code, f"{words} {why}"
    return _REFUSED.get(status, (_ERROR, "UNKNOWN_ERROR DEFAULT"))
