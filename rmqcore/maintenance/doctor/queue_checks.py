"""Where queues begin and end, against the log and against what consumer groups say."""

from __future__ import annotations

from collections.abc import Iterator

from rmqcore._native.format.layout import CQ_FILLER_SIZE
from rmqcore.disk.queue_ends import newest_entry, recovered_end
from rmqcore.engine.recovery.comparison import CLEAN_BYTES
from rmqcore.maintenance.doctor.patient import Patient
from rmqcore.maintenance.doctor.report import Diagnosis, Evidence
from rmqcore.maintenance.retention.unread import Position, positions
from rmqcore.offline.queues.queue_reader import QueueFiles
from rmqcore.offline.queues.queues import max_offset, min_offset


def check_queue_ends(patient: Patient) -> Iterator[Diagnosis]:
    """Queues that end behind the log, or begin before it; all of them far before its end."""
    if not patient.files:
        return
    end, least = patient.log.end_phy_offset, patient.log_min
    beyond: list[Evidence] = []
    below: list[tuple[QueueFiles, int, int]] = []
    reached = -1
    for queue in patient.queues:
        newest = newest_entry(queue.files, *recovered_end(queue.files))
        if newest is None:
            continue
        phy_offset = int(newest["phy_offset"])
        message_end = phy_offset + int(newest["msg_size"])
        reached = max(reached, message_end)
        if message_end > end:
            what = f"its newest entry leads to {phy_offset}"
            beyond.append(
                Evidence(patient.shown(queue.directory), what, f"before {end}", phy_offset)
            )
        first = _starts_below(queue, least, end)
        if first is not None:
            below.append((queue, *first))
    if beyond:
        yield patient.diagnosis("queue_beyond_log", beyond)
    if below:
        yield _min_below(patient, below)
    if 0 <= reached < end - CLEAN_BYTES:
        what = f"no entry leads behind {reached}"
        yield patient.diagnosis("queues_behind", [Evidence("consumequeue", what, end, reached)])


def _min_below(patient: Patient, below: list[tuple[QueueFiles, int, int]]) -> Diagnosis:
    first, queue_offset, _ = below[0]
    evidence = [
        Evidence(
            patient.shown(queue.directory),
            f"begins at queue offset {start}, with a message at {phy_offset}",
            f"{patient.log_min} or later",
            phy_offset,
        )
        for queue, start, phy_offset in below
    ]
    return patient.diagnosis(
        "queue_min_below_log",
        evidence,
        topic=first.topic,
        queue_id=first.queue_id,
        queue_offset=queue_offset,
    )


def _starts_below(queue: QueueFiles, log_min: int, log_end: int) -> tuple[int, int] | None:
    """The queue's first offset and where its message was, when that is not in the log any more."""
    end = max_offset(queue, log_end)
    start = min_offset(queue, log_min, end)
    if start >= end:
        return None
    entry = queue.entries(max(start, queue.files[0].first_offset), 1)
    if not len(entry) or int(entry["msg_size"][0]) == CQ_FILLER_SIZE:
        return None
    phy_offset = int(entry["phy_offset"][0])
    return (start, phy_offset) if phy_offset < log_min else None


def check_groups(patient: Patient) -> Iterator[Diagnosis]:
    """Groups whose offset is behind the end of a queue."""
    beyond = [position for position in _positions(patient) if position.beyond]
    if beyond:
        first = beyond[0]
        yield patient.diagnosis(
            "group_beyond_queue",
            [
                Evidence(
                    f"config/consumerOffset.json {one.topic}@{one.group} {one.queue_id}",
                    one.queue_offset,
                    f"at most {one.max_offset}",
                )
                for one in beyond
            ],
            topic=first.topic,
            queue_id=first.queue_id,
            queue_offset=first.queue_offset,
        )


def _positions(patient: Patient) -> Iterator[Position]:
    return positions(patient.paths, patient.offsets, patient.log_min, patient.log.end_phy_offset)
