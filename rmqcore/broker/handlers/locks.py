"""Locks of queues that are consumed in order: 41 LOCK_BATCH_MQ, 42 UNLOCK_BATCH_MQ.

Source: RocketMQ 5.5.0 AdminBrokerProcessor#lockBatchMQ, #unlockBatchMQ.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from rmqcore.broker.call import Call
from rmqcore.broker.handlers.in_background import with_parsed_body
from rmqcore.remoting.bodies.queue_locks import LockBatch, encode_locked, parse_lock_batch
from rmqcore.remoting.codes import RequestCode
from rmqcore.remoting.command import RemotingCommand


def _lock(call: Call) -> RemotingCommand | None:
    return with_parsed_body(call, parse_lock_batch, _lock_batch)


def _lock_batch(call: Call, wanted: LockBatch) -> RemotingCommand:
    locks = call.broker.queue_locks
    locked = locks.try_lock_batch(
        wanted.consumer_group, wanted.queues, wanted.client_id, call.channel
    )
    return call.respond(body=encode_locked(locked))


def _unlock(call: Call) -> RemotingCommand | None:
    return with_parsed_body(call, parse_lock_batch, _unlock_batch)


def _unlock_batch(call: Call, wanted: LockBatch) -> RemotingCommand:
    call.broker.queue_locks.unlock_batch(wanted.consumer_group, wanted.queues, wanted.client_id)
    return call.respond()


HANDLERS: Mapping[RequestCode, Callable[[Call], RemotingCommand | None]] = {
    RequestCode.LOCK_BATCH_MQ: _lock,
    RequestCode.UNLOCK_BATCH_MQ: _unlock,
}
