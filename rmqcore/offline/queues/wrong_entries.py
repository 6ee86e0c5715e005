"""Queue entries that lead to no record, or to the record of another place, as ranges of damage."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from rmqcore._native.format.codec import MessageView
from rmqcore._native.format.layout import CQ_STORE_UNIT_SIZE
from rmqcore.disk.data_extents import used_end
from rmqcore.disk.read_range import entries_of
from rmqcore.errors import StoreFormatError
from rmqcore.offline.log.damage import DamageRange
from rmqcore.offline.queues.get_result import OfflineGetResult
from rmqcore.offline.queues.queue_reader import QueueFiles
from rmqcore.vocabulary.properties import INNER_MULTI_DISPATCH, INNER_MULTI_QUEUE_OFFSET
from rmqcore.vocabulary.status import GetMessageStatus

QUEUE_ENTRY = "queue_entry"
MOST_NAMED = 3


class WrongEntry(NamedTuple):
    """An entry of a queue, and what was found where it leads.

    Attributes
    ----------
    queue_offset, phy_offset, msg_size : int
        The entry.
    found : str
        Empty if no record of this size lies there; else the place that the record names.
    """

    queue_offset: int
    phy_offset: int
    msg_size: int
    found: str = ""


def named_place(view: MessageView, topic: str, queue_id: int, queue_offset: int) -> str:
    """Return the place that a record names, as text; an empty string if it belongs to this place of a queue."""
    if (view.topic, view.queue_id, view.queue_offset) == (topic, queue_id, queue_offset):
        return ""
    if in_light_queue(view, topic, queue_id, queue_offset):
        return ""
    return f"{view.topic} {view.queue_id} at queue offset {view.queue_offset}"


def in_light_queue(view: MessageView, topic: str, queue_id: int, queue_offset: int) -> bool:
    """Return True if the record lists this queue and offset among those that it also goes to."""
    names = view.properties.get(INNER_MULTI_DISPATCH, "").split(",")
    offsets = view.properties.get(INNER_MULTI_QUEUE_OFFSET, "").split(",")
    # The offset of a name that is no light queue is left empty.
    return queue_id == 0 and any(
        name == topic and offset in (str(queue_offset), "")
        for name, offset in zip(names, offsets, strict=False)
    )


def bytes_behind(queue: QueueFiles, end: int, log_min: int) -> Iterator[DamageRange]:
    """Yield a range without bytes if something lies behind the end of a queue: its entries stop at one that is none."""
    for file in queue.files:
        begin = max(0, end - file.first_offset) * CQ_STORE_UNIT_SIZE
        if begin >= file.size:
            continue
        try:
            used = used_end(file.path, begin, file.size)
        except (FileNotFoundError, StoreFormatError):  # deleted or cut since it was listed
            continue
        if used > begin and queue.max_offset() == end:  # else a broker has appended since
            yield DamageRange(
                log_min,
                log_min,
                QUEUE_ENTRY,
                f"consumequeue/{queue.topic}/{queue.queue_id}",
                f"the entry of queue offset {end}",
                "an entry, or zeros up to the end of the file",
                f"invalid, with other bytes behind it in {Path(file.path).name}",
            )
            return


def file_damage(queue: QueueFiles, found: OfflineGetResult, log_min: int) -> Iterator[DamageRange]:
    """Yield a range without bytes if a get met a queue file that is missing, or a queue none of whose files has entries."""
    place = f"consumequeue/{queue.topic}/{queue.queue_id}"
    if found.status is GetMessageStatus.OFFSET_FOUND_NULL:
        yield DamageRange(
            log_min,
            log_min,
            QUEUE_ENTRY,
            place,
            f"the file with the entry before queue offset {found.next_begin_offset}",
            "present",
            "missing",
        )
    elif found.max_offset == 0 and queue.unit_size == CQ_STORE_UNIT_SIZE and not queue.file_count:
        names = [entry.name for entry in entries_of(queue.directory)]
        if names:
            shown = ", ".join(names[:MOST_NAMED]) + (", ..." if len(names) > MOST_NAMED else "")
            field = "queue file with entries"
            yield DamageRange(
                log_min, log_min, QUEUE_ENTRY, place, field, "present", f"missing (beside {shown})"
            )


def entry_damage(
    topic: str, queue_id: int, wrong: Sequence[WrongEntry], *, place: str | None = None
) -> Iterator[DamageRange]:
    """Yield a range for each run of entries of one sort that follow each other; `wrong` is by queue offset.

    A range starts with the record of its first entry, and has the size of that record. Its path is `place`, by default that of
    the queue.
    """
    place = place or f"consumequeue/{topic}/{queue_id}"
    first = 0
    for end in range(1, len(wrong) + 1):
        one, before = wrong[first], wrong[end - 1]
        follows = end < len(wrong) and wrong[end].queue_offset == before.queue_offset + 1
        if follows and bool(wrong[end].found) == bool(one.found):
            continue
        places = f"queue offset {one.queue_offset}"
        if end - first > 1:
            places = f"queue offsets {one.queue_offset} to {before.queue_offset}"
        yield DamageRange(
            one.phy_offset,
            one.phy_offset + max(0, one.msg_size),
            QUEUE_ENTRY,
            place,
            f"what the log has for {places}",
            f"{one.msg_size} bytes of {topic} {queue_id}",
            one.found or "missing",
        )
        first = end
