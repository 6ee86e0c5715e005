"""Report of a conversion."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rmqcore.errors.exit_codes import DAMAGED, OK
from rmqcore.maintenance.backup.report import Way
from rmqcore.maintenance.salvage.other_parts import ConfigProblem
from rmqcore.shown.report import Report


@dataclass(frozen=True, slots=True)
class QueueBounds:
    """A queue whose start or end differs in the new store.

    Attributes
    ----------
    topic : str
    queue_id : int
    min_offset, max_offset : int
        In the store.
    new_min_offset, new_max_offset : int
        In the new store.
    """

    topic: str
    queue_id: int
    min_offset: int
    max_offset: int
    new_min_offset: int
    new_max_offset: int


@dataclass(frozen=True)
class ConvertReport(Report):
    """Queues and files written by a conversion.

    Attributes
    ----------
    path, out : str
        The store, and the new one.
    linked, cloned, copied : Way
        Files of log and index that have a second name now, share their blocks, or were written.
    queues, queue_files, queue_entries : int
        Queues, files and entries made from the database.
    idle_queues : int
        Queues without entries: their ends were kept.
    missing_entries : int
        Entries that the database lacks between others: fillers are in their places.
    index_made : bool
        The store has no index files, and they were made from the log.
    differing : list of QueueBounds
        Queues whose start or end differs; the first 1,000.
    kept : tuple of str
        Names in the store's root that were copied as they are.
    left_behind : tuple of str
        Names in the store's root that the new store lacks.
    config_problems : list of ConfigProblem
        Files of ``config/`` that are torn.
    unreadable : list of str
        Places that could not be read: they are zeros in the new store.
    fsck : dict or None
        What fsck found in the new store: ``exit_code``, ``records`` and ``totals``. None if it was not checked.
    seconds : float
    """

    path: str
    out: str
    linked: Way
    cloned: Way
    copied: Way
    queues: int
    queue_files: int
    queue_entries: int
    idle_queues: int
    missing_entries: int
    index_made: bool
    differing: list[QueueBounds]
    kept: tuple[str, ...]
    left_behind: tuple[str, ...]
    config_problems: list[ConfigProblem]
    unreadable: list[str]
    fsck: dict[str, Any] | None
    seconds: float

    @property
    def exit_code(self) -> int:
        """2 when the new store is not the same in all queues, a part could not be read, or fsck found errors; else 0."""
        odd = self.missing_entries or self.differing or self.config_problems or self.unreadable
        found = OK if self.fsck is None else self.fsck["exit_code"]
        return DAMAGED if odd or found != OK else OK
