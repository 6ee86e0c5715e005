"""Report of a rebuild, and its default output directory."""

from __future__ import annotations

from dataclasses import dataclass, field

from rmqcore.disk.misnamed import Misnamed
from rmqcore.disk.set_aside import SetAside
from rmqcore.errors.exit_codes import DAMAGED, OK
from rmqcore.offline.log.damage import DamageRange
from rmqcore.shown.report import Report

FOLDER = "rebuilt"
"""The folder in a store that is used when no other is named; brokers do not look at it."""
ENDED = "torn_tail"


@dataclass(frozen=True)
class RebuildReport(Report):
    """Queues and index files built by a rebuild.

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
    set_aside : list of SetAside
        Those of them that are in no queue; the first 100 ranges.
    index_files, index_entries : int
    damage : list of DamageRange
        Damage of the log.
    seconds : float
    misnamed : list of Misnamed
        Entries of the store's queues that the new ones lack, because their records name another place; at most 1,000.
    idle_queues : int
        Queues whose messages have all left the log: their ends were kept.
    dropped_entries : int
        Entries of the store's old folders that the new ones do not have, if these took their place.
    kept : tuple of str
        Names in the store's root of old folders that know more than the new ones and were kept.
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
    set_aside: list[SetAside] = field(default_factory=list)
    misnamed: list[Misnamed] = field(default_factory=list)
    idle_queues: int = 0
    dropped_entries: int = 0
    kept: tuple[str, ...] = ()

    @property
    def exit_code(self) -> int:
        """2 if the log is damaged, records are in no queue or name another place, or entries were dropped, else 0.

        A torn tail does not count: any unclean exit leaves one.
        """
        damaged = any(found.kind != ENDED for found in self.damage)
        odd = self.set_aside or self.misnamed or self.dropped_entries
        return DAMAGED if damaged or odd else OK
