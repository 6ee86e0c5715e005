"""The index against the log."""

from __future__ import annotations

from collections.abc import Iterator

from rmqcore._native.format.layout import INDEX_ENTRY_SIZE, INDEX_SLOT_SIZE
from rmqcore.maintenance.doctor.patient import MOST_EVIDENCE, Patient, evidence_of
from rmqcore.maintenance.doctor.report import ERROR, Diagnosis, Evidence
from rmqcore.offline.fsck.findings import Findings
from rmqcore.offline.fsck.index.index_file import check_file
from rmqcore.offline.index.index_files import IndexFileReader, find_index_files

READ_BYTES = 64 << 20
"""Bytes of slots and entries to read at most, of the newest files."""


def check_index(patient: Patient) -> Iterator[Diagnosis]:
    """Yield index headers that do not fit the log, and files whose messages have all left it."""
    readers = [one for one in find_index_files(patient.paths) if one.link_of is None]
    files = [one.info() for one in readers]
    end = patient.log_end()
    wrong = [
        Evidence(
            f"index/{file.name}",
            f"its messages are at {file.begin_phy_offset} to {file.end_phy_offset}",
            f"up to {end}",
            file.begin_phy_offset,
        )
        for file in files
        if file.entry_count and not 0 <= file.begin_phy_offset <= file.end_phy_offset <= end
    ]
    wrong += [
        Evidence(f"index/{one.path.name}", why, "a header that fits its entries")
        for one in readers
        if (why := one.problem())
    ]
    wrong += _inside(patient, [one for one in readers if one.problem() is None])
    if wrong and patient.files:
        yield patient.diagnosis("index_files", wrong)
    gone = [
        Evidence(
            f"index/{file.name}",
            f"its newest message is at {file.end_phy_offset}",
            f"{patient.log_min} or later",
        )
        for file in files
        if 0 < file.end_phy_offset < patient.log_min
    ]
    if len(gone) > 1:  # one may be there until the next round
        yield patient.diagnosis("index_grows", gone)


def _inside(patient: Patient, readers: list[IndexFileReader]) -> Iterator[Evidence]:
    """Yield slots and entries of the newest files that do not fit each other; of a large file, slots that are empty."""
    left = READ_BYTES
    for one in reversed(readers):
        slots = INDEX_SLOT_SIZE * (one.slot_count or 0)
        entries = INDEX_ENTRY_SIZE * max(one.header.index_count, 0)
        if slots + entries <= left:
            left -= slots + entries
            findings = Findings(MOST_EVIDENCE)
            check_file(one, findings, live=patient.holder is not None)
            for finding in findings.items:
                if finding.severity == ERROR:
                    yield evidence_of(finding)
        elif slots <= left:
            left -= slots
            lost = len(one.lost_slots())
            if lost:
                what = f"{lost} slots lead to no entry, but entries belong to them"
                yield Evidence(
                    f"index/{one.path.name}", what, "slots that lead to their newest entries"
                )
