"""A message as a consumer gets it: plain body, ids as Java's clients name them."""

from __future__ import annotations

from rmqcore.client.messages.message_queue import MessageQueue
from rmqcore.codec.message import MessageView
from rmqcore.shown.notebook import message_html
from rmqcore.vocabulary import sysflag

_COMPRESSION = sysflag.COMPRESSED | sysflag.COMPRESSION_TYPE_MASK


class ReceivedMessage:
    """A message out of a broker's answer.

    Parameters
    ----------
    view : MessageView
        The record, as the broker has stored it.
    queue : MessageQueue
        That it was pulled from.
    queue_offset : int
        In that queue.
    topic : str, optional
        Instead of the record's.
    local_times : int
        How often the message was given again without its broker.

    Notes
    -----
    The names are those of `MessageView`, but ``body`` is the plain one, and ``msg_id`` the id that the producer gave the message,
    as in `SendResult`; ``offset_msg_id`` is the broker's.

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
        """Return the message under another topic: the one that it was first sent to."""
        return ReceivedMessage(self.view, self.queue, self.queue_offset, topic=topic)

    def tried_again(self) -> ReceivedMessage:
        """Return the message as it is given once more without its broker: `reconsume_times` is one more."""
        return ReceivedMessage(
            self.view,
            self.queue,
            self.queue_offset,
            topic=self._topic,
            local_times=self._local_times + 1,
        )

    @property
    def body(self) -> bytes:
        """The plain bytes, whether the producer has compressed them or not.

        Raises
        ------
        CompressionError
            They cannot be had: wrong data, or a kind of compression that is not installed.
        """
        if self._body is None:
            self._body = self.view.decompress()
        return self._body

    @property
    def topic(self) -> str:
        """Name of the topic; of a message that came back to a push consumer, the topic that it was first sent to."""
        return self._topic

    @property
    def broker_name(self) -> str:
        """Name of the broker that has it."""
        return self.queue.broker_name

    @property
    def queue_id(self) -> int:
        """Number of the queue on its broker."""
        return self.queue.queue_id

    @property
    def tags(self) -> str | None:
        """The tag; None where it has none."""
        return self.view.tags

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys that it is found by."""
        return self.view.keys

    @property
    def properties(self) -> dict[str, str]:
        """All properties, those of RocketMQ included."""
        return self.view.properties

    @property
    def msg_id(self) -> str:
        """The id that its producer gave it; the broker's where it gave none."""
        return self.view.uniq_key or self.view.msg_id

    @property
    def uniq_key(self) -> str | None:
        """The id that its producer gave it."""
        return self.view.uniq_key

    @property
    def offset_msg_id(self) -> str:
        """The id by which a broker finds it, made of its address and the CommitLog offset."""
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
        """RocketMQ's flags, without those of a compression, which `body` has undone."""
        return self.view.sys_flag & ~_COMPRESSION

    @property
    def born_timestamp_ms(self) -> int:
        """Time when it was sent, in milliseconds since 1970."""
        return self.view.born_timestamp_ms

    @property
    def born_host(self) -> str:
        """Address that it was sent from."""
        return self.view.born_host

    @property
    def store_timestamp_ms(self) -> int:
        """Time when it was stored, in milliseconds since 1970."""
        return self.view.store_timestamp_ms

    @property
    def store_host(self) -> str:
        """Address of the broker that stored it."""
        return self.view.store_host

    @property
    def reconsume_times(self) -> int:
        """How often it came back from a consumer."""
        return self.view.reconsume_times + self._local_times

    def _repr_html_(self) -> str:
        return message_html(self.view)

    def __repr__(self) -> str:
        return (
            f"ReceivedMessage(topic={self.topic!r}, broker_name={self.broker_name!r}, queue_id={self.queue_id}, "
            f"queue_offset={self.queue_offset}, msg_id={self.msg_id!r}, {self.view.body_size} bytes)"
        )
