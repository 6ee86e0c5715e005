"""Checks of the log: the records that a start reads, store times, and how it was closed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise

from rmqcore._native.scan.batch import Batch
from rmqcore._native.scan.scan import ColumnScan
from rmqcore.engine.recovery.unread_records import UnreadCount
from rmqcore.maintenance.doctor.name_checks import ANYWHERE
from rmqcore.maintenance.doctor.patient import Patient, evidence_of
from rmqcore.maintenance.doctor.report import Diagnosis, Evidence
from rmqcore.offline.fsck.file_names import check_checkpoint
from rmqcore.offline.fsck.findings import Finding, Findings
from rmqcore.offline.log.damage import DamageList, DamageRange
from rmqcore.offline.log.long_record import LongRecords
from rmqcore.offline.log.walk import Blank, LogWalk
from rmqcore.offline.missing_log import StoreEnd
from rmqcore.vocabulary.units import HOUR_MS

STEP_MS = 1000
"""Largest step of a clock that NTP keeps."""
FUTURE_MS = HOUR_MS
OF_NAMES = ("short_file", "missing_file", "unreadable")
"""Kinds of damage that names and sizes of files show already."""
READ_BYTES_PER_SECOND = 1 << 30
"""Bytes that a start reads per second at least, if the disk is fast enough."""


class _ClosedEnd(StoreEnd):
    """The end of the newest file; other checks report what queues and checkpoint know beyond it."""

    def missing(self, log_end: int) -> list[DamageRange]:
        del log_end
        return []


def check_records(patient: Patient) -> Iterator[Diagnosis]:
    """Yield damage in the log that a start reads, bytes behind the last record, and records that a release cannot read.

    Wrong names are another check's.
    """
    files = [
        facts.file
        for facts in patient.log.files
        if facts.file.file_from_offset >= patient.read_from and facts.file.name not in patient.moved
    ]
    if not files:
        return
    damage = DamageList()
    unread = UnreadCount(patient.for_version)
    walk: LogWalk[Batch] = LogWalk(
        files,
        ColumnScan(unread.wanted or ("phy_offset",)),
        damage,
        shape=patient.log.shape,
        long_records=LongRecords(),
        progress=patient.progress,
        end=_ClosedEnd(patient.paths),
    )
    for batch in walk.run():
        if not isinstance(batch, Blank):
            unread.add(batch)
    if unread.found is not None:
        one = unread.found
        yield patient.diagnosis(
            "unread_by_release",
            [Evidence("commitlog", str(one), "none", one.first_phy_offset)],
            release=one.for_version,
        )
    found = {
        name: [
            Evidence(
                one.path,
                f"{one.byte_count} bytes: {one.field} is {one.found}",
                one.expected,
                one.start_phy_offset,
            )
            for one in damage
            if (one.kind == "torn_tail") == (name == "torn_tail") and one.kind not in OF_NAMES
        ]
        for name in ("damaged_log", "torn_tail")
    }
    for name, evidence in found.items():
        if evidence:
            yield patient.diagnosis(name, evidence)


def check_times(patient: Patient) -> Iterator[Diagnosis]:
    """Store times that step back from file to file, or lie in the future."""
    odd = []
    known = [facts for facts in patient.log.files if facts.first is not None]
    for one, other in pairwise(known):
        assert one.first is not None
        assert other.first is not None
        before, after = one.first.first_ms, other.first.first_ms
        if after < before - STEP_MS:
            odd.append(
                Evidence(
                    other.file.name,
                    f"stored at {after}",
                    f"{before} or later",
                    other.first.phy_offset,
                )
            )
    for facts in known[-1:]:
        assert facts.last is not None
        latest = facts.last.last_ms
        if latest > patient.now_ms + FUTURE_MS:
            odd.append(
                Evidence(
                    facts.file.name,
                    f"stored at {latest}",
                    f"{patient.now_ms} or before",
                    facts.last.phy_offset,
                )
            )
    if odd:
        yield patient.diagnosis("clock_step", odd, phy_offset=odd[0].phy_offset)


def check_exit(patient: Patient) -> Iterator[Diagnosis]:
    """Yield how the store was closed, and the process that has it open."""
    if patient.holder is not None:
        who = f"process {patient.holder}" if patient.holder else "an unknown process"
        yield patient.diagnosis("in_use", [Evidence("lock", f"held by {who}", "free")])
    elif patient.unclean:
        yield patient.diagnosis(
            "unclean_exit", [Evidence("abort", "there", "no such file"), *_start(patient)]
        )


def _start(patient: Patient) -> Iterator[Evidence]:
    """Yield the first file that a start reads, and the time of its reads."""
    if patient.start is None:
        return
    begin, path, reason = patient.start
    size = max(0, patient.log.end_phy_offset - begin)
    compared = min(patient.settings.recover_check_bytes, patient.log.disk_bytes)
    seconds = max(1, round((size + compared) / READ_BYTES_PER_SECOND))
    what = (
        f"a start reads {size} bytes from here on ({reason}), and compares {compared} with the "
        f"queues: about {seconds} s at 1 GiB per second"
    )
    yield Evidence(patient.shown(path), what, None, begin)


def check_the_checkpoint(patient: Patient) -> Iterator[Diagnosis]:
    """Compare the checkpoint with the log."""
    checkpoint, found = patient.checkpoint_findings
    if checkpoint is None and not found:
        return  # not a regular file: reported with the other kinds of files
    findings = Findings(10)
    newest_ms = max((facts.last.last_ms for facts in patient.log.files if facts.last), default=0)
    if checkpoint is not None and patient.has_messages:
        check_checkpoint(checkpoint, newest_ms, patient.log.end_phy_offset, findings)
    names: dict[str, list[Finding]] = defaultdict(list)
    for finding in [*found, *findings.items]:
        names[_name_of(finding)].append(finding)
    if not patient.has_messages or patient.holder is not None or patient.is_log_only:
        names.pop("no_checkpoint", None)
    for name, wrong in names.items():
        evidence = map(evidence_of, wrong)
        path = patient.paths.checkpoint
        severity = None if name in ANYWHERE.values() else wrong[0].severity
        yield patient.diagnosis(name, evidence, severity=severity, unreadable=path)


def _name_of(finding: Finding) -> str:
    """The diagnosis of what fsck found about the checkpoint."""
    if finding.kind == "unreadable":
        return "unreadable"
    if finding.field == "file":
        return "no_checkpoint" if finding.found == "missing" else "odd_files"
    return "checkpoint"
