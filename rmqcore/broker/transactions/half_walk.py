"""A walk through one queue of halves, which checks, puts off or gives up each, and moves the offset of the next walk.

Source: RocketMQ 5.5.0 TransactionalMessageServiceImpl#check, AbstractTransactionalMessageCheckListener.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator
from functools import partial
from typing import Any

from rmqcore import codec
from rmqcore._native.put.put_result import PutResult, refused_result
from rmqcore.broker.parts import BrokerParts
from rmqcore.broker.put_message import append_message, is_final, refusal
from rmqcore.broker.stored_copy import copy_of, real_place
from rmqcore.broker.transactions.marks import TransactionMarks, consumed_offset
from rmqcore.broker.transactions.messages import (
    CHECK_TIMES,
    GROUP,
    IMMUNITY,
    PREPARED_QUEUE_OFFSET,
    PRODUCER_GROUP,
    HalfMemory,
    first_offset,
    given_up,
    half_again,
    long_of,
)
from rmqcore.broker.transactions.steps import Ask, Steps, get_when_warm
from rmqcore.codec.message import Message, MessageView
from rmqcore.remoting.bodies.topic_configs import READ, WRITE, TopicConfig
from rmqcore.remoting.codes import RequestCode
from rmqcore.remoting.command import ONEWAY_FLAG, RemotingCommand
from rmqcore.remoting.request_fields import encode_fields
from rmqcore.vocabulary.properties import UNIQ_KEY
from rmqcore.vocabulary.status import PutMessageStatus
from rmqcore.vocabulary.topics import (
    TRANS_CHECK_MAX_TIME_TOPIC,
    TRANS_HALF_TOPIC,
    TRANS_OP_HALF_TOPIC,
)
from rmqcore.vocabulary.units import HOUR_MS

MOST_MS = 60_000
"""A round ends after so long, and the next one goes on."""
WAIT_FOR_MARKS_S = 1.0
_HALVES_AT_ONCE = 32
_LOG = logging.getLogger("rmqcore.broker")


class HalfWalk:
    """One walk through a queue, in steps made by the caller.

    Parameters
    ----------
    broker : BrokerParts
    queue_id : int
    memory : HalfMemory
        This process's knowledge of the halves of the queue.
    """

    def __init__(self, broker: BrokerParts, queue_id: int, memory: HalfMemory) -> None:
        self._broker = broker
        self._queue_id = queue_id
        self._memory = memory
        self._start_ms = broker.now_ms()
        self._end_ms = broker.steady_ms() + MOST_MS
        self._end_phy_offset = broker.store.max_phy_offset
        self._half_offset = consumed_offset(broker, TRANS_HALF_TOPIC, queue_id)
        self._marks = TransactionMarks(broker, queue_id, least=self._half_offset)

    def steps(self) -> Steps:
        """Walk to the first half that is not due."""
        yield from self._marks.read_more()
        misses = count = 0
        while self._broker.steady_ms() <= self._end_ms:
            count += 1
            if count % _HALVES_AT_ONCE == 0:
                yield 0.0
            if self._has_ended(self._half_offset):
                self._half_offset += 1
                continue
            found = yield from get_when_warm(
                self._broker, TRANS_HALF_TOPIC, self._queue_id, self._half_offset, 1
            )
            if not found.messages:
                misses += 1
                if misses > 1 or found.next_begin_offset == self._half_offset:
                    break
                self._half_offset = found.next_begin_offset
                continue
            if (yield from self._check(found.messages[0])):
                self._half_offset += 1
            else:
                break
        yield from self._commit()

    def _check(self, half: MessageView) -> Generator[float | Ask, Any, bool]:
        """Check, put off or give up a half; return False if it is not due: the walk ends there."""
        settings = self._broker.settings
        properties = half.properties
        if self._is_too_often(properties) or self._is_too_old(half):
            return (yield from self._give_up(half, properties))
        # Stored since the walk began. Java compares times, and stops for the time by which a clock was set back.
        if half.phy_offset >= self._end_phy_offset:
            return False
        immunity_ms = _immunity_ms(properties.get(IMMUNITY), settings.transaction_time_out)
        while True:
            age_ms = self._broker.now_ms() - half.born_timestamp_ms
            if IMMUNITY in properties:
                if age_ms <= immunity_ms and first_offset(half) is not None:
                    return (yield from self._put_off(half))
            elif 0 <= age_ms <= immunity_ms:
                return False
            if self._is_to_be_asked(age_ms, immunity_ms):
                return (yield from self._ask(half, properties))
            if self._broker.steady_ms() > self._end_ms:
                return False
            yield 0.0 if (yield from self._marks.read_more()) else WAIT_FOR_MARKS_S
            if self._has_ended(self._half_offset):
                return True

    def _has_ended(self, half_offset: int) -> bool:
        return self._marks.take(half_offset) or half_offset in self._memory.ended

    def _is_to_be_asked(self, age_ms: int, immunity_ms: int) -> bool:
        """Return True if the marks that were read are young enough: a mark of this half would be among them."""
        newest_ms = self._marks.newest_born_ms
        if newest_ms is None:
            return age_ms > immunity_ms or age_ms < 0
        timeout_ms = self._broker.settings.transaction_time_out
        return newest_ms - self._start_ms > timeout_ms or age_ms < 0

    def _is_too_often(self, properties: dict[str, str]) -> bool:
        """Count a check; return True if the half was checked often enough."""
        text = properties.get(CHECK_TIMES)
        times = 0 if text is None else long_of(text, -1)
        if text is not None and times >= self._broker.settings.transaction_check_max:
            return True
        properties[CHECK_TIMES] = str(times + 1)
        return False

    def _is_too_old(self, half: MessageView) -> bool:
        hours = self._broker.store.config.file_reserved_time
        return self._broker.now_ms() - half.born_timestamp_ms > hours * HOUR_MS

    def _give_up(
        self, half: MessageView, properties: dict[str, str]
    ) -> Generator[float | Ask, Any, bool]:
        topics = self._broker.topics
        config: TopicConfig | None = yield partial(
            topics.create_for_send_back, TRANS_CHECK_MAX_TIME_TOPIC, 1, READ | WRITE, 0
        )
        if config is None or not self._put(given_up(half, properties)).stored:
            return False
        self._memory.put_off.discard(first_offset(half))
        _LOG.error("giving up the half message at %d of queue %d", half.queue_offset, half.queue_id)
        return True

    def _put_off(self, half: MessageView) -> Generator[float | Ask, Any, bool]:
        """Store a half again if its own time for a check has not come, unless it has ended.

        Source: RocketMQ 5.5.0 TransactionalMessageServiceImpl#checkPrepareQueueOffset.
        """
        if self._is_over_at_first(half):
            return True
        first = first_offset(half)
        assert first is not None
        self._memory.put_off.add(first)
        properties = half.properties
        properties[PREPARED_QUEUE_OFFSET] = str(first)
        again = half_again(half, properties)
        result = self._put(again)
        if is_final(self._broker, again, result.status):
            return (yield from self._give_up(half, half.properties))
        return result.stored

    def _is_over_at_first(self, half: MessageView) -> bool:
        """Return True if a half that was put off has ended at the queue offset that its producer knows."""
        first = first_offset(half)
        if first is None or first == half.queue_offset or not self._has_ended(first):
            return False
        self._memory.put_off.discard(first)
        return True

    def _ask(
        self, half: MessageView, properties: dict[str, str]
    ) -> Generator[float | Ask, Any, bool]:
        """Store a half again, and ask a producer of its group how it ended."""
        if self._is_over_at_first(half):
            return True
        again = half_again(half, properties)
        result = self._put(again)
        # The properties that a check adds may exceed the limit.
        if is_final(self._broker, again, result.status):
            return (yield from self._give_up(half, half.properties))
        if not result.stored:
            return False
        group = properties.get(PRODUCER_GROUP, "")
        channel = self._broker.producers.available_channel(group)
        if channel is None:
            _LOG.warning("no producer of group %s is connected to check a transaction", group)
            return True
        try:
            channel.send(self._question(half, properties, result))
        except ValueError as error:  # it is given up in the end, and stored for operators
            _LOG.error("a half message cannot be checked: %s", error)
        return True

    def _question(
        self, half: MessageView, properties: dict[str, str], result: PutResult
    ) -> RemotingCommand:
        topic, queue_id = real_place(half)
        uniq_key = properties.get(UNIQ_KEY)
        fields: dict[str, str | int | bool] = {
            "topic": TRANS_HALF_TOPIC,
            "tranStateTableOffset": result.queue_offset,
            "commitLogOffset": result.phy_offset,
            "offsetMsgId": result.msg_id or "",
            "bname": self._broker.settings.broker_name,
        }
        if uniq_key is not None:
            fields |= {"msgId": uniq_key, "transactionId": uniq_key}
        code = RequestCode.CHECK_TRANSACTION_STATE
        body = codec.encode(
            copy_of(half, topic, queue_id, properties),
            phy_offset=result.phy_offset,
            queue_offset=result.queue_offset,
            store_timestamp_ms=half.store_timestamp_ms,
        )
        return RemotingCommand(
            code, flag=ONEWAY_FLAG, ext_fields=encode_fields(code, fields), body=body
        )

    def _put(self, message: Message) -> PutResult:
        """Store a half again; if the store refuses it, the next round tries again."""
        status = refusal(self._broker, message)
        if status is not None:
            return refused_result(status)
        result = append_message(self._broker, message)
        if result.stored:
            self._broker.stats.topic_put(message.topic, 1, result.msg_size)
            self._broker.stats.broker_put(1)
        else:
            _LOG.error(
                "a half message of a transaction could not be stored again: %s", result.status
            )
        return result

    def _commit(self) -> Steps:
        """Move the offsets behind the halves that this round has handled, once the disk has all that replaces them.

        These are the halves that were stored again, and the messages and marks of those that ended a moment ago.
        """
        broker = self._broker
        ends = {TRANS_HALF_TOPIC: self._half_offset, TRANS_OP_HALF_TOPIC: self._marks.done_offset()}
        moved = {
            topic: queue_offset
            for topic, queue_offset in ends.items()
            if queue_offset != consumed_offset(broker, topic, self._queue_id)
        }
        if moved:
            status = yield self._flush
            if status is not PutMessageStatus.PUT_OK:
                _LOG.error("the check of transactions starts over: %s", status)
                return
        for topic, queue_offset in moved.items():
            broker.offsets.commit(
                GROUP, topic, self._queue_id, queue_offset, broker.address, is_own=True
            )
        self._memory.forget_before(self._half_offset)

    def _flush(self, then: Callable[[Any], object]) -> None:
        def flushed(status: PutMessageStatus) -> None:  # in a thread of the store
            self._broker.loop.call_soon_threadsafe(partial(then, status))

        store = self._broker.store
        store.on_flushed(store.max_phy_offset, flushed, MOST_MS)


def _immunity_ms(text: str | None, timeout_ms: int) -> int:
    """Return the age up to which a half is not checked. Source: TransactionalMessageServiceImpl#getImmunityTime."""
    seconds = -1 if text is None else long_of(text, -1)
    return timeout_ms if seconds == -1 else seconds * 1000
