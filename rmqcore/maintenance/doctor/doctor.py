"""`doctor`: what is wrong with a store, why, and what to do about it."""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from rmqcore.disk.paths import PATH_SPLITTER, absolute_path
from rmqcore.errors import RocksdbMissingError, StoreError, is_unreadable
from rmqcore.maintenance.doctor.config_checks import check_config_files, check_sizes
from rmqcore.maintenance.doctor.disk_checks import check_disk, check_time_to_come
from rmqcore.maintenance.doctor.index_checks import check_index
from rmqcore.maintenance.doctor.log_checks import (
    check_exit,
    check_records,
    check_the_checkpoint,
    check_times,
)
from rmqcore.maintenance.doctor.machine_checks import check_number_of_files, check_owners
from rmqcore.maintenance.doctor.name_checks import (
    check_holes,
    check_kind,
    check_names,
    check_parts,
    check_places,
)
from rmqcore.maintenance.doctor.order import in_order
from rmqcore.maintenance.doctor.patient import (
    MOST_EVIDENCE,
    MOST_QUEUES,
    Patient,
    evidence_of,
)
from rmqcore.maintenance.doctor.queue_checks import (
    check_entries,
    check_groups,
    check_queue_ends,
    check_start,
)
from rmqcore.maintenance.doctor.report import (
    ERROR,
    WARNING,
    Diagnosis,
    DoctorReport,
    Evidence,
)
from rmqcore.maintenance.doctor.waiting_checks import check_delay_offsets, check_waiting
from rmqcore.offline.fsck import FsckReport, fsck
from rmqcore.offline.log.walk import Progress
from rmqcore.offline.reader import LogDirectories, store_paths

if TYPE_CHECKING:
    from rmqcore.config import MessageStoreConfig

Check = Callable[[Patient], Iterator[Diagnosis]]
CHECKS: tuple[Check, ...] = (
    check_kind,
    check_exit,
    check_names,
    check_holes,
    check_parts,
    check_places,
    check_records,
    check_times,
    check_the_checkpoint,
    check_queue_ends,
    check_start,
    check_entries,
    check_groups,
    check_waiting,
    check_delay_offsets,
    check_index,
    check_config_files,
    check_sizes,
    check_disk,
    check_time_to_come,
    check_owners,
    check_number_of_files,
)


def doctor(
    path: str | os.PathLike[str],
    *,
    thorough: bool = False,
    config: MessageStoreConfig | None = None,
    commitlog: LogDirectories | None = None,
    follow_links: bool = False,
    broker_conf: str | os.PathLike[str] | None = None,
    for_version: str | None = None,
    now_ms: int | None = None,
    progress: Progress | None = None,
) -> DoctorReport:
    """Name what is wrong with a store, the cause, and the safe next step with a command.

    It only reads; the store may be in use, broken, or from a stranger. Names, sizes, both ends of files, checkpoint,
    configuration, and the log that a start would read are looked at, which takes seconds; a log of up to 64 MiB is read
    whole, and compared with the queues unless a process has the store; the plan of a start is made, unless a process has
    the store or a log above 64 MiB was not cleanly closed. `thorough` compares everything with everything, as `fsck` does.

    Parameters
    ----------
    path : path-like
        The store's root.
    thorough : bool
    config : MessageStoreConfig, optional
        Of the broker: its sizes are compared with the files, its rules of cleaning with the disk; its paths say where
        the CommitLog is.
    commitlog : str, path-like or sequence of path-like, optional
        Where the CommitLog is; see `StoreReader`.
    follow_links : bool
        As of `StoreReader`; any other link is a diagnosis.
    broker_conf : path-like, optional
        The file that `config` was read from, which commands name.
    for_version : str, optional
        A release of RocketMQ such as ``"4.9"``: count the records that it cannot read, in the part of the log that is read.
        None: the setting of `config`.
    now_ms : int, optional
        Replaces the clock: milliseconds since the epoch.
    progress : callable, optional
        Called with (bytes done, bytes in all).

    Raises
    ------
    NotAStoreError, LinkError, FileNotFoundError, NotADirectoryError
        See `fsck`.
    ValueError
        `for_version` is not a release.
    """
    began = time.monotonic()
    root = absolute_path(path, "path")
    paths = store_paths(root, config, commitlog, follow_links=follow_links, leave_out_links=True)
    options = "" if commitlog is None else f" --commitlog {shlex.quote(_directories(commitlog))}"
    options += " --follow-links" if follow_links else ""
    settings = "" if broker_conf is None else f" --config {shlex.quote(os.fspath(broker_conf))}"
    patient = Patient(paths, config, now_ms, progress, options, settings, for_version)
    found: list[Diagnosis] = []
    for check in CHECKS:
        found += _safely(patient, check)

    def compare(*, check_index: bool) -> FsckReport:
        return fsck(
            root,
            config=config,
            commitlog=commitlog,
            follow_links=follow_links,
            check_index=check_index,
            check_queues=not isinstance(patient.database_error, RocksdbMissingError),
            max_findings=MOST_EVIDENCE,
            progress=patient.progress,
        )

    if thorough:
        found += _compared(patient, compare(check_index=True))
    else:
        found += _safely(patient, lambda _: _queue_entries(patient, compare))
    found = _merged(found)
    size, read = patient.bytes_read()
    seconds = time.monotonic() - began
    return DoctorReport(str(root), in_order(found), thorough, seconds, size, read)


def _directories(commitlog: LogDirectories) -> str:
    """The text of storePathCommitLog."""
    if isinstance(commitlog, str | os.PathLike):
        return os.fspath(commitlog)
    return PATH_SPLITTER.join(os.fspath(directory) for directory in commitlog)


def _safely(patient: Patient, check: Check) -> Iterator[Diagnosis]:
    """Run a check; an error in it becomes a diagnosis, so that the other checks still run."""
    try:
        yield from check(patient)
    except (StoreError, OSError, ValueError) as error:
        if isinstance(error, OSError) and is_unreadable(error) and error.filename is not None:
            yield patient.unreadable(error.filename, error)
        else:
            yield patient.diagnosis("not_looked_at", [Evidence(".", str(error))])


def _compared(patient: Patient, report: FsckReport) -> Iterator[Diagnosis]:
    for severity, name in ((ERROR, "fsck_errors"), (WARNING, "fsck_warnings")):
        findings = [finding for finding in report.findings if finding.severity == severity]
        if findings:
            yield patient.diagnosis(name, map(evidence_of, findings))


def _queue_entries(patient: Patient, compare: Callable[..., FsckReport]) -> Iterator[Diagnosis]:
    """Compare the queues with a log that was read whole; entries behind the log's end are a diagnosis of their own."""
    if patient.read_from > 0 or not patient.has_messages or patient.is_log_only:
        return
    if patient.holder is not None or not 0 < len(patient.queues) < MOST_QUEUES:
        return
    wrong = [
        finding
        for finding in compare(check_index=False).findings
        if finding.severity == ERROR and finding.kind in ("cq_entry", "cq_missing", "cq_hole")
    ]
    if wrong:
        yield patient.diagnosis("queue_entries", map(evidence_of, wrong))


def _merged(found: list[Diagnosis]) -> list[Diagnosis]:
    """One diagnosis of each name: its evidence from all checks that made it, each piece once."""
    by_name: dict[str, Diagnosis] = {}
    for one in found:
        other = by_name.get(one.name)
        if other is None:
            by_name[one.name] = one
            continue
        both = (*other.evidence, *(piece for piece in one.evidence if piece not in other.evidence))
        known = len(other.evidence) + len(one.evidence) - len(both)
        count = other.evidence_count + one.evidence_count - known
        by_name[one.name] = replace(other, evidence=both[:MOST_EVIDENCE], evidence_count=count)
    return list(by_name.values())
