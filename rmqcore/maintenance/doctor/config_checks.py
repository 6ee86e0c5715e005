"""Files of the configuration: those that a broker writes, and the broker.conf that was given."""

from __future__ import annotations

from collections.abc import Iterator

from rmqcore.config.broker_conf import java_name
from rmqcore.disk.config_files import what_is_wrong
from rmqcore.disk.read_range import entries_of
from rmqcore.maintenance.doctor.patient import Patient
from rmqcore.maintenance.doctor.report import Diagnosis, Evidence
from rmqcore.offline.found_config import found_sizes

MOST_FILES = 200
"""Most files of config/ to check; a broker has a dozen."""


def check_config_files(patient: Patient) -> Iterator[Diagnosis]:
    """JSON files of config/ that are torn, with and without a backup."""
    folder = patient.paths.config
    if folder.is_symlink() or not folder.is_dir():
        return
    names = [entry.name for entry in entries_of(folder) if entry.name.endswith(".json")]
    torn: dict[bool, list[Evidence]] = {False: [], True: []}
    first: str | None = None
    for name in names[:MOST_FILES]:
        why = what_is_wrong(patient.paths, f"config/{name}")
        if why is None:
            continue
        backup = what_is_wrong(patient.paths, f"config/{name}.bak")
        has_backup = backup is None and (folder / f"{name}.bak").is_file()
        torn[has_backup].append(Evidence(f"config/{name}", why, "JSON"))
        first = name if has_backup and first is None else first
    if torn[False]:
        yield patient.diagnosis("torn_config", torn[False])
    if first is not None:
        yield patient.diagnosis(
            "torn_config_with_backup",
            torn[True],
            config_file=folder / first,
            config_torn=folder / f"{first}.torn",
            backup=folder / f"{first}.bak",
        )


def check_sizes(patient: Patient) -> Iterator[Diagnosis]:
    """Sizes of files in the broker.conf that the files do not have."""
    if patient.config is None:
        return
    wrong = [
        Evidence(
            "broker.conf",
            f"{java_name(name)}={getattr(patient.config, name)}",
            f"{size}, as the files have",
        )
        for name, size in found_sizes(patient.paths, patient.config).items()
        if size != getattr(patient.config, name)
    ]
    if wrong:
        yield patient.diagnosis("config_sizes", wrong)
