"""How far a group has come, stored at its brokers: the commits of one consumer, one after the other.

Source: RocketMQ 5.5.0 RemoteBrokerOffsetStore.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterable

from rmqcore.client.assigned_queue import PulledQueue
from rmqcore.client.deadlines import deadline
from rmqcore.client.outages import Outages
from rmqcore.errors import AnswerTimeoutError, ClientError, NotReachedError

AUTO_COMMIT_SECONDS = 5.0
Positions = list[tuple[PulledQueue, int | None]]
"""Queues, each with the queue offset that the group has come to; None where that is not known."""


class Commits:
    """Commits of several queues together. Used by its loop's thread only.

    Parameters
    ----------
    outages : Outages
    """

    def __init__(self, outages: Outages) -> None:
        self._outages = outages
        self._committing = asyncio.Lock()

    async def commit(self, positions: Positions) -> None:
        """Store the group's offsets.

        Raises
        ------
        ClientError
            A broker has not stored it; those of other queues may be stored.
        """
        # One after the other for a topic on a broker: Java makes the table of a group and topic at its first commit without
        # a lock, and of two that come at once it loses one (ConsumerOffsetManager#commitOffset), though both are answered.
        by_table: dict[tuple[str, str], Positions] = {}
        for one, position in positions:
            table = by_table.setdefault((one.queue.broker_name, one.queue.topic), [])
            table.append((one, position))
        async with self._committing:
            done = await asyncio.gather(*map(_commit_in_turn, by_table.values()))
        for error in itertools.chain.from_iterable(done):
            raise error

    async def commit_unasked(self, positions: Positions, seconds: float) -> None:
        """Commit what the caller has done with. The first of several failures is logged, and the next time is soon."""
        try:
            async with deadline(seconds, "commit"):
                await self.commit(positions)
        except ClientError as error:
            self._outages.begin("commit", "commit: %s", error)
        else:
            self._outages.end("commit", "commits are stored again")


async def _commit_in_turn(positions: Iterable[tuple[PulledQueue, int | None]]) -> list[ClientError]:
    """Commit them one after the other; return what went wrong. Of a broker that does not answer no more is asked."""
    errors: list[ClientError] = []
    for one, position in positions:
        try:
            await one.commit(position)
        except (AnswerTimeoutError, NotReachedError) as error:
            return [*errors, error]
        except ClientError as error:
            errors.append(error)
    return errors
