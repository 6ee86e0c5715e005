"""END_TRANSACTION: a producer commits the half of a transaction, or rolls it back.

Source: RocketMQ 5.5.0 EndTransactionProcessor.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from rmqcore._native.put.put_result import PutResult
from rmqcore.broker.call import Call
from rmqcore.broker.handlers.in_background import when_warm
from rmqcore.broker.handlers.send_answers import STORED_CODES
from rmqcore.broker.put_message import store_message
from rmqcore.broker.transactions.messages import IMMUNITY, PRODUCER_GROUP, committed, long_of
from rmqcore.codec.message import Message, MessageView
from rmqcore.remoting.codes import RequestCode, ResponseCode
from rmqcore.remoting.command import RemotingCommand
from rmqcore.vocabulary import sysflag
from rmqcore.vocabulary.status import PutMessageStatus as Status
from rmqcore.vocabulary.topics import TRANS_HALF_TOPIC

_ERROR = ResponseCode.SYSTEM_ERROR
_REFUSED = {
    Status.CREATE_MAPPED_FILE_FAILED: (_ERROR, "Create mapped file failed."),
    Status.SERVICE_NOT_AVAILABLE: (
        ResponseCode.SERVICE_NOT_AVAILABLE,
        "Service not available now.",
    ),
    Status.OS_PAGE_CACHE_BUSY: (_ERROR, "OS page cache busy, please try another machine"),
    Status.WHEEL_TIMER_NOT_ENABLE: (
        _ERROR,
        "accurate timer message is not enabled, timerWheelEnable is false",
    ),
    Status.UNKNOWN_ERROR: (_ERROR, "UNKNOWN_ERROR"),
    Status.IN_SYNC_REPLICAS_NOT_ENOUGH: (_ERROR, "in-sync replicas not enough"),
}
_ROLLED_BACK = "not set any response code"
"""What Java's successful answer says."""
_LOG = logging.getLogger("rmqcore.broker")


def end_transaction(call: Call) -> RemotingCommand | None:
    """Commit or roll back as the producer asks; return None for a producer that does not know yet."""
    if call.broker.store.config.is_slave:
        return call.respond(ResponseCode.SLAVE_NOT_AVAILABLE)
    end = call.fields.number("commitOrRollback")
    if end not in (sysflag.TRANSACTION_COMMIT, sysflag.TRANSACTION_ROLLBACK):
        return None
    phy_offset = call.fields.number("commitLogOffset")
    return when_warm(call, phy_offset, lambda: _end(call, end, phy_offset))


def _end(call: Call, end: int, phy_offset: int) -> RemotingCommand | None:
    half = call.broker.store.lookup(phy_offset)
    if half is None or half.topic != TRANS_HALF_TOPIC:
        return call.respond(_ERROR, "Find prepared transaction message failed")
    if _is_too_late(call, half):
        return call.respond(ResponseCode.ILLEGAL_OPERATION)
    if (wrong := _wrong_half(call, half)) is not None:
        return call.respond(_ERROR, wrong)
    if end == sysflag.TRANSACTION_ROLLBACK:
        call.broker.transactions.end(half)
        return call.respond(remark=_ROLLED_BACK)
    message = committed(half)
    call.keep(half.msg_size)
    store_message(
        call.broker, message, lambda result: call.answer(_answer(call, half, message, result))
    )
    return None


def _is_too_late(call: Call, half: MessageView) -> bool:
    """Return True if the immunity that the producer chose is over and the request does not answer the broker's check.

    Source: RocketMQ 5.5.0 EndTransactionProcessor#rejectCommitOrRollback, TransactionalMessageUtil#getImmunityTime.
    """
    text = half.properties.get(IMMUNITY)
    if call.fields.flag("fromTransactionCheck") or not text:
        return False
    immunity_ms = max(long_of(text, 0) * 1000, call.broker.settings.transaction_time_out)
    return call.broker.now_ms() - half.born_timestamp_ms > immunity_ms


def _wrong_half(call: Call, half: MessageView) -> str | None:
    """Return the part of a request that does not belong to the half that it names."""
    if half.properties.get(PRODUCER_GROUP) != call.fields.text("producerGroup"):
        return "The producer group wrong"
    if half.queue_offset != call.fields.number("tranStateTableOffset"):
        return "The transaction state table offset wrong"
    if half.phy_offset != call.fields.number("commitLogOffset"):
        return "The commit log offset wrong"
    return None


def _answer(call: Call, half: MessageView, message: Message, result: PutResult) -> RemotingCommand:
    status = result.status
    if status in STORED_CODES:
        call.broker.transactions.end(half)
        call.broker.stats.topic_put(message.topic, result.count, result.msg_size)
        call.broker.stats.broker_put(result.count)
        return call.respond()
    if status in (Status.MESSAGE_ILLEGAL, Status.PROPERTIES_SIZE_EXCEEDED):
        limit = call.broker.store.config.max_message_size
        remark = (
            "The message is illegal, maybe msg body or properties length not matched. "
            f"msg body length limit {limit}B, msg properties length limit 32KB."
        )
        return call.respond(ResponseCode.MESSAGE_ILLEGAL, remark)
    _LOG.error("the half message at %d could not be committed: %s", half.phy_offset, status)
    return call.respond(*_REFUSED.get(status, (_ERROR, "UNKNOWN_ERROR DEFAULT")))


HANDLERS: Mapping[RequestCode, Callable[[Call], RemotingCommand | None]] = {
    RequestCode.END_TRANSACTION: end_transaction,
}
