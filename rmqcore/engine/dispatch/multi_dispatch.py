"""Further queues of a message: entries of light message queues (LMQ) beside the one in the message's own queue.

A put with INNER_MULTI_DISPATCH writes the message's offset in each of these queues to INNER_MULTI_QUEUE_OFFSET.

Source: RocketMQ 5.5.0 MultiDispatchUtils, ConsumeQueue#multiDispatchLmqQueue, MixAll#topicAllowsLMQ.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from rmqcore._native.format import codec
from rmqcore._native.format.codec import DelayLevels
from rmqcore._native.scan import places
from rmqcore.config import MessageStoreConfig
from rmqcore.vocabulary.sysflag import has_queue_entry
from rmqcore.vocabulary.topics import LMQ_PREFIX, SCHEDULE_TOPIC
from rmqcore.vocabulary.units import LONG_MAX

WITHOUT = ("%RETRY%", "rmq_sys_")


Entry = tuple[str, int, int, int, int, int]
"""Topic, queue id, phy_offset, msg_size, tags_code and queue offset."""


class MultiDispatch:
    """Finds the further entries of records.

    Parameters
    ----------
    config : MessageStoreConfig
        Without ``enable_multi_dispatch`` no record has further entries.
    delay_levels : DelayLevels
        Delays from which the tags codes of delayed messages are computed.
    """

    def __init__(self, config: MessageStoreConfig, delay_levels: DelayLevels) -> None:
        self._lmq = config.enable_lmq
        self._delay_levels = delay_levels
        self.enabled = config.enable_multi_dispatch

    def entries(
        self,
        buf: Any,
        begin: int,
        end: int,
        from_phy_offset: int,
        *,
        gaps: places.Gaps | None = None,
    ) -> Iterator[Entry]:
        """Yield the further entries of the records in ``buf[begin:end]`` from `from_phy_offset` on."""
        for _, entries in self.records(buf, begin, end, from_phy_offset, gaps=gaps):
            yield from entries

    def records(
        self,
        buf: Any,
        begin: int,
        end: int,
        from_phy_offset: int,
        *,
        gaps: places.Gaps | None = None,
    ) -> Iterator[tuple[int, list[Entry]]]:
        """Yield the end in `buf` and the further entries of each of these records."""
        for pos, names, offsets in places.multi_dispatch_records(buf, begin, end, gaps=gaps):
            view = codec.decode_with_levels(buf, pos, self._delay_levels)
            if view.phy_offset < from_phy_offset or not has_queue_entry(view.sys_flag):
                continue
            if view.topic.startswith(WITHOUT) or view.topic == SCHEDULE_TOPIC:
                continue
            at, size, code = view.phy_offset, view.msg_size, view.tags_code
            entries = []
            for name, queue_offset in pairs(names, offsets):
                light = self._lmq and name.startswith(LMQ_PREFIX)
                queue_id = 0 if light else view.queue_id
                entries.append((name, queue_id, at, size, code, queue_offset))
            if entries:
                yield pos + size, entries


def pairs(names: str, offsets: str) -> Iterator[tuple[str, int]]:
    """Yield queue names with their offsets; nothing if their counts differ, as in Java.

    Names that cannot name a directory and offsets that are not a Java long are left out.
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
    """Split at commas as Java does: without empty parts at the end."""
    parts = text.split(",")
    while parts and not parts[-1]:
        parts.pop()
    return parts


def _long(text: str) -> int:
    if not text.strip("+-").isdecimal() or text != text.strip() or "_" in text:
        raise ValueError(text)
    value = int(text)
    if not 0 <= value <= LONG_MAX:
        raise ValueError(text)
    return value
