"""One round of checks of the halves that have not ended: in slices, because the loop has other things to do.

Source: RocketMQ 5.5.0 TransactionalMessageServiceImpl#check, TransactionalMessageCheckService.
"""

from __future__ import annotations

import logging
from functools import partial

from rmqcore.broker.parts import BrokerParts
from rmqcore.broker.transactions.half_walk import HalfWalk
from rmqcore.broker.transactions.messages import HalfMemory
from rmqcore.broker.transactions.steps import Steps
from rmqcore.errors import StoreError
from rmqcore.vocabulary.topics import TRANS_HALF_TOPIC

_LOG = logging.getLogger("rmqcore.broker")


class TransactionCheck:
    """A round, which starts at once. Its methods are called by the loop's thread only.

    Parameters
    ----------
    broker : BrokerParts
    memories : dict of int to HalfMemory
        This process's knowledge of the halves, by queue.
    """

    def __init__(self, broker: BrokerParts, memories: dict[int, HalfMemory]) -> None:
        self._broker = broker
        self._memories = memories
        self.is_over = False
        self._steps = self._round()
        self._go_on(None)

    def stop(self) -> None:
        """Stop the round. The next one starts at the saved offsets."""
        self.is_over = True

    def _go_on(self, answer: object) -> None:
        """Run the next slice. An error ends the round; the next round starts again."""
        if self.is_over:
            return
        loop = self._broker.loop
        try:
            asked = self._steps.send(answer)
            if callable(asked):
                asked(lambda found: loop.call_later(0, partial(self._go_on, found)))
            else:
                loop.call_later(asked, partial(self._go_on, None))
        except StopIteration:
            self.is_over = True
        except (StoreError, OSError) as error:
            _LOG.error("the check of transactions stops: %s", error)
            self.is_over = True
        except BaseException:
            self.is_over = True
            raise

    def _round(self) -> Steps:
        config = self._broker.topics.get(TRANS_HALF_TOPIC)
        for queue_id in range(1 if config is None else config.read_queue_nums):
            memory = self._memories.setdefault(queue_id, HalfMemory())
            yield from HalfWalk(self._broker, queue_id, memory).steps()
