"""Report of a salvage."""

from __future__ import annotations

from dataclasses import dataclass

from rmqcore.disk.misnamed import Misnamed
from rmqcore.disk.set_aside import SetAside
from rmqcore.errors.exit_codes import DAMAGED, OK
from rmqcore.maintenance.salvage.other_parts import ConfigProblem
from rmqcore.maintenance.salvage.queue_loss import MissingMessages
from rmqcore.offline.fsck.findings import Finding
from rmqcore.offline.log.damage import DamageRange
from rmqcore.shown.report import Report


@dataclass(frozen=True)
class SalvageReport(Report):
    """Messages saved and lost by a salvage.

    Attributes
    ----------
    path, out : str
        The damaged store, and the new one.
    messages, message_bytes : int
        Records in the new log, each at the physical offset where it lay.
    moved_messages : int
        Records that lie elsewhere: the first one of each file of a DLedger log moves by 48 bytes.
    lost : list of DamageRange
        Ranges of physical offsets that hold no sound record, with what was wrong; the first 100,000 one by one.
    lost_bytes : int
        Bytes in them.
    torn_tail_bytes : int
        Bytes of an incomplete record behind the last one: an unclean exit leaves them, and they do not count as a loss.
    missing : list of MissingMessages
        Queue offsets whose messages are not in the log; the first 100,000 ranges.
    missing_messages : int
        How many messages these are, with those of further ranges.
    missing_complete : bool
        Whether all queues could be looked at.
    unserved : list of MissingMessages
        Messages of the new store in front of a hole that a broker does not reach by queue offset, only by id and key; the first
        100,000 ranges.
    set_aside : list of SetAside
        Records that no queue takes: they are in the new log, and can be looked up by id and key.
    set_aside_messages : int
    misnamed : list of Misnamed
        Entries of the old queues whose records name another place, which they have in the new store; at most 1,000.
    batch_queue_problems : list of Finding
        What is wrong with the queues of batches, which were copied as they are; at most 1,000 of a kind.
    queues, queue_entries, index_files, index_entries : int
        What was made anew.
    idle_queues : int
        Queues whose messages have all left the log: their ends were kept.
    copied : tuple of str
        Names in the store's root that were copied as they are.
    left_behind : tuple of str
        Names in the store's root that were not copied.
    config_problems : list of ConfigProblem
        Files of ``config/`` that are torn.
    seconds : float
    """

    path: str
    out: str
    messages: int
    message_bytes: int
    moved_messages: int
    lost: list[DamageRange]
    lost_bytes: int
    torn_tail_bytes: int
    missing: list[MissingMessages]
    missing_messages: int
    missing_complete: bool
    unserved: list[MissingMessages]
    set_aside: list[SetAside]
    set_aside_messages: int
    misnamed: list[Misnamed]
    batch_queue_problems: list[Finding]
    queues: int
    queue_entries: int
    idle_queues: int
    index_files: int
    index_entries: int
    copied: tuple[str, ...]
    left_behind: tuple[str, ...]
    config_problems: list[ConfigProblem]
    seconds: float

    @property
    def exit_code(self) -> int:
        """2 when something is lost, else 0."""
        moved = self.set_aside or self.misnamed
        problems = self.config_problems or self.batch_queue_problems
        return DAMAGED if self.lost or self.missing or moved or problems else OK
