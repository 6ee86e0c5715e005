"""Records without a queue entry: waiting for dispatch, or lost to their readers."""

from __future__ import annotations

import numpy as np

from rmqcore._native.format.layout import CQ_FILLER_SIZE
from rmqcore.offline.fsck.entries_without_record import EntryCheck
from rmqcore.offline.fsck.findings import ERROR, INFO, WARNING, Findings
from rmqcore.offline.fsck.log_batch import Int64, LogBatch
from rmqcore.offline.fsck.queue_state import Lost, QueueState


class LateRecords:
    """Judges records that have no entry.

    At a queue's end a record may just wait for dispatch: whether it does is known once a later record of the queue has an entry,
    or the log ends.
    """

    def __init__(
        self, findings: Findings, lost: Lost, entry_check: EntryCheck, *, live: bool
    ) -> None:
        self._findings = findings
        self._lost = lost
        self._entry_check = entry_check
        self._live = live

    def add(self, state: QueueState, records: int, size: int, first: tuple[int, int]) -> None:
        """Note records at the queue's end: how many, their bytes, and phy and queue offset of the first."""
        if not state.late:
            state.late_from = first
        state.late += records
        state.late_bytes += size

    def note_missing(self, state: QueueState, batch: LogBatch, rows: Int64, entry: np.void) -> None:
        """Note records that follow each other and have no entries, although later records of the queue have."""
        first = int(batch.queue_offset[rows[0]])
        last = first + len(rows) - 1
        self._lost.add(state, len(rows), _size(batch, rows))
        if state.in_hole(first, last + 1):
            return
        filler = int(entry["msg_size"]) == CQ_FILLER_SIZE
        self._findings.add(
            "cq_missing",
            ERROR,
            state.path,
            f"the records of queue offsets {first} to {last} have {'fillers' if filler else 'nothing'} for entries",
            phy_offset=int(batch.phy_offset[rows[0]]),
            field="entry",
            expected=first,
            found="filler" if filler else "none",
            count=len(rows),
        )

    def later_has_entry(self, state: QueueState, *, begins_anew: bool = False) -> None:
        """Judge the noted records when a later record of the queue has an entry, so that they were not just waiting.

        With `begins_anew` the later record is the first of a queue whose topic was deleted and made again.
        """
        if not state.late:
            return
        if begins_anew:
            self._note(state, WARNING, "the queue was deleted and recreated", lost=True)
            return
        first = state.late_from[1]
        if self._live and state.files is not None:
            entries = state.entries(first, state.late, self._findings)
            if (
                entries is not None
                and len(entries) == state.late
                and (entries["msg_size"] > 0).all()
            ):
                state.late = 0  # dispatch has made the entries by now
                self._entry_check.check(state, first, first + len(entries))
                return
        self._note(state, ERROR, "records after them have", lost=True)

    def log_ends(
        self, state: QueueState, *, unclean: bool, dispatched_end: int, deleted: bool
    ) -> None:
        """Judge the noted records when the log has ended.

        Parameters
        ----------
        unclean : bool
            The store is in use or was not cleanly closed.
        dispatched_end : int
            Greatest end of a message that has an entry in any queue; -1 without entries.
        deleted : bool
            The store has queues, but nothing of this topic.
        """
        if not state.late:
            return
        if unclean and state.late_from[0] >= dispatched_end >= 0:
            self._note(state, INFO, "dispatch had not reached them", lost=False)
        elif unclean:
            self._note(
                state, WARNING, "a broker start recreates those of the last files", lost=False
            )
        elif deleted:
            self._note(
                state, WARNING, "the topic has no queues and may have been deleted", lost=True
            )
        else:
            self._note(state, ERROR, "consumers cannot fetch them", lost=True)

    def _note(self, state: QueueState, severity: str, why: str, *, lost: bool) -> None:
        late, size = state.late, state.late_bytes
        phy_offset, first = state.late_from
        state.late = state.late_bytes = 0
        if lost:
            self._lost.add(state, late, size)
        if state.in_hole(first, first + late):
            return
        self._findings.add(
            "cq_missing",
            severity,
            state.path,
            f"{late} records from queue offset {first} on have no entry: {why}",
            phy_offset=phy_offset,
            field="entry",
            expected=first,
            found="none",
            count=late,
        )


class OtherQueues:
    """Records of queues that have no files, behind so many such queues that nothing is remembered of theirs.

    Parameters
    ----------
    findings : Findings
    lost : Lost
    """

    def __init__(self, findings: Findings, lost: Lost) -> None:
        self._findings = findings
        self._lost = lost
        # Of topics that may have been deleted, and of all others: records, bytes and the phy offset of the first.
        self._found: dict[bool, tuple[int, int, int]] = {}

    def add(self, records: int, size: int, phy_offset: int, *, deleted: bool) -> None:
        """Note records of a queue; `deleted` as of `LateRecords.log_ends`."""
        before = self._found.get(deleted, (0, 0, phy_offset))
        self._found[deleted] = before[0] + records, before[1] + size, before[2]

    def log_ends(self, *, unclean: bool) -> None:
        """Judge the noted records when the log has ended."""
        for deleted, (records, size, phy_offset) in self._found.items():
            why = "consumers cannot fetch them"
            if unclean:
                why = "a broker start recreates those of the last files"
            elif deleted:
                why = "their topics have no queues and may have been deleted"
            if not unclean:
                self._lost.add_other(records, size)
            self._findings.add(
                "cq_missing",
                WARNING if unclean or deleted else ERROR,
                "consumequeue",
                f"{records} records of further queues, which have no files, have no entry: {why}",
                phy_offset=phy_offset,
                field="entry",
                found="none",
                count=records,
            )


def _size(batch: LogBatch, rows: Int64) -> int:
    return int(batch.msg_size[rows].sum(dtype=np.int64))
