"""The order of treatment for diagnoses: first missing files, then wrong names, then salvage, and recovery last.

A recovery cuts the log at its end, so it waits until no file of the log is missing, misnamed or damaged.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from rmqcore.maintenance.doctor.report import SEVERITIES, Diagnosis

MISSING = ("log_missing", "unreadable", "odd_files")
RENAMED = ("moved_log", "log_file_name")
SALVAGED = ("log_file_size", "log_hole", "damaged_log")
ORDER = (*MISSING, *RENAMED, *SALVAGED)

RECOVERED = frozenset(
    (
        "torn_tail",
        "unclean_exit",
        "checkpoint",
        "no_checkpoint",
        "queues_missing",
        "queues_behind",
        "queue_beyond_log",
        "place_taken",
        "queue_entries",
        "queue_files",
        "index_files",
        "index_missing",
        "fsck_errors",
        "fsck_warnings",
    )
)
"""Diagnoses that an open or a rebuild treats, from the log as it is."""
OF_OFFSETS = frozenset(
    (
        "queue_min_below_log",
        "group_beyond_queue",
        "delay_offset",
        "index_grows",
        "clock_step",
        "unread_lost",
        "unread_goes",
    )
)
"""Diagnoses that compare offsets and times with those of the log."""
WAITS: dict[str, frozenset[str]] = {
    "log_missing": RECOVERED | OF_OFFSETS | {"log_hole", "damaged_log"},
    "moved_log": RECOVERED | OF_OFFSETS | {"log_hole", "damaged_log"},
    "log_file_size": RECOVERED | OF_OFFSETS | {"log_hole", "damaged_log"},
    "log_hole": RECOVERED | OF_OFFSETS | {"damaged_log"},
    "damaged_log": RECOVERED | {"group_beyond_queue"},
}
"""Diagnoses that wait for each of these."""


def in_order(found: Iterable[Diagnosis]) -> tuple[Diagnosis, ...]:
    """Sort by severity, then by the step that is safe first; a diagnosis that waits for another has no command."""
    rank = {name: number for number, name in enumerate(ORDER)}
    ordered = sorted(
        found, key=lambda one: (SEVERITIES.index(one.severity), rank.get(one.name, len(ORDER)))
    )
    names = {one.name for one in ordered}
    first = [name for name in ORDER if name in names and name in WAITS]
    return tuple(_behind(one, first) for one in ordered)


def _behind(one: Diagnosis, first: list[str]) -> Diagnosis:
    for name in first:
        if one.name in WAITS[name]:
            step = f"First take the next step of {name}, then run doctor again."
            return replace(one, command="", next_step=step, after=name)
    return one
