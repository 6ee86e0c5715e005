"""Transactions: the marks of halves that have ended, and the checks of halves that have not.

Source: RocketMQ 5.5.0 TransactionalMessageServiceImpl, TransactionalOpBatchService, TransactionalMessageCheckService.
"""

from __future__ import annotations

import logging

from rmqcore.broker.channel import Timer
from rmqcore.broker.parts import BrokerParts
from rmqcore.broker.put_message import append_message
from rmqcore.broker.transactions.check import TransactionCheck
from rmqcore.broker.transactions.messages import SEPARATOR, HalfMemory, done_message, first_offset
from rmqcore.codec.message import MessageView

OP_MSG_MAX_SIZE = 4096
"""Bytes of marks that are written without waiting for more. Source: BrokerConfig#transactionOpMsgMaxSize."""
OP_BATCH_INTERVAL_MS = 3_000
"""How long a mark waits for others. Source: BrokerConfig#transactionOpBatchInterval."""
_LOG = logging.getLogger("rmqcore.broker")


class Transactions:
    """The halves of this broker. Its methods are called by the loop's thread only.

    Parameters
    ----------
    broker : BrokerParts
    """

    def __init__(self, broker: BrokerParts) -> None:
        self._broker = broker
        self._memories: dict[int, HalfMemory] = {}
        self._marks: dict[int, list[str]] = {}
        self._marks_size = 0
        self._timer: Timer | None = None
        self._check: TransactionCheck | None = None

    def start(self) -> None:
        """Begin to check halves every `transaction_check_interval`; a slave leaves that to its master."""
        if self._broker.store.config.is_slave:
            return
        self._broker.every(self._broker.settings.transaction_check_interval, self.check)

    def stop(self) -> None:
        """Stop checking, and write the marks that wait."""
        if self._check is not None:
            self._check.stop()
            self._check = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._write(least_size=1)

    # ---- halves that ended ------------------------------------------------------------------------------

    def end(self, half: MessageView) -> None:
        """Note that a half was committed or rolled back, which ends its checks.

        The mark is written with others, a moment later. If the process is killed before, the half is checked again.
        """
        memory = self._memories.setdefault(half.queue_id, HalfMemory())
        memory.ended.add(half.queue_offset)
        first = first_offset(half)
        if first is not None and first != half.queue_offset:
            memory.put_off.discard(first)
        mark = f"{half.queue_offset}{SEPARATOR}"
        self._marks.setdefault(half.queue_id, []).append(mark)
        self._marks_size += len(mark)
        if self._marks_size > OP_MSG_MAX_SIZE:
            self._write(least_size=OP_MSG_MAX_SIZE)
        self._wait_for_more()

    def write_marks(self) -> None:
        """Write all marks that wait, in messages of about `OP_MSG_MAX_SIZE` bytes."""
        self._timer = None
        self._write(least_size=1)
        self._wait_for_more()  # if the store refused some

    def _wait_for_more(self) -> None:
        if self._marks_size and self._timer is None:
            wait = OP_BATCH_INTERVAL_MS / 1000
            self._timer = self._broker.loop.call_later(wait, self.write_marks)

    def _write(self, least_size: int) -> None:
        """Write the marks of each queue until fewer than `least_size` bytes of them are left."""
        for queue_id, marks in self._marks.items():
            while sum(map(len, marks)) >= least_size:
                count, text = _joined(marks)
                if not self._put(queue_id, text):
                    if self._broker.store.refusal is None:  # else StoreWatch logs it
                        _LOG.error(
                            "%d op messages of ended transactions are waiting to be written",
                            len(marks),
                        )
                    break
                del marks[:count]
                self._marks_size -= len(text)

    def _put(self, queue_id: int, text: str) -> bool:
        broker = self._broker
        message = done_message(queue_id, text, broker.store_host, broker.now_ms())
        result = append_message(broker, message)
        if not result.stored:
            return False
        broker.stats.topic_put(message.topic, 1, result.msg_size)
        broker.stats.broker_put(1)
        return True

    # ---- halves that have not ended ---------------------------------------------------------------------

    def check(self) -> None:
        """Begin a round of checks, unless the previous one is still running."""
        if self._check is None or self._check.is_over:
            self._check = TransactionCheck(self._broker, self._memories)


def _joined(marks: list[str]) -> tuple[int, str]:
    """Join marks up to the size of one message; return how many, and the text."""
    size = count = 0
    for mark in marks:
        if size >= OP_MSG_MAX_SIZE:
            break
        size += len(mark)
        count += 1
    return count, "".join(marks[:count])
