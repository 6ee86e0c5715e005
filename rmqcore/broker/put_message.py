"""Puts of a broker: the checks before, the queue of a delayed message, and the wait for disk and followers.

No call here waits.


Source: RocketMQ 5.5.0 HookUtils, DefaultMessageStore#asyncPutMessage, MessageConst.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial

from rmqcore._native.put.put_result import PutResult, refused_result
from rmqcore.broker.channel import Loop
from rmqcore.broker.offset_waits import Heard, OffsetWaits
from rmqcore.broker.parts import BrokerParts
from rmqcore.codec.message import Message
from rmqcore.config.fields import parse_delay_levels
from rmqcore.engine.store.put_waits import MASTER_ALONE, replicas_needed, waits
from rmqcore.engine.store.store import MessageStore
from rmqcore.errors import ShortageError, StoreClosedError, StoreError, StoreFailedError
from rmqcore.remoting.names import RETRY_PREFIX
from rmqcore.vocabulary import sysflag
from rmqcore.vocabulary.properties import DELAY, REAL_QUEUE_ID, REAL_TOPIC, TIMER_PROPERTIES
from rmqcore.vocabulary.rocketmq_versions import readable_records
from rmqcore.vocabulary.status import PutMessageStatus
from rmqcore.vocabulary.topics import SCHEDULE_TOPIC
from rmqcore.vocabulary.units import INT_MAX, INT_MIN

Then = Callable[[PutResult], object]
_NEVER = frozenset({PutMessageStatus.MESSAGE_ILLEGAL, PutMessageStatus.PROPERTIES_SIZE_EXCEEDED})
_TIMER_OUT = "TIMER_OUT_MS"
_MOST_TOPIC_BYTES, _MOST_RETRY_TOPIC_BYTES = 127, 255
_INT = re.compile(r"[+-]?[0-9]{1,40}")
_LOG = logging.getLogger("rmqcore.broker")
# Errors of a store that refuses all messages: it has logged why, and raises again for the next message.
_NOT_SERVED = (StoreClosedError, StoreFailedError, ShortageError)


def store_message(
    broker: BrokerParts, message: Message, then: Then, *, is_awaited: bool = True
) -> None:
    """Put one message as a broker does, and call ``then(result)`` once: at once, or when disk and followers have answered.

    A message with a delay level goes to `SCHEDULE_TOPIC`: its topic, queue and properties are changed here. `then` is called in
    the loop's thread, at once unless the message waits for the disk or for followers. Nothing is raised for a message that
    cannot be stored.

    Parameters
    ----------
    broker : BrokerParts
    message : Message
        Complete; the store owns it from now on, and its body is empty when `then` is called.
    then : callable
        Receives the PutResult, whose status says whether the message is stored.
    is_awaited : bool
        A client waits for the result. False for a message that was sent one-way: then the broker does not wait either.
    """
    status = refusal(broker, message)
    if status is None:
        status = redirect_delayed(broker, message)
    if status is not None:
        then(refused_result(status))
        return
    result = append_message(broker, message)
    message.body = b""  # a message that waits for the disk needs no memory for it
    _when_safe(broker, result, message.properties, then, is_awaited=is_awaited)


def store_batch(
    broker: BrokerParts,
    messages: Sequence[Message],
    properties: Mapping[str, str],
    then: Then,
    *,
    is_awaited: bool = True,
) -> None:
    """Put messages of one queue, all or none, as `store_message` does.

    Parameters
    ----------
    broker : BrokerParts
    messages : sequence of Message
    properties : mapping
        Of the batch. They are not stored, but say whether it waits for disk and followers; with a delay it is refused.
    then : callable
    is_awaited : bool
    """
    status = refusal(broker, messages[0])
    if status is None and delay_level(properties) > 0:
        status = PutMessageStatus.MESSAGE_ILLEGAL
    if status is None and _is_timer(properties):
        status = PutMessageStatus.WHEEL_TIMER_NOT_ENABLE
    if status is not None:
        then(refused_result(status))
        return
    result = _answered(partial(broker.store.append_batch, messages))
    _when_safe(broker, result, properties, then, is_awaited=is_awaited)


def append_message(broker: BrokerParts, message: Message) -> PutResult:
    """Append a message unchanged, without a check or a wait; a store that refuses it returns a status."""
    return _answered(partial(broker.store.append, message))


def refusal(broker: BrokerParts, message: Message) -> PutMessageStatus | None:
    """Return the status of a message that must not be stored; None if it may be stored.

    Source: RocketMQ 5.5.0 HookUtils#checkBeforePutMessage, #checkInnerBatch.
    """
    if broker.store.config.takes_no_puts or broker.disk_guard.is_full():
        return PutMessageStatus.SERVICE_NOT_AVAILABLE
    topic = message.topic
    most = _MOST_RETRY_TOPIC_BYTES if topic.startswith(RETRY_PREFIX) else _MOST_TOPIC_BYTES
    if len(topic.encode()) > most:
        return PutMessageStatus.MESSAGE_ILLEGAL
    if message.sys_flag & sysflag.INNER_BATCH:
        return PutMessageStatus.MESSAGE_ILLEGAL  # this broker has no topics with batch queues
    return None


def is_final(broker: BrokerParts, message: Message, status: PutMessageStatus) -> bool:
    """Return True if any store would refuse the stored message again, so that repeating the put is useless.

    False for a message that only `for_version` refuses: a broker without that setting delivers it.
    """
    if status not in _NEVER:
        return False
    readable = readable_records(broker.store.config.for_version)
    return readable.reads(message.topic, message.born_host, message.store_host)


def redirect_delayed(broker: BrokerParts, message: Message) -> PutMessageStatus | None:
    """Redirect a message with a delay level to `SCHEDULE_TOPIC`; return a status if its properties are refused.

    Source: RocketMQ 5.5.0 HookUtils#handleScheduleMessage, #transformDelayLevelMessage.
    """
    kind = sysflag.transaction_type(message.sys_flag)
    if kind not in (sysflag.TRANSACTION_NOT, sysflag.TRANSACTION_COMMIT):
        return None
    properties = message.properties
    try:
        level = delay_level(properties)
    except ValueError:
        return PutMessageStatus.MESSAGE_ILLEGAL
    if level <= 0:
        return PutMessageStatus.WHEEL_TIMER_NOT_ENABLE if _is_timer(properties) else None
    for name in TIMER_PROPERTIES:
        properties.pop(name, None)
    most = len(_delays_ms(broker.store.config.message_delay_level))
    if not most:
        return None
    if level > most:
        level = most
        properties[DELAY] = str(level)
    properties[REAL_TOPIC] = message.topic
    properties[REAL_QUEUE_ID] = str(message.queue_id)
    message.topic = SCHEDULE_TOPIC
    message.queue_id = level - 1
    return None


@cache
def _delays_ms(text: str) -> tuple[int, ...]:
    return parse_delay_levels(text)


def delay_level(properties: Mapping[str, str]) -> int:
    """Return the delay level of a message's properties; 0 if it has none.

    Raises
    ------
    ValueError
        The level is not a Java int.
    """
    text = properties.get(DELAY)
    if text is None:
        return 0
    level = int(text) if _INT.fullmatch(text) else None
    if level is None or not INT_MIN <= level <= INT_MAX:
        raise ValueError(f"property DELAY is {text[:40]!r}, expected a whole number of 32 bits")
    return level


def _is_timer(properties: Mapping[str, str]) -> bool:
    return _TIMER_OUT not in properties and any(name in properties for name in TIMER_PROPERTIES)


def _answered(append: Callable[[], PutResult]) -> PutResult:
    """Append, and return a status instead of raising an error."""
    try:
        return append()
    except _NOT_SERVED:
        return refused_result(PutMessageStatus.SERVICE_NOT_AVAILABLE)
    except (BufferError, OverflowError, TypeError, ValueError):
        return refused_result(PutMessageStatus.MESSAGE_ILLEGAL)
    except (StoreError, OSError) as error:
        _LOG.error("a message could not be stored: %s", error)
        return refused_result(PutMessageStatus.UNKNOWN_ERROR)


def _when_safe(
    broker: BrokerParts,
    result: PutResult,
    properties: Mapping[str, str],
    then: Then,
    *,
    is_awaited: bool,
) -> None:
    """Call `then` with the result: after disk and followers have answered if the message waits, else at once."""
    if not (result.stored and is_awaited and waits(properties) and asks_others(broker.store)):
        then(result)
        return

    def heard(status: PutMessageStatus) -> None:
        if status is PutMessageStatus.PUT_OK:
            then(result)
        elif status is PutMessageStatus.SERVICE_NOT_AVAILABLE:
            then(refused_result(status))
        else:
            then(result.with_status(status))

    when_safe(broker, result.phy_offset + result.msg_size, heard)


# ---- disk and followers


def asks_others(store: MessageStore) -> bool:
    """Return whether a message that waits is answered only once the disk (SYNC_FLUSH) or followers (SYNC_MASTER) have it."""
    return store.config.syncs_puts or _asks_followers(store)


def _asks_followers(store: MessageStore) -> bool:
    return replicas_needed(store.config) > MASTER_ALONE


def safe_waits(loop: Loop, store: MessageStore) -> tuple[OffsetWaits, ...]:
    """Return the waits of a store: for the disk, for followers, for both, or an empty tuple."""
    config, asked = store.config, []

    def on_flushed(end_offset: int, callback: Heard, timeout_ms: int) -> None:
        store.on_flushed(end_offset, callback, timeout_ms)

    def on_replicated(end_offset: int, callback: Heard, timeout_ms: int) -> None:
        store.on_replicated(end_offset, callback, timeout_ms)

    if config.syncs_puts:
        asked.append(
            OffsetWaits(
                loop,
                on_flushed,
                lambda: store.flushed_phy_offset,
                PutMessageStatus.FLUSH_DISK_TIMEOUT,
                config.sync_flush_timeout,
            )
        )
    if _asks_followers(store):
        asked.append(
            OffsetWaits(
                loop,
                on_replicated,
                lambda: store.replicated_offset,
                PutMessageStatus.FLUSH_SLAVE_TIMEOUT,
                config.slave_timeout,
            )
        )
    return tuple(asked)


def safe_offset(store: MessageStore) -> int:
    """Return the CommitLog offset up to which messages are safe: on disk and at enough followers, as configured."""
    safe = store.max_phy_offset
    if store.config.syncs_puts:
        safe = min(safe, store.flushed_phy_offset)
    if _asks_followers(store):
        safe = min(safe, store.replicated_offset)
    return safe


def when_safe(
    broker: BrokerParts,
    end_offset: int,
    then: Callable[[PutMessageStatus], object],
    puts: int = 1,
) -> None:
    """Call ``then(status)`` once in the loop's thread, when disk and followers have answered for the log up to an offset.

    Parameters
    ----------
    broker : BrokerParts
        `asks_others` is true of its store.
    end_offset : int
        CommitLog offset behind the last message.
    then : callable
        Receives PUT_OK; FLUSH_DISK_TIMEOUT or FLUSH_SLAVE_TIMEOUT; UNKNOWN_ERROR if the store failed during the wait;
        SERVICE_NOT_AVAILABLE if it had failed before. In the last two cases the messages may be lost.
    puts : int
        Number of messages that count as in flight until the call.
    """
    asked = broker.safe_waits
    waiting = _Waiting(broker, puts, then, len(asked))
    try:
        if len(asked) == 1:
            asked[0].add(end_offset, waiting.answer)
            return
        for place, waits_of in enumerate(asked):
            waits_of.add(end_offset, partial(waiting.heard, place))
    except (StoreError, OSError):
        waiting.refused()


class _Waiting:
    """Appended messages that wait for the disk, for followers, or for both; its methods run in the loop's thread.

    Both waits begin at once, each with its own timeout. As in Java, the followers' answer overrides that of the disk:
    their wait is the last of the two.
    """

    __slots__ = ("_answers", "_broker", "_missing", "_puts", "_then")

    def __init__(
        self,
        broker: BrokerParts,
        puts: int,
        then: Callable[[PutMessageStatus], object],
        asked: int,
    ) -> None:
        self._broker = broker
        self._puts = puts
        self._then = then
        self._answers = [PutMessageStatus.PUT_OK] * asked
        self._missing = asked
        broker.puts_in_flight += puts

    def heard(self, place: int, status: PutMessageStatus) -> None:
        """Note the answer of the disk or of followers; the last answer completes the put."""
        self._answers[place] = status
        self._missing -= 1
        if self._missing:
            return
        wrong = [answer for answer in self._answers if answer is not PutMessageStatus.PUT_OK]
        self.answer(wrong[-1] if wrong else PutMessageStatus.PUT_OK)

    def refused(self) -> None:
        """Complete the put after the store has failed: appended messages may be lost. Later answers do not count."""
        self._missing = -1
        self.answer(PutMessageStatus.SERVICE_NOT_AVAILABLE)

    def answer(self, status: PutMessageStatus) -> None:
        """Complete the put with this status; the noted answers do not count."""
        self._broker.puts_in_flight -= self._puts
        self._then(status)
