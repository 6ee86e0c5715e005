"""Puts of a broker: what is checked before, where a delay leads a message, and who waits for the disk; nothing waits here.

Source: RocketMQ 5.5.0 HookUtils, DefaultMessageStore#asyncPutMessage, MessageConst.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial

from rmqcore import sysflag
from rmqcore._native.put.put_result import PutResult, refused_result
from rmqcore.broker.parts import BrokerParts
from rmqcore.config_values import parse_delay_levels
from rmqcore.engine.store.replica_status import replica_status
from rmqcore.errors import ShortageError, StoreClosedError, StoreError, StoreFailedError
from rmqcore.message import Message
from rmqcore.remoting.names import RETRY_PREFIX
from rmqcore.rocketmq_versions import readable_records
from rmqcore.status import PutMessageStatus
from rmqcore.system_topics import SCHEDULE_TOPIC

Then = Callable[[PutResult], object]
DELAY = "DELAY"
REAL_TOPIC = "REAL_TOPIC"
REAL_QUEUE_ID = "REAL_QID"
WAIT = "WAIT"
TIMER_PROPERTIES = ("TIMER_DELIVER_MS", "TIMER_DELAY_SEC", "TIMER_DELAY_MS")
_NEVER = frozenset({PutMessageStatus.MESSAGE_ILLEGAL, PutMessageStatus.PROPERTIES_SIZE_EXCEEDED})
_TIMER_OUT = "TIMER_OUT_MS"
_MOST_TOPIC_BYTES, _MOST_RETRY_TOPIC_BYTES = 127, 255
_INT = re.compile(r"[+-]?[0-9]{1,40}")
_INT_LIMIT = 1 << 31
_LOG = logging.getLogger("rmqcore.broker")
# Whatever the others are, the store has said why, and says it again to the next one.
_NOT_SERVED = (StoreClosedError, StoreFailedError, ShortageError)


def store_message(broker: BrokerParts, message: Message, then: Then) -> None:
    """Put one message as a broker does, and call ``then(result)`` once: at once, or when the disk has answered.

    A message with a delay level goes to `SCHEDULE_TOPIC`: its topic, queue and properties are changed here. `then` is called in
    the loop's thread, at once unless somebody waits for the disk. Nothing is raised for a message that cannot be stored.

    Parameters
    ----------
    broker : BrokerParts
    message : Message
        Complete; it belongs to the store from now on.
    then : callable
        Gets the PutResult. Its status says what became of the message.
    """
    status = refusal(broker, message)
    if status is None:
        status = redirect_delayed(broker, message)
    if status is not None:
        then(refused_result(status))
        return
    result = append_message(broker, message)
    _when_safe(broker, result, message.properties, then)


def store_batch(
    broker: BrokerParts, messages: Sequence[Message], properties: Mapping[str, str], then: Then
) -> None:
    """Put messages of one queue, all or none; as `store_message`.

    Parameters
    ----------
    broker : BrokerParts
    messages : sequence of Message
    properties : mapping
        Of the batch: they are not stored, but say whether it waits for the disk, and a delay refuses it.
    then : callable
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
    _when_safe(broker, result, properties, then)


def append_message(broker: BrokerParts, message: Message) -> PutResult:
    """Append a message as it is, without a check or a wait; a store that takes none answers with a status."""
    return _answered(partial(broker.store.append, message))


def refusal(broker: BrokerParts, message: Message) -> PutMessageStatus | None:
    """Give the status of a message that is not to be stored; None where it is.

    Source: RocketMQ 5.5.0 HookUtils#checkBeforePutMessage, #checkInnerBatch.
    """
    if broker.store.config.broker_role == "SLAVE" or broker.disk_guard.is_full():
        return PutMessageStatus.SERVICE_NOT_AVAILABLE
    topic = message.topic
    most = _MOST_RETRY_TOPIC_BYTES if topic.startswith(RETRY_PREFIX) else _MOST_TOPIC_BYTES
    if len(topic.encode()) > most:
        return PutMessageStatus.MESSAGE_ILLEGAL
    if message.sys_flag & sysflag.INNER_BATCH:
        return PutMessageStatus.MESSAGE_ILLEGAL  # there are no topics of batch queues
    return None


def is_final(broker: BrokerParts, message: Message, status: PutMessageStatus) -> bool:
    """Whether a message that the store holds and that was refused once more would be refused by any store.

    What `for_version` alone refuses is kept: a broker without that setting delivers it.
    """
    if status not in _NEVER:
        return False
    readable = readable_records(broker.store.config.for_version)
    return readable.reads(message.topic, message.born_host, message.store_host)


def redirect_delayed(broker: BrokerParts, message: Message) -> PutMessageStatus | None:
    """Turn a message with a delay level to `SCHEDULE_TOPIC`; give the status of one that is not stored for its properties.

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
    """Give the delay level of a message's properties; 0 where there is none.

    Raises
    ------
    ValueError
        It is no Java int.
    """
    text = properties.get(DELAY)
    if text is None:
        return 0
    level = int(text) if _INT.fullmatch(text) else None
    if level is None or not -_INT_LIMIT <= level < _INT_LIMIT:
        raise ValueError(f"property DELAY is {text[:40]!r}, expected a whole number of 32 bits")
    return level


def waits_for_disk(properties: Mapping[str, str]) -> bool:
    """Whether somebody waits for the disk: a message can say that nobody does."""
    return properties.get(WAIT, "true").lower() == "true"


def _is_timer(properties: Mapping[str, str]) -> bool:
    return _TIMER_OUT not in properties and any(name in properties for name in TIMER_PROPERTIES)


def _answered(append: Callable[[], PutResult]) -> PutResult:
    """Append, with a status instead of an error."""
    try:
        return append()
    except _NOT_SERVED:
        return refused_result(PutMessageStatus.SERVICE_NOT_AVAILABLE)
    except (BufferError, OverflowError, TypeError, ValueError):
        return refused_result(PutMessageStatus.MESSAGE_ILLEGAL)
    except (StoreError, OSError) as error:
        _LOG.error("a message was not stored: %s", error)
        return refused_result(PutMessageStatus.UNKNOWN_ERROR)


def _when_safe(
    broker: BrokerParts, result: PutResult, properties: Mapping[str, str], then: Then
) -> None:
    """Give the result on: under SYNC_FLUSH when the disk has answered, with followers when they have, else at once."""
    config = broker.store.config
    if not result.stored or not waits_for_disk(properties):
        then(result)
        return
    followers = replica_status(config)
    if followers is PutMessageStatus.FLUSH_SLAVE_TIMEOUT:  # as in Java, whatever the disk answers
        late = partial(then, result.with_status(followers))
        broker.loop.call_later(config.slave_timeout / 1000, late)
    elif config.flush_disk_type == "SYNC_FLUSH":
        _when_flushed(broker, result, then)
    else:
        then(result)


def _when_flushed(broker: BrokerParts, result: PutResult, then: Then) -> None:
    def heard(status: PutMessageStatus) -> None:  # in a thread of the store
        broker.loop.call_soon_threadsafe(partial(safe, status))

    def safe(status: PutMessageStatus) -> None:
        broker.puts_in_flight -= 1
        then(result if status is PutMessageStatus.PUT_OK else result.with_status(status))

    broker.puts_in_flight += 1
    try:
        broker.store.on_flushed(result.phy_offset + result.msg_size, heard)
    except (StoreError, OSError):
        # It has failed meanwhile: the message is appended, and may be lost.
        broker.puts_in_flight -= 1
        then(refused_result(PutMessageStatus.SERVICE_NOT_AVAILABLE))
