"""Locks of queues at their brokers: in a group that consumes in order, only one member reads a queue.

Source: RocketMQ 5.5.0 RebalanceImpl#lock, #lockAll, #unlock, ProcessQueue.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable

from rmqcore.client.instance import ClientInstance
from rmqcore.client.messages.message_queue import MessageQueue
from rmqcore.errors import ClientError, NotReachedError
from rmqcore.remoting.bodies import queue_locks as bodies
from rmqcore.remoting.codes import RequestCode
from rmqcore.remoting.command import RemotingCommand

_LOG = logging.getLogger("rmqcore.client")
RENEW_SECONDS = 20.0
LOCK_SECONDS = 30.0
"""How long a queue is consumed without another renewal; brokers hold a lock for 60 s."""


class QueueLocks:
    """Locks for a member of a group. Used by its loop's thread only."""

    def __init__(self, instance: ClientInstance, group: str) -> None:
        self._instance = instance
        self._group = group

    async def lock(self, queues: Iterable[MessageQueue]) -> dict[MessageQueue, bool]:
        """Lock queues, or renew their locks.

        Returns
        -------
        dict
            Whether each queue is locked for this client. Queues whose broker did not answer are missing, and logged.
        """
        found: dict[MessageQueue, bool] = {}
        asked = [self._lock(name, own) for name, own in _by_broker(queues).items()]
        for one in await asyncio.gather(*asked):
            found |= one
        return found

    async def unlock(self, queues: Iterable[MessageQueue]) -> None:
        """Release locks, so that other members need not wait until they expire. A failure is logged."""
        asked = [self._unlock(name, own) for name, own in _by_broker(queues).items()]
        await asyncio.gather(*asked)

    async def _lock(self, broker_name: str, queues: list[MessageQueue]) -> dict[MessageQueue, bool]:
        code = RequestCode.LOCK_BATCH_MQ
        try:
            locked = await self._instance.ask(
                self._address(broker_name, code),
                self._request(code, queues),
                lambda response: frozenset(
                    (one.topic, one.broker_name, one.queue_id)
                    for one in bodies.parse_locked(code.name, response.body)
                ),
            )
        except ClientError as error:
            text = "locks of %d queues of broker %s, asked for again: %s"
            self._instance.outages.begin(
                f"locks {broker_name}", text, len(queues), broker_name, error
            )
            return {}
        self._instance.outages.end(f"locks {broker_name}", "broker %s locks again", broker_name)
        return {queue: tuple(queue) in locked for queue in queues}

    async def _unlock(self, broker_name: str, queues: list[MessageQueue]) -> None:
        code = RequestCode.UNLOCK_BATCH_MQ
        try:
            await self._instance.ask(
                self._address(broker_name, code), self._request(code, queues), lambda _: None
            )
        except ClientError as error:
            _LOG.warning("unlock of %d queues of broker %s: %s", len(queues), broker_name, error)

    def _request(self, code: RequestCode, queues: list[MessageQueue]) -> RemotingCommand:
        named = tuple(bodies.MessageQueue(*queue) for queue in queues)
        wanted = bodies.LockBatch(self._group, self._instance.client_id, named)
        return RemotingCommand(code, body=bodies.encode_lock_batch(wanted))

    def _address(self, broker_name: str, code: RequestCode) -> str:
        address = self._instance.routes.master(broker_name)
        if address is None:
            raise NotReachedError(broker_name, code.name, "no route names its master")
        return address


def _by_broker(queues: Iterable[MessageQueue]) -> dict[str, list[MessageQueue]]:
    found: dict[str, list[MessageQueue]] = {}
    for queue in queues:
        found.setdefault(queue.broker_name, []).append(queue)
    return found
