"""Messages of transactions: half messages, committed ones, repeated half messages, and op messages.

Source: RocketMQ 5.5.0 TransactionalMessageBridge, TransactionalMessageUtil, EndTransactionProcessor#endMessageTransaction,
DefaultTransactionalMessageCheckListener#toMessageExtBrokerInner.
"""

from __future__ import annotations

from rmqcore.broker.put_message import delay_level
from rmqcore.broker.stored_copy import copy_of, real_place
from rmqcore.codec.message import Message, MessageView
from rmqcore.vocabulary import sysflag
from rmqcore.vocabulary.properties import PREPARED, REAL_QUEUE_ID, REAL_TOPIC, TAGS, UNIQ_KEY, WAIT
from rmqcore.vocabulary.topics import (
    TRANS_CHECK_MAX_TIME_TOPIC,
    TRANS_HALF_TOPIC,
    TRANS_OP_HALF_TOPIC,
)

GROUP = "CID_RMQ_SYS_TRANS"
"""The group whose offsets say how far the transactions were checked."""
PRODUCER_GROUP = "PGROUP"
IMMUNITY = "CHECK_IMMUNITY_TIME_IN_SECONDS"
CHECK_TIMES = "TRANSACTION_CHECK_TIMES"
PREPARED_QUEUE_OFFSET = "TRAN_PREPARED_QUEUE_OFFSET"
"""Where the half lay that is stored again because its time to be checked has not come."""
DONE_TAG = "d"
SEPARATOR = ","
_TRANSACTION_ID = "__transactionId__"


def half_of(message: Message) -> Message:
    """Turn a message into the half of a transaction: it is stored where no consumer sees it."""
    properties = message.properties
    if uniq_key := properties.get(UNIQ_KEY):
        properties[_TRANSACTION_ID] = uniq_key
    properties[REAL_TOPIC] = message.topic
    properties[REAL_QUEUE_ID] = str(message.queue_id)
    message.sys_flag &= ~sysflag.TRANSACTION_MASK
    message.topic = TRANS_HALF_TOPIC
    message.queue_id = 0
    return message


def committed(half: MessageView) -> Message:
    """Return the message that consumers see once a half is committed.

    As in Java the property that makes it a half stays, but for a message with a delay.

    Raises
    ------
    ValueError
        The half lacks its real topic or queue.
    """
    topic, queue_id = real_place(half)
    message = copy_of(half, topic, queue_id)
    for name in (REAL_TOPIC, REAL_QUEUE_ID):
        del message.properties[name]
    if delay_level(message.properties) > 0:
        message.properties.pop(PREPARED, None)
    message.sys_flag = half.sys_flag & ~sysflag.TRANSACTION_MASK | sysflag.TRANSACTION_COMMIT
    message.prepared_transaction_offset = half.phy_offset
    return message


def half_again(half: MessageView, properties: dict[str, str]) -> Message:
    """Return a copy of a half to store behind all others, after its check or because its check is not due.

    Java's copy loses the message's flag.
    """
    message = copy_of(half, half.topic, half.queue_id, properties)
    message.reconsume_times = 0
    return message


def given_up(half: MessageView, properties: dict[str, str]) -> Message:
    """Return the copy for operators of a half that was checked too often or is too old."""
    return copy_of(half, TRANS_CHECK_MAX_TIME_TOPIC, 0, properties)


def first_offset(half: MessageView) -> int | None:
    """Return the queue offset by which a half's producer knows it: that of the first copy; None if it is invalid."""
    text = half.properties.get(PREPARED_QUEUE_OFFSET)
    first = half.queue_offset if text is None else long_of(text, -1)
    return None if first == -1 else first


class HalfMemory:
    """Knowledge of this process about the half messages of one queue, besides the stored ones.

    Attributes
    ----------
    ended : set of int
        Queue offsets of halves that ended, whose marks may not be in their queue yet.
    put_off : set of int
        Queue offsets by which producers know the halves that were stored again because their time had not come.
    """

    def __init__(self) -> None:
        self.ended: set[int] = set()
        self.put_off: set[int] = set()

    def forget_before(self, half_offset: int) -> None:
        """Forget the halves before a queue offset, except those that were stored again behind it."""
        gone = {end for end in self.ended if end < half_offset and end not in self.put_off}
        self.ended -= gone


def long_of(text: str, default: int) -> int:
    """Read a number as Java's `Long.parseLong`; return `default` if the text is not a number."""
    digits = text[1:] if text[:1] in {"+", "-"} else text
    fits = digits.isascii() and digits.isdigit() and len(digits) <= 18
    return int(text) if fits else default


def done_message(queue_id: int, text: str, address: str, now_ms: int) -> Message:
    """Return the message that marks halves as ended.

    Parameters
    ----------
    queue_id : int
        The queue of the halves and of this message.
    text : str
        The queue offsets of the halves, a comma behind each.
    address : str
        The address of this broker.
    now_ms : int
    """
    return Message(
        TRANS_OP_HALF_TOPIC,
        text.encode(),
        queue_id,
        properties={TAGS: DONE_TAG, WAIT: "true"},
        born_timestamp_ms=now_ms,
        born_host=address,
        store_host=address,
    )


def done_offsets(message: MessageView) -> list[int]:
    """Read the queue offsets of the halves that a message marks as ended; invalid ones are left out."""
    if message.tags != DONE_TAG:
        return []
    words = message.body.decode("utf-8", "replace").split(SEPARATOR)
    return [int(word) for word in words if word.isascii() and word.isdigit() and len(word) <= 19]
