"""Result of a send."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum, unique

from rmqcore.client.messages.message_queue import MessageQueue
from rmqcore.shown.report import Report


@unique
class SendStatus(StrEnum):
    """How a broker has stored a message. Source: RocketMQ 5.5.0 SendStatus."""

    SEND_OK = "SEND_OK"
    """Stored as the broker's settings want it: docs/durability.md."""
    FLUSH_DISK_TIMEOUT = "FLUSH_DISK_TIMEOUT"
    """Stored; whether it is on disk is not known yet."""
    FLUSH_SLAVE_TIMEOUT = "FLUSH_SLAVE_TIMEOUT"
    """Stored; too few slaves have answered in time."""
    SLAVE_NOT_AVAILABLE = "SLAVE_NOT_AVAILABLE"
    """Stored; there is no slave that could have it too."""


@dataclass(frozen=True, slots=True)
class SendResult(Report):
    """Where a broker has stored a message, or all messages of a batch.

    Attributes
    ----------
    status : SendStatus
    msg_id : str
        The UNIQ_KEY that the client gave the message, and that consumers see; of a batch all keys, joined by commas.
    queue : MessageQueue
    queue_offset : int
        Offset in the queue; of a batch that of its first message.
    offset_msg_id : str
        The id by which a broker finds the message, made of its address and the CommitLog offset; of a batch all ids,
        joined by commas.
    """

    status: SendStatus
    msg_id: str
    queue: MessageQueue
    queue_offset: int
    offset_msg_id: str

    @property
    def queue_id(self) -> int:
        """Number of the queue on its broker."""
        return self.queue.queue_id
