"""Checks of the machine: owners and permissions of files, and the limit of mapped files."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from rmqcore.disk.queue_files import is_real_folder
from rmqcore.disk.read_range import entries_of, left_out, read_range
from rmqcore.maintenance.doctor.patient import Patient
from rmqcore.maintenance.doctor.report import Diagnosis, Evidence

MAP_COUNT = Path("/proc/sys/vm/max_map_count")
NEARLY = 0.8
MOST_FILES = 2000
"""Most files of each directory whose owner is checked."""


def check_owners(patient: Patient) -> Iterator[Diagnosis]:
    """Files of another user than the root's, and files that this user may not read or write."""
    root = patient.paths.root
    owner = root.stat().st_uid
    odd = []
    for path in _some_files(patient):
        try:
            status = os.lstat(path)
        except FileNotFoundError:
            continue
        if status.st_uid != owner:
            odd.append(
                Evidence(
                    patient.shown(path), f"belongs to user {status.st_uid}", f"{owner}, as the root"
                )
            )
        elif not os.access(path, os.R_OK | os.W_OK, follow_symlinks=False):
            odd.append(Evidence(patient.shown(path), "this user cannot read and write it", "both"))
    if odd:
        yield patient.diagnosis("owners", odd)


def _some_files(patient: Patient) -> Iterator[str]:
    paths = patient.paths
    folders = [*map(os.fspath, paths.commitlogs), os.fspath(paths.index), os.fspath(paths.config)]
    folders += [queue.directory for queue in patient.queues[:MOST_FILES]]
    for folder in folders:
        if is_real_folder(Path(folder)):
            yield folder  # where it cannot be listed, its rights say so
            entries = entries_of(folder, unreadable=left_out)
            yield from (entry.path for entry in islice(entries, MOST_FILES))


def check_number_of_files(patient: Patient) -> Iterator[Diagnosis]:
    """Compare the number of log and queue files, each of which RocketMQ maps, with the system's limit of mappings."""
    try:
        most = int(read_range(MAP_COUNT, 0, 20))
    except (OSError, ValueError):  # not Linux
        return
    count = len(patient.files) + sum(len(queue.files) for queue in patient.queues)
    if count > most * NEARLY:
        where = patient.shown(patient.paths.consumequeue)
        yield patient.diagnosis(
            "many_queues", [Evidence(where, f"{count} files", f"{most} at most")]
        )
