"""Queue entries that are not what the records at their queue offsets ask for."""

from __future__ import annotations

import numpy as np

from rmqcore._native.format.layout import CQ_FILLER_SIZE
from rmqcore.disk.queue_shape import may_be_deliver_times
from rmqcore.offline.fsck.entries_without_record import EntryCheck
from rmqcore.offline.fsck.findings import ERROR, WARNING, Findings
from rmqcore.offline.fsck.log_batch import Int64, LogBatch
from rmqcore.offline.fsck.queue_state import Lost, QueueState
from rmqcore.offline.queues.queues import Entries
from rmqcore.vocabulary.topics import SCHEDULE_TOPIC

COLUMNS = ("phy_offset", "msg_size", "tags_code")
FIRST_ENTRIES = 50_000
"""Entries of a queue's first file among which its first message is looked for."""


class WrongEntries:
    """Judges each such entry: what is wrong, and whether it has an innocent reason.

    Parameters
    ----------
    findings : Findings
    lost : Lost
    entry_check : EntryCheck
    own_levels : bool
        The delay levels are the broker's: a deliver time that differs is an error.
    live : bool
        The store may be in use: what differs is read again.
    """

    def __init__(
        self,
        findings: Findings,
        lost: Lost,
        entry_check: EntryCheck,
        *,
        own_levels: bool,
        live: bool,
    ) -> None:
        self._findings = findings
        self._lost = lost
        self._entry_check = entry_check
        self._own_levels = own_levels
        self._live = live

    def note(self, state: QueueState, batch: LogBatch, rows: Int64, entries: Entries) -> None:
        """Note entries that are not what the records at their queue offsets ask for."""
        closer = min(self._findings.room("cq_entry") + 1, len(rows))
        for row, entry in zip(rows[:closer].tolist(), entries[:closer], strict=True):
            self._note_one(state, batch, row, entry)
        if closer < len(rows):
            # One finding for the rest: a queue that was deleted and made again has many such entries, all of one sort.
            self._note_one(state, batch, int(rows[-1]), entries[-1], count=len(rows) - closer)

    def _note_one(
        self, state: QueueState, batch: LogBatch, row: int, entry: np.void, *, count: int = 1
    ) -> None:
        wanted = {name: int(getattr(batch, name)[row]) for name in COLUMNS}
        queue_offset = int(batch.queue_offset[row])
        if self._live and state.files is not None:
            again = state.entries(queue_offset, 1, self._findings)
            if again is not None and len(again) and again[0].tolist() == tuple(wanted.values()):
                return  # it was being written
        name = next(name for name in wanted if wanted[name] != int(entry[name]))
        found = int(entry[name])
        kind, severity = "cq_entry", ERROR
        message = f"queue offset {queue_offset}: {name} is {found}, its record has {wanted[name]}"
        if name == "phy_offset":
            self._lost.add(state, count, wanted["msg_size"] * count)
            message += self._entry_check.target(found)
            if self._entry_check.fits(state, queue_offset, entry):
                kind = "cq_missing"
                if self._was_made_again(state, wanted[name]):
                    severity = WARNING
                    message += ": the queue was deleted and recreated"
                else:
                    message += ": two records have this queue offset, and this one is in no queue"
        elif name == "tags_code" and self._may_be_other_levels(
            state, np.array([wanted[name], found]), batch.store_timestamp_ms[row]
        ):
            severity = WARNING
            message += "; the broker's messageDelayLevel may differ from the default"
        self._findings.add(
            kind,
            severity,
            state.path,
            message,
            phy_offset=wanted["phy_offset"],
            field=name,
            expected=wanted[name],
            found=found,
            count=count,
        )

    def _was_made_again(self, state: QueueState, phy_offset: int) -> bool:
        """Return True if a queue begins behind a record: its topic was deleted after that, and made again."""
        first = state.files.files[0] if state.files is not None and state.files.files else None
        if first is None:
            return False
        count = min(first.entry_count, FIRST_ENTRIES)
        entries = state.entries(first.first_offset, count, self._findings)
        if entries is None:
            return False
        used = (entries["msg_size"] > 0) & (entries["msg_size"] != CQ_FILLER_SIZE)
        return bool(used.any() and int(entries["phy_offset"][used][0]) > phy_offset)

    def _may_be_other_levels(
        self, state: QueueState, tags_codes: Int64, store_timestamp_ms: Int64
    ) -> bool:
        return (
            state.topic == SCHEDULE_TOPIC
            and not self._own_levels
            and bool(may_be_deliver_times(tags_codes, store_timestamp_ms).all())
        )
