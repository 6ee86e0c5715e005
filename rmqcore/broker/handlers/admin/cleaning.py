"""Requests to delete queues without messages, and files whose time is over.

Source: RocketMQ 5.5.0 AdminBrokerProcessor#cleanExpiredConsumeQueue, #cleanUnusedTopic.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from rmqcore.broker.call import Call
from rmqcore.broker.handlers.in_background import answer_in_background
from rmqcore.remoting.codes import RequestCode
from rmqcore.remoting.command import RemotingCommand

_LOG = logging.getLogger("rmqcore.broker")


def _clean_expired_consume_queue(call: Call) -> RemotingCommand | None:
    """Delete the queues whose messages have all left the log.

    Notes
    -----
    CLEAN_UNUSED_TOPIC does the same here; Java deletes the queues of unknown topics, even with messages.
    """
    store = call.broker.store

    def work() -> RemotingCommand:
        deleted = store.clean_expired_consume_queues()
        _LOG.info("deleted queues without messages: %s", deleted)
        return call.respond()

    return answer_in_background(call, work)


def _delete_expired_commit_log(call: Call) -> RemotingCommand:
    """Let the next rounds of cleaning delete expired files at any hour.

    Source: RocketMQ 5.5.0 AdminBrokerProcessor#deleteExpiredCommitLog.
    """
    call.broker.store.execute_delete_files_manually()
    _LOG.warning("%s requested the deletion of expired files", call.channel.peer)
    return call.respond()


HANDLERS: Mapping[RequestCode, Callable[[Call], RemotingCommand | None]] = {
    RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE: _clean_expired_consume_queue,
    RequestCode.DELETE_EXPIRED_COMMITLOG: _delete_expired_commit_log,
    RequestCode.CLEAN_UNUSED_TOPIC: _clean_expired_consume_queue,
}
