"""Checks of the queues' starts and ends, with the log and with the offsets of consumer groups."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from rmqcore._native.format.layout import CQ_FILLER_SIZE, CQ_STORE_UNIT_SIZE
from rmqcore.disk.queue_ends import end_of_message
from rmqcore.disk.queue_shape import QueueShape
from rmqcore.engine.recovery.misnamed import misnamed_record
from rmqcore.engine.recovery.preview import preview_recovery
from rmqcore.engine.recovery.queue_findings import CLEAN_BYTES
from rmqcore.errors import StoreError
from rmqcore.maintenance.doctor.patient import MOST_QUEUES, Patient
from rmqcore.maintenance.doctor.report import WARNING, Diagnosis, Evidence
from rmqcore.maintenance.guard.misnamed import entries_of
from rmqcore.maintenance.retention.unread import Position, positions
from rmqcore.offline.found_config import found_config
from rmqcore.offline.log.window import record_at
from rmqcore.offline.queues.queue_reader import QueueFiles
from rmqcore.offline.queues.queues import max_offset, min_offset

READ_BYTES = 64 << 20
"""Bytes of queues to read at most."""


class _QueueEnd(NamedTuple):
    """The newest entry of a queue; `message_end` is -1 for a filler."""

    queue: QueueFiles
    max_offset: int
    phy_offset: int
    message_end: int


def check_queue_ends(patient: Patient) -> Iterator[Diagnosis]:
    """Yield queues that end behind the log, or start before it; and the case that all end far before its end."""
    if not patient.files:
        return
    found = [one for one in map(_end_of, patient.queues) if one is not None]
    end = patient.log_end()  # read last: entries written during the check are not of lost messages
    beyond = [one for one in found if one.message_end > end]
    below = [
        (one.queue, *first) for one in found if (first := _starts_below(one, patient.log_min, end))
    ]
    reached = max((one.message_end for one in found), default=-1)
    if beyond and not patient.has_messages and not patient.moved:
        what = "no message in its files"
        newest = max(one.message_end for one in beyond)
        yield patient.diagnosis(
            "log_missing",
            [Evidence(patient.shown(patient.paths.commitlog), what, f"messages up to {newest}")],
        )
    elif beyond:
        evidence = [
            Evidence(
                patient.shown(one.queue.directory),
                f"its newest entry points to {one.phy_offset}",
                f"before {end}",
                one.phy_offset,
            )
            for one in beyond
        ]
        severity = WARNING if patient.unclean else None
        yield patient.diagnosis("queue_beyond_log", evidence, severity=severity)
    misnamed = [bad for one in found if (bad := _misnamed(patient, one)) is not None]
    if misnamed:
        yield patient.diagnosis("misnamed_records", misnamed)
    if below:
        yield _min_below(patient, below)
    if 0 <= reached < end - CLEAN_BYTES:
        what = f"no entry points behind {reached}"
        yield patient.diagnosis("queues_behind", [Evidence("consumequeue", what, end, reached)])


def check_start(patient: Patient) -> Iterator[Diagnosis]:
    """Yield messages that no queue holds after a start has healed the queues, and what the start finds of the index.

    Large logs that were not cleanly closed are skipped.
    """
    large = patient.read_from > 0 and patient.unclean
    if patient.holder is not None or not patient.has_messages or large or patient.is_log_only:
        return
    if len(patient.queues) >= MOST_QUEUES:
        return
    try:
        settings = found_config(patient.paths, patient.settings)
        plan, index = preview_recovery(patient.paths, settings)
    except (StoreError, OSError):  # an open refuses the store: reported with names, sizes and kinds
        return
    if plan.aside.count:
        evidence = [
            Evidence(
                f"{patient.paths.consumequeue.name}/{one.topic}/{one.queue_id}",
                f"queue offsets {one.first_queue_offset} to {one.last_queue_offset}, at {one.first_phy_offset} to "
                f"{one.last_phy_offset}: {one.why}",
                "one record for each queue offset",
                one.first_phy_offset,
            )
            for one in plan.aside.records
        ]
        yield patient.diagnosis("place_taken", evidence)
    wrong, lags = plan.differing_entries, plan.dispatch_from < plan.end_phy_offset
    if wrong and not (lags or patient.unclean or plan.aside.count) and patient.read_from > 0:
        what = f"{wrong} entries are missing or wrong, of {plan.findings.compared_records} compared"
        yield patient.diagnosis(
            "queue_entries", [Evidence("consumequeue", what, "what the log has")]
        )
    if index.damage is not None and patient.paths.index.is_dir() and not patient.unclean:
        yield patient.diagnosis(
            "index_files", [Evidence("index", index.damage, "what the log has")]
        )


def check_entries(patient: Patient) -> Iterator[Diagnosis]:
    """Yield queues of a large log whose own files show missing or wrong entries; those of a small log are compared with it."""
    if patient.read_from == 0 or not patient.has_messages or patient.database is not None:
        return
    left, end = READ_BYTES, patient.log_end()
    wrong = []
    for queue in patient.queues:
        size = CQ_STORE_UNIT_SIZE * sum(file.entry_count for file in queue.files)
        if queue.unit_size != CQ_STORE_UNIT_SIZE or not 0 < size <= left:
            continue
        left -= size
        shape = QueueShape(queue.files, patient.log_min, end, end)
        _, suspects = shape.suspects(thorough=True, end=max_offset(queue), stale=False)
        wrong += [
            Evidence(
                patient.shown(queue.directory),
                one.reason,
                f"those of messages from {one.log_begin} to {one.log_end}",
                one.log_begin,
            )
            for one in suspects
            if one.sure and one.log_begin < one.log_end
        ]
    if wrong:
        yield patient.diagnosis("queue_entries", wrong)


def _min_below(patient: Patient, below: list[tuple[QueueFiles, int, int]]) -> Diagnosis:
    first, queue_offset, _ = below[0]
    evidence = [
        Evidence(
            patient.shown(queue.directory),
            f"starts at queue offset {start}, with a message at {phy_offset}",
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


def _end_of(queue: QueueFiles) -> _QueueEnd | None:
    last = max_offset(queue)
    newest = queue.entries(last - 1, min(1, last))
    if not len(newest):
        return None
    return _QueueEnd(queue, last, int(newest["phy_offset"][0]), end_of_message(newest[0]))


def _misnamed(patient: Patient, one: _QueueEnd) -> Evidence | None:
    """Return the place that the record of a queue's newest entry names, if it differs; only in the part read."""
    if one.message_end < 0 or one.phy_offset < patient.read_from:
        return None
    view = record_at(patient.files, one.phy_offset)
    place = one.queue.topic, one.queue.queue_id
    if view is None:
        return None
    found = misnamed_record(place, one.max_offset - 1, view, entries_of(patient.paths))
    if found is None:
        return None
    return Evidence(
        patient.shown(one.queue.directory),
        f"the record of its newest entry names {found.named}",
        f"{place[0]} {place[1]}",
        one.phy_offset,
    )


def _starts_below(one: _QueueEnd, log_min: int, log_end: int) -> tuple[int, int] | None:
    """Return a queue's first offset, and its message's CommitLog offset, if that message has left the log."""
    queue, end = one.queue, one.max_offset
    if one.message_end > log_end:
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
    beyond = [position for position in _positions(patient) if position.at.beyond]
    if beyond:
        first = beyond[0]
        yield patient.diagnosis(
            "group_beyond_queue",
            [
                Evidence(
                    f"config/consumerOffset.json {one.topic}@{one.group} {one.queue_id}",
                    one.at.queue_offset,
                    f"at most {one.at.max_offset}",
                )
                for one in beyond
            ],
            topic=first.topic,
            queue_id=first.queue_id,
            queue_offset=first.at.queue_offset,
        )


def _positions(patient: Patient) -> Iterator[Position]:
    if patient.database_error is not None:  # another diagnosis reports it
        return iter(())
    offsets = patient.offsets  # before the log's end
    return positions(patient.paths, offsets, patient.log_min, patient.log_end())
