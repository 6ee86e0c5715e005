"""Further queues of a message: entries of light message queues (LMQ) beside the one in the message's own queue.

A put with INNER_MULTI_DISPATCH notes in INNER_MULTI_QUEUE_OFFSET which offset the message has in each of them.

Source: RocketMQ 5.5.0 MultiDispatchUtils, ConsumeQueue#multiDispatchLmqQueue, MixAll#topicAllowsLMQ.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Protocol

from rmqcore._native import codec, scan
from rmqcore._native.codec import DelayLevels
from rmqcore.config import MessageStoreConfig
from rmqcore.sysflag import TRANSACTION_PREPARED

LMQ_PREFIX = "%LMQ%"
WITHOUT = ("%RETRY%", "rmq_sys_")
SCHEDULE_TOPIC = "SCHEDULE_TOPIC_XXXX"


class EntrySink(Protocol):
    """What takes single entries: ConsumeQueues."""

    def put_entry(
        self,
        topic: str,
        queue_id: int,
        phy_offset: int,
        msg_size: int,
        tags_code: int,
        queue_offset: int,
    ) -> None:
        """Put an entry by the rules of a queue."""


class MultiDispatch:
    """Puts the further entries of records.

    Parameters
    ----------
    queues : ConsumeQueues
    config : MessageStoreConfig
        Nothing happens without ``enable_multi_dispatch``.
    delay_levels : DelayLevels
        For tags codes.
    """

    def __init__(
        self, queues: EntrySink, config: MessageStoreConfig, delay_levels: DelayLevels
    ) -> None:
        self._queues = queues
        self._lmq = config.enable_lmq
        self._delay_levels = delay_levels
        self.enabled = config.enable_multi_dispatch

    def put(self, buf: Any, begin: int, end: int, from_phy_offset: int) -> None:
        """Put the entries of the records in ``buf[begin:end]`` that lie at `from_phy_offset` or behind it."""
        for pos, names, offsets in scan.multi_dispatch_records(buf, begin, end):
            view = codec.decode(buf, pos, self._delay_levels)
            if view.phy_offset < from_phy_offset or view.sys_flag & TRANSACTION_PREPARED:
                continue
            if view.topic.startswith(WITHOUT) or view.topic == SCHEDULE_TOPIC:
                continue
            for name, queue_offset in pairs(names, offsets):
                light = self._lmq and name.startswith(LMQ_PREFIX)
                self._queues.put_entry(
                    name,
                    0 if light else view.queue_id,
                    view.phy_offset,
                    view.msg_size,
                    view.tags_code,
                    queue_offset,
                )


def pairs(names: str, offsets: str) -> Iterator[tuple[str, int]]:
    """Queue names with their offsets; nothing when there are not as many of one as of the other, as in Java.

    Names that are no name of a directory and offsets that are no Java long are left out.
    """
    listed, numbers = java_split(names), java_split(offsets)
    if len(listed) != len(numbers):
        return
    for name, number in zip(listed, numbers, strict=True):
        if name in ("", ".", "..") or "/" in name or "\0" in name:
            continue
        with suppress(ValueError):
            yield name, _long(number)


def java_split(text: str) -> list[str]:
    """Split at commas as Java does: without empty texts at the end."""
    parts = text.split(",")
    while parts and not parts[-1]:
        parts.pop()
    return parts


def _long(text: str) -> int:
    if not text.strip("+-").isdecimal() or text != text.strip() or "_" in text:
        raise ValueError(text)
    value = int(text)
    if not 0 <= value < 1 << 63:
        raise ValueError(text)
    return value
