"""Report of doctor: diagnoses, each with evidence and a command."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from rmqcore.errors.exit_codes import DAMAGED, OK
from rmqcore.shown.report import Report

ERROR, WARNING, INFO = "error", "warning", "info"
SEVERITIES = (ERROR, WARNING, INFO)


@dataclass(frozen=True, slots=True)
class Evidence:
    """A fact found by a check, and its place.

    Attributes
    ----------
    path : str
        The file or directory; relative to the store where it lies in it.
    found, expected : object
        Plain JSON values.
    phy_offset : int or None
        CommitLog offset in bytes, when it is about a place in the log.
    """

    path: str
    found: object
    expected: object = None
    phy_offset: int | None = None

    def __str__(self) -> str:
        place = self.path if self.phy_offset is None else f"{self.path}@{self.phy_offset}"
        wanted = "" if self.expected is None else f", expected {self.expected}"
        return f"{place}: {self.found}{wanted}"


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Something that is wrong, or will be.

    Attributes
    ----------
    name : str
        One of `rmqcore.maintenance.doctor.kinds.KINDS`.
    severity : str
        ``"error"``: messages are lost or cannot be fetched, or a broker does not start or take messages. ``"warning"``:
        it will come to that, or a start repairs it. ``"info"``: worth knowing.
    cause : str
    evidence : tuple of Evidence
        The first ones, 20 at most.
    evidence_count : int
        Number of all evidence.
    next_step : str
        A step that cannot make the problem worse.
    command : str
        The first command to type; it only reads the store, or keeps the files that it replaces. Empty with `after`.
    pains : tuple of int
        Numbers of users' problems in docs/doctor.md.
    after : str
        The diagnosis whose next step comes first: that removes this one, or this one's own step is not safe before it.
    """

    name: str
    severity: str
    cause: str
    evidence: tuple[Evidence, ...]
    evidence_count: int
    next_step: str
    command: str
    pains: tuple[int, ...]
    after: str = ""


@dataclass(frozen=True)
class DoctorReport(Report):
    """Diagnoses of a store.

    Attributes
    ----------
    path : str
    diagnoses : tuple of Diagnosis
        Errors first.
    thorough : bool
        Everything was compared with everything (`fsck`).
    seconds : float
    log_bytes, log_bytes_read : int
        Bytes of the log, and how many of them were read record by record.
    """

    path: str
    diagnoses: tuple[Diagnosis, ...]
    thorough: bool
    seconds: float
    log_bytes: int = 0
    log_bytes_read: int = 0

    @property
    def counts(self) -> dict[str, int]:
        """How many diagnoses have each severity."""
        return dict(Counter(found.severity for found in self.diagnoses))

    @property
    def exit_code(self) -> int:
        """2 with a diagnosis of severity error, else 0."""
        return DAMAGED if ERROR in self.counts else OK

    def as_dict(self) -> dict[str, Any]:
        """The report as a JSON object."""
        return {"exit_code": self.exit_code, "counts": self.counts, **super().as_dict()}
