"""The commits of one consumer, which store the group's offsets at the brokers, one after the other.

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
            A broker has not stored an offset; offsets of other queues may be stored.
        """
        # One after the other for a topic on a broker: at the first commit of a group and topic Java makes their table
        # without a lock. Of two concurrent commits it loses one, but answers both (ConsumerOffsetManager#commitOffset).
        by_table: dict[tuple[str, str], Positions] = {}
        for one, position in positions:
            table = by_table.setdefault((one.queue.broker_name, one.queue.topic), [])
            table.append((one, position))
        async with self._committing:
            done = await asyncio.gather(*map(_commit_in_turn, by_table.values()))
        for error in itertools.chain.from_iterable(done):
            raise error

    async def commit_unasked(self, positions: Positions, seconds: float) -> None:
        """Commit the finished messages automatically. Log only the first of several failures, and try again soon."""
        try:
            async with deadline(seconds, "commit"):
                await self.commit(positions)
        except ClientError as error:
            self._outages.begin("commit", "commit: %s", error)
        else:
            self._outages.end("commit", "commits are stored again")


async def _commit_in_turn(positions: Iterable[tuple[PulledQueue, int | None]]) -> list[ClientError]:
    """Commit one after the other; return the errors. A broker that does not answer is not asked again."""
    errors: list[ClientError] = []
    for one, position in positions:
        try:
            await one.commit(position)
        except (AnswerTimeoutError, NotReachedError) as error:
            return [*errors, error]
        except ClientError as error:
            errors.append(error)
    return errors
