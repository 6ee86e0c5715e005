"""The index against the log."""

from __future__ import annotations

from collections.abc import Iterator

from rmqcore.maintenance.doctor.patient import Patient
from rmqcore.maintenance.doctor.report import Diagnosis, Evidence
from rmqcore.offline.index.index_files import find_index_files


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
