"""Names of message properties that more than one module reads or writes, as RocketMQ spells them.

Source: RocketMQ 5.5.0 MessageConst.
"""

DELAY = "DELAY"
"""The delay level."""
INNER_MULTI_DISPATCH = "INNER_MULTI_DISPATCH"
"""Further queues of the message, separated by commas."""
INNER_MULTI_QUEUE_OFFSET = "INNER_MULTI_QUEUE_OFFSET"
"""Its queue offset in each of these, in the same order."""
KEYS = "KEYS"
"""The keys of the message, separated by spaces."""
PREPARED = "TRAN_MSG"
"""``true``: the message is the half of a transaction."""
REAL_QUEUE_ID = "REAL_QID"
"""Target queue of a delayed or half message."""
REAL_TOPIC = "REAL_TOPIC"
"""Target topic of a delayed or half message."""
RETRY_TOPIC = "RETRY_TOPIC"
"""Original topic of a message that a consumer sent back."""
TAGS = "TAGS"
TIMER_PROPERTIES = ("TIMER_DELIVER_MS", "TIMER_DELAY_SEC", "TIMER_DELAY_MS")
"""Times of Java's timer wheel."""
UNIQ_KEY = "UNIQ_KEY"
"""The id that a client gave the message."""
WAIT = "WAIT"
"""``false``: the producer does not wait until the message is on disk and at the followers."""
