"""Work that only a Java broker finishes, and offsets of its services."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from rmqcore.disk.config_files import read_config_file
from rmqcore.maintenance.doctor.patient import MOST_EVIDENCE, Patient
from rmqcore.maintenance.doctor.report import Diagnosis, Evidence
from rmqcore.offline.queues.queue_reader import QueueFiles
from rmqcore.offline.queues.queues import max_offset, min_offset
from rmqcore.offline.waiting import WHEEL, count_waiting
from rmqcore.vocabulary.topics import REVIVE_TOPIC_PREFIX, SCHEDULE_TOPIC

DELAY_OFFSETS = "config/delayOffset.json"
MOST_LEVELS = 1000


def check_waiting(patient: Patient) -> Iterator[Diagnosis]:
    """Timed messages, and messages that POP consumers have not acknowledged."""
    found = count_waiting(patient.paths)
    if found.timer_sentence:
        yield patient.diagnosis("timer_waiting", [Evidence(WHEEL, found.timer_sentence)])
    if found.pop_sentence:
        place = f"consumequeue/{REVIVE_TOPIC_PREFIX}*"
        yield patient.diagnosis("pop_waiting", [Evidence(place, found.pop_sentence)])
    if found.problems:
        yield patient.diagnosis("not_looked_at", [Evidence(".", text) for text in found.problems])


def check_delay_offsets(patient: Patient) -> Iterator[Diagnosis]:
    """Delay levels that were delivered up to a place outside of their queues."""
    if patient.holder is not None or not patient.files:
        return  # a broker saves them later than it delivers
    try:
        table = (read_config_file(patient.paths, DELAY_OFFSETS) or {}).get("offsetTable")
    except ValueError:  # told with the torn files
        return
    found = islice(_outside(patient, table), MOST_EVIDENCE) if isinstance(table, dict) else ()
    outside = list(found)
    if outside:
        yield patient.diagnosis("delay_offset", outside)


def _outside(patient: Patient, table: dict[str, object]) -> Iterator[Evidence]:
    end = patient.log_end()
    for level, queue_offset in table.items():
        if not (level.isascii() and level.isdigit() and isinstance(queue_offset, int)):
            continue
        queue_id = int(level) - 1
        if not 0 <= queue_id < MOST_LEVELS:
            continue
        queue = QueueFiles(SCHEDULE_TOPIC, queue_id, patient.paths.queue(SCHEDULE_TOPIC, queue_id))
        high = max_offset(queue, end)
        low = min_offset(queue, patient.log_min, high) if queue.files else 0
        if not low <= queue_offset <= high:
            place = f"{DELAY_OFFSETS} level {level}"
            yield Evidence(place, queue_offset, f"{low} to {high}, as its queue has")
