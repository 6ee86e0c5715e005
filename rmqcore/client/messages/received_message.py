"""A message as a consumer gets it, with a plain body, and ids named as in Java's clients."""

from __future__ import annotations

from rmqcore.client.messages.message_queue import MessageQueue
from rmqcore.codec.message import MessageView
from rmqcore.shown.notebook import message_html
from rmqcore.vocabulary import sysflag

_COMPRESSION = sysflag.COMPRESSED | sysflag.COMPRESSION_TYPE_MASK


class ReceivedMessage:
    """A message from a broker's answer.

    Parameters
    ----------
    view : MessageView
        The record, as the broker has stored it.
    queue : MessageQueue
        The queue from which the message was pulled.
    queue_offset : int
        Offset of the message in `queue`.
    topic : str, optional
        Replaces the record's topic.
    local_times : int
        How often the client delivered the message again without the broker.

    Notes
    -----
    The names are those of `MessageView`, but ``body`` is decompressed, and ``msg_id`` is the id that the producer gave
    the message, as in `SendResult`; ``offset_msg_id`` is the broker's.

    Source: RocketMQ 5.5.0 MessageExt, MessageClientExt, MessageDecoder#decode.
    """

    __slots__ = ("_body", "_local_times", "_topic", "queue", "queue_offset", "view")

    def __init__(
        self,
        view: MessageView,
        queue: MessageQueue,
        queue_offset: int,
        *,
        topic: str | None = None,
        local_times: int = 0,
    ) -> None:
        self.view = view
        self.queue = queue
        self.queue_offset = queue_offset
        self._topic = view.topic if topic is None else topic
        self._local_times = local_times
        self._body: bytes | None = None

    def renamed(self, topic: str) -> ReceivedMessage:
        """Return the message under the topic to which it was first sent."""
        return ReceivedMessage(self.view, self.queue, self.queue_offset, topic=topic)

    def tried_again(self) -> ReceivedMessage:
        """Return the message for another delivery without its broker: `reconsume_times` is increased by one."""
        return ReceivedMessage(
            self.view,
            self.queue,
            self.queue_offset,
            topic=self._topic,
            local_times=self._local_times + 1,
        )

    @property
    def body(self) -> bytes:
        """The body, decompressed if the producer has compressed it.

        Raises
        ------
        CompressionError
            The body cannot be decompressed: the data is wrong, or the compression's library is not installed.
        """
        if self._body is None:
            self._body = self.view.decompress()
        return self._body

    @property
    def topic(self) -> str:
        """Name of the topic; for a message that a push consumer gets again, the topic to which it was first sent."""
        return self._topic

    @property
    def broker_name(self) -> str:
        """Name of the broker that has the message."""
        return self.queue.broker_name

    @property
    def queue_id(self) -> int:
        """Number of the queue on its broker."""
        return self.queue.queue_id

    @property
    def tags(self) -> str | None:
        """The tag; None if the message has no tag."""
        return self.view.tags

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys by which the message can be found."""
        return self.view.keys

    @property
    def properties(self) -> dict[str, str]:
        """All properties, those of RocketMQ included."""
        return self.view.properties

    @property
    def msg_id(self) -> str:
        """The id from the producer; the broker's id if the producer gave none."""
        return self.view.uniq_key or self.view.msg_id

    @property
    def uniq_key(self) -> str | None:
        """The id that its producer gave it."""
        return self.view.uniq_key

    @property
    def offset_msg_id(self) -> str:
        """The id by which a broker finds the message, made of the broker's address and the CommitLog offset."""
        return self.view.msg_id

    @property
    def phy_offset(self) -> int:
        """CommitLog offset of the record on its broker."""
        return self.view.phy_offset

    @property
    def msg_size(self) -> int:
        """Bytes of the record."""
        return self.view.msg_size

    @property
    def flag(self) -> int:
        """The producer's own flags."""
        return self.view.flag

    @property
    def sys_flag(self) -> int:
        """RocketMQ's flags, without those of the compression, which `body` has undone."""
        return self.view.sys_flag & ~_COMPRESSION

    @property
    def born_timestamp_ms(self) -> int:
        """Time when the message was sent, in milliseconds since 1970."""
        return self.view.born_timestamp_ms

    @property
    def born_host(self) -> str:
        """Address from which the message was sent."""
        return self.view.born_host

    @property
    def store_timestamp_ms(self) -> int:
        """Time when the message was stored, in milliseconds since 1970."""
        return self.view.store_timestamp_ms

    @property
    def store_host(self) -> str:
        """Address of the broker that stored the message."""
        return self.view.store_host

    @property
    def reconsume_times(self) -> int:
        """How often consumers have sent the message back."""
        return self.view.reconsume_times + self._local_times

    def _repr_html_(self) -> str:
        return message_html(self.view)

    def __repr__(self) -> str:
        return (
            f"ReceivedMessage(topic={self.topic!r}, broker_name={self.broker_name!r}, queue_id={self.queue_id}, "
            f"queue_offset={self.queue_offset}, msg_id={self.msg_id!r}, {self.view.body_size} bytes)"
        )
