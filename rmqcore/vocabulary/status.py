"""The statuses of puts and gets, with Java's names. Imports nothing of the package."""

from __future__ import annotations

from enum import Enum, unique


@unique
class GetMessageStatus(Enum):
    """The outcome of a get. Source: RocketMQ 5.5.0 GetMessageStatus."""

    FOUND = "FOUND"
    NO_MATCHED_MESSAGE = "NO_MATCHED_MESSAGE"
    """Entries were found, but none passed the filter."""
    MESSAGE_WAS_REMOVING = "MESSAGE_WAS_REMOVING"
    """The messages of the entries have left the CommitLog, or were never in it."""
    OFFSET_FOUND_NULL = "OFFSET_FOUND_NULL"
    """The queue's file for this offset is missing."""
    OFFSET_OVERFLOW_BADLY = "OFFSET_OVERFLOW_BADLY"
    """Beyond the end of the queue."""
    OFFSET_OVERFLOW_ONE = "OFFSET_OVERFLOW_ONE"
    """Exactly at the end of the queue: no new message."""
    OFFSET_TOO_SMALL = "OFFSET_TOO_SMALL"
    NO_MATCHED_LOGIC_QUEUE = "NO_MATCHED_LOGIC_QUEUE"
    NO_MESSAGE_IN_QUEUE = "NO_MESSAGE_IN_QUEUE"
    OFFSET_RESET = "OFFSET_RESET"

    def __str__(self) -> str:
        return self.name


@unique
class PutMessageStatus(Enum):
    """The outcome of a put, for one message. Source: RocketMQ 5.5.0 PutMessageStatus."""

    PUT_OK = "PUT_OK"
    """Stored; with SYNC_FLUSH also on disk (docs/durability.md)."""
    FLUSH_DISK_TIMEOUT = "FLUSH_DISK_TIMEOUT"
    """Stored; whether it is on disk is not known yet."""
    FLUSH_SLAVE_TIMEOUT = "FLUSH_SLAVE_TIMEOUT"
    """Stored; too few replicas have answered in time."""
    SLAVE_NOT_AVAILABLE = "SLAVE_NOT_AVAILABLE"
    SERVICE_NOT_AVAILABLE = "SERVICE_NOT_AVAILABLE"
    """Not stored: the store refuses writes: a slave, or a store closed before `put_many` reached this message."""
    CREATE_MAPPED_FILE_FAILED = "CREATE_MAPPED_FILE_FAILED"
    """Not stored: the store could not make room, for instance on a full disk; the store's `refusal` has the reason."""
    MESSAGE_ILLEGAL = "MESSAGE_ILLEGAL"
    """Not stored: the message violates a limit or a rule."""
    PROPERTIES_SIZE_EXCEEDED = "PROPERTIES_SIZE_EXCEEDED"
    """Not stored: more than 32,767 bytes of properties."""
    OS_PAGE_CACHE_BUSY = "OS_PAGE_CACHE_BUSY"
    UNKNOWN_ERROR = "UNKNOWN_ERROR"
    IN_SYNC_REPLICAS_NOT_ENOUGH = "IN_SYNC_REPLICAS_NOT_ENOUGH"
    PUT_TO_REMOTE_BROKER_FAIL = "PUT_TO_REMOTE_BROKER_FAIL"
    LMQ_CONSUME_QUEUE_NUM_EXCEEDED = "LMQ_CONSUME_QUEUE_NUM_EXCEEDED"
    WHEEL_TIMER_FLOW_CONTROL = "WHEEL_TIMER_FLOW_CONTROL"
    WHEEL_TIMER_MSG_ILLEGAL = "WHEEL_TIMER_MSG_ILLEGAL"
    WHEEL_TIMER_NOT_ENABLE = "WHEEL_TIMER_NOT_ENABLE"

    def __str__(self) -> str:
        return self.name


_MEANINGS = {
    "FLUSH_DISK_TIMEOUT": "stored, but not confirmed on disk within syncFlushTimeout (sync_flush_timeout)",
    "FLUSH_SLAVE_TIMEOUT": "stored, but too few slaves confirmed within slaveTimeout (slave_timeout)",
    "SLAVE_NOT_AVAILABLE": "stored, but no slave is connected",
    "SERVICE_NOT_AVAILABLE": "the store refuses messages: it is a slave (broker_role), was closed, or see its `refusal`",
    "CREATE_MAPPED_FILE_FAILED": "no space could be allocated for the message: see the store's `refusal`",
    "MESSAGE_ILLEGAL": "the message violates a limit or a rule",
    "PROPERTIES_SIZE_EXCEEDED": "the properties have more than 32,767 bytes",
    "IN_SYNC_REPLICAS_NOT_ENOUGH": "from a Java broker: fewer replicas are in sync than minInSyncReplicas requires",
}


def meaning(status: PutMessageStatus) -> str:
    """Return what a status other than PUT_OK means, if nothing more is known."""
    return _MEANINGS.get(status.name, f"RocketMQ's status {status.name}")
