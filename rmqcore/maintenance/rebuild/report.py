"""What a rebuild built, and where it goes when no folder is named."""

from __future__ import annotations

from dataclasses import dataclass

from rmqcore.errors.exit_codes import DAMAGED, OK
from rmqcore.offline.log.damage import DamageRange
from rmqcore.report import Report

FOLDER = "rebuilt"
"""The folder in a store that is used when no other is named; brokers do not look at it."""
ENDED = "torn_tail"


@dataclass(frozen=True)
class RebuildReport(Report):
    """What was built.

    Attributes
    ----------
    path, out : str
        The store, and the folder that holds what was built.
    parts : tuple of str
        ``consumequeue``, ``index``.
    records, record_bytes : int
        Read from the log.
    queues, queue_files, queue_entries : int
    filled_entries : int
        Fillers in the places of records that damage in the log has taken.
    ignored_records : int
        Records without an entry: their queue offset was taken, or no queue can begin at it.
    index_files, index_entries : int
    damage : list of DamageRange
        Damage of the log.
    seconds : float
    """

    path: str
    out: str
    parts: tuple[str, ...]
    records: int
    record_bytes: int
    queues: int
    queue_files: int
    queue_entries: int
    filled_entries: int
    ignored_records: int
    index_files: int
    index_entries: int
    damage: list[DamageRange]
    seconds: float

    @property
    def exit_code(self) -> int:
        """2 when the log is damaged, else 0; a torn tail is what any unclean exit leaves."""
        return DAMAGED if any(found.kind != ENDED for found in self.damage) else OK
