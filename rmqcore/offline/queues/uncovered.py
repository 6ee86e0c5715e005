"""Messages that the log has outside of the range of a queue's entries: the queue lost its first, its last, or all of them.

Only a part of the log is looked at: the `SEARCH_BYTES` behind the last entry, the first of the log up to the first entry, and for
a queue without entries the first of the log and of its newest file.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from rmqcore._native.format.codec import MessageView
from rmqcore._native.format.layout import CQ_STORE_UNIT_SIZE
from rmqcore._native.scan.scan import ViewScan
from rmqcore.disk.paths import StorePaths
from rmqcore.disk.queue_ends import end_of_message
from rmqcore.disk.topics_file import configured_queues
from rmqcore.offline.log.conditions import Conditions
from rmqcore.offline.log.damage import DamageRange
from rmqcore.offline.log.log_files import LogFile
from rmqcore.offline.log.walk import Blank, LogWalk
from rmqcore.offline.queues.get_result import OfflineGetResult
from rmqcore.offline.queues.queue_reader import QueueFiles
from rmqcore.offline.queues.wrong_entries import QUEUE_ENTRY
from rmqcore.vocabulary.status import GetMessageStatus
from rmqcore.vocabulary.sysflag import has_queue_entry
from rmqcore.vocabulary.topics import LMQ_PREFIX

SEARCH_BYTES = 16 << 20
"""Bytes of the log to search for a message without an entry."""
AT_THE_END = (GetMessageStatus.OFFSET_OVERFLOW_ONE, GetMessageStatus.OFFSET_OVERFLOW_BADLY)


def uncovered(
    paths: StorePaths, queue: QueueFiles, found: OfflineGetResult, log_files: list[LogFile]
) -> list[DamageRange]:
    """Return a range for the first message that a get outside of a queue's entries should have found; else an empty list.

    A store that is in use or was not cleanly closed may have entries to make at the end of its queues: there, nothing is looked
    for. A queue without entries counts only if its topic has a directory or is in ``config/topics.json``: others were deleted.

    Parameters
    ----------
    paths : StorePaths
    queue : QueueFiles
    found : OfflineGetResult
        Answer of the get.
    log_files : list of LogFile

    Raises
    ------
    OSError
        A file cannot be read.
    """
    if not log_files or queue.unit_size != CQ_STORE_UNIT_SIZE or queue.topic.startswith(LMQ_PREFIX):
        return []
    start, end = found.min_offset, found.max_offset
    for begin, stop in _parts(paths, queue, found, log_files):
        for view in _messages(queue, log_files, begin, stop):
            if not start <= view.queue_offset < end:
                return [_range_of(queue, view)]
    return []


def _parts(
    paths: StorePaths, queue: QueueFiles, found: OfflineGetResult, log_files: list[LogFile]
) -> Iterator[tuple[int, int]]:
    """Yield the parts of the log to search, each from the start of a record on."""
    log_min = log_files[0].file_from_offset
    closed = not os.path.lexists(paths.abort)
    if found.status is GetMessageStatus.OFFSET_TOO_SMALL:
        first = queue.entries(found.min_offset, 1)
        if len(first):
            yield log_min, min(int(first["phy_offset"][0]), log_min + SEARCH_BYTES)
    elif found.status in AT_THE_END and closed:
        last = queue.entries(found.max_offset - 1, 1)
        behind = end_of_message(last[0]) if len(last) else -1
        if behind >= log_min:
            yield behind, behind + SEARCH_BYTES
    elif (
        found.status is GetMessageStatus.NO_MESSAGE_IN_QUEUE and closed and _is_known(paths, queue)
    ):
        newest = log_files[-1].file_from_offset
        for begin in sorted({log_min, newest}):
            yield begin, begin + SEARCH_BYTES


def _is_known(paths: StorePaths, queue: QueueFiles) -> bool:
    if queue.queue_id < configured_queues(paths, queue.topic):
        return True
    return (paths.consumequeue / queue.topic).is_dir()


def _messages(
    queue: QueueFiles, log_files: list[LogFile], begin: int, stop: int
) -> Iterator[MessageView]:
    """Yield the queue's messages in a part of the log; damage there is not of interest."""
    wanted = Conditions.of([queue.topic], queue.queue_id, start_phy_offset=begin)
    walk: LogWalk[list[MessageView]] = LogWalk(
        log_files,
        ViewScan(filter=wanted.native(), stop_offset=stop),
        [],
        start=begin,
        stop=stop,
        aligned_start=True,
    )
    for views in walk.run():
        for view in () if isinstance(views, Blank) else views:
            if has_queue_entry(view.sys_flag):
                yield view


def _range_of(queue: QueueFiles, view: MessageView) -> DamageRange:
    return DamageRange(
        view.phy_offset,
        view.phy_offset + view.msg_size,
        QUEUE_ENTRY,
        f"consumequeue/{queue.topic}/{queue.queue_id}",
        f"the entry of queue offset {view.queue_offset}",
        "present",
        "missing",
    )
