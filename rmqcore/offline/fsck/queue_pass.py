"""The check of every record against its ConsumeQueue entry.

A batch of records is put in order of queues; the entries where they should be are read with one read a run, and all
are compared at once as bytes. Only where they differ is a record looked at by itself. A queue keeps the offset up to which its
entries are accounted for; entries for which no record was found are left to `rmqcore.offline.fsck.entries_without_record`.
"""

from __future__ import annotations

from collections.abc import Container, Iterable

import numpy as np

from rmqcore._native.format.layout import CQ_STORE_UNIT_SIZE
from rmqcore.disk.paths import StorePaths, file_name
from rmqcore.disk.queue_files import batch_topics
from rmqcore.offline.fsck.entries_without_record import EntryCheck
from rmqcore.offline.fsck.findings import ERROR, Findings
from rmqcore.offline.fsck.log_batch import LogBatch
from rmqcore.offline.fsck.log_pass import LogAudit
from rmqcore.offline.fsck.mismatched_entries import WrongEntries
from rmqcore.offline.fsck.queue_offset_runs import (
    Compared,
    EntryRoom,
    Runs,
    any_of_each,
    compare,
    find_runs,
    queue_id_of,
    stretches,
)
from rmqcore.offline.fsck.queue_state import Lost, QueueState
from rmqcore.offline.fsck.records_without_entry import LateRecords
from rmqcore.offline.queues.queues import QueueFiles, find_queues

MOST_RESTARTS = 16


class QueueAudit:
    """Compares the log's batches with the queues.

    Parameters
    ----------
    paths : StorePaths
    log : LogAudit
    findings : Findings
    own_levels : bool
        The delay levels are the broker's: a deliver time that differs is an error.
    live : bool
        The store may be in use: new queue files are looked for, and what differs is read twice.
    left_out : collection of str
        Paths of files that are not looked at.

    Attributes
    ----------
    lost : Lost
    dispatched_end : int
        Greatest end of a message that has an entry; -1 without entries.
    """

    def __init__(
        self,
        paths: StorePaths,
        log: LogAudit,
        findings: Findings,
        *,
        own_levels: bool,
        live: bool,
        left_out: Container[str] = (),
    ) -> None:
        self.lost = Lost()
        self.dispatched_end = -1
        self._log = log
        self._findings = findings
        self._live = live
        self._room = EntryRoom()
        self._batches = 0
        self._compared = 0
        self._with_ext = paths.consumequeue_ext.is_dir()
        self._entry_check = EntryCheck(log, findings, self.lost, with_ext=self._with_ext)
        self._wrong = WrongEntries(
            findings, self.lost, self._entry_check, own_levels=own_levels, live=live
        )
        self._late = LateRecords(findings, self.lost, self._entry_check, live=live)
        self._states: dict[tuple[str, int], QueueState] = {}
        self._by_key: dict[int, QueueState] = {}
        for files in find_queues(paths, left_out):
            state = QueueState(files.topic, files.queue_id, files)
            state.next_offset = files.files[0].first_offset if files.files else 0
            self._note_holes(state, files)
            self._states[files.topic, files.queue_id] = state
        self._batch_topics = batch_topics(paths)
        self._topics = {topic for topic, _ in self._states}

    @property
    def checked(self) -> int:
        """Entries compared with records."""
        return self._compared + self._entry_check.checked

    @property
    def total_bytes(self) -> int:
        """Bytes of all queue files."""
        return sum(
            file.size
            for state in self._states.values()
            if state.files
            for file in state.files.files
        )

    def _note_holes(self, state: QueueState, files: QueueFiles) -> None:
        for one, other in zip(files.files, files.files[1:], strict=False):
            end = one.first_offset + one.entry_count
            if end >= other.first_offset:
                continue
            state.holes.append((end, other.first_offset))
            if one.size >= files.file_size:  # else the file is short, which is a finding of its own
                missing = file_name(end * CQ_STORE_UNIT_SIZE)
                self._findings.add(
                    "cq_hole", ERROR, f"{state.path}/{missing}",
                    f"queue offsets {end} to {other.first_offset - 1} have no file: their messages cannot be fetched",
                    field="file", expected=missing, found="missing",
                )  # fmt: skip

    # ---- one batch ----------------------------------------------------------------------------------

    def add(self, batch: LogBatch) -> None:
        """Compare a batch of records with their entries."""
        self._batches += 1
        runs = find_runs(batch, self._batch_topics)
        if not len(runs.rows):
            return
        entries = self._room.unread(len(runs.rows))
        view = memoryview(entries.view(np.uint8).data)
        offsets = batch.queue_offset[runs.rows[runs.starts]].tolist()
        found = []
        for (key, start, end), offset in zip(runs, offsets, strict=True):
            state = self._by_key.get(key)
            if state is None:
                state = self._by_key[key] = self._state(batch.topics[key >> 32], queue_id_of(key))
            if state.files is not None and offset >= 0:
                self._read_run(
                    state, offset, view[start * CQ_STORE_UNIT_SIZE : end * CQ_STORE_UNIT_SIZE]
                )
            found.append((state, offset, offset + end - start))
        reaches = any_of_each(entries["phy_offset"] == batch.phy_offset[runs.rows], runs)
        states = []
        for (state, offset, end_offset), reached in zip(found, reaches, strict=True):
            begins_anew = offset == 0 < state.record_end and state.restarts < MOST_RESTARTS
            states.append((state, begins_anew))
            if begins_anew:  # its topic was deleted, and made again
                state.restarts += 1
                state.next_offset = min(state.next_offset, end_offset)
            elif offset > state.next_offset:
                if not reached:
                    continue  # the queue does not reach so far: lag, or the number is damaged
                self._entry_check.check(state, state.next_offset, offset)
            state.record_end = max(state.record_end, end_offset)
            state.next_offset = max(state.next_offset, end_offset)
        self._compared += len(runs.rows)
        compared = compare(batch, runs.rows, entries, with_ext=self._with_ext)
        present = runs.rows
        if compared is not None:
            self._judge(batch, runs, states, compared)
            present = present[~compared.absent]
        else:
            for state, begins_anew in states:
                self._late.later_has_entry(state, begins_anew=begins_anew)
        if len(present):
            last = int(present.max())
            self.dispatched_end = max(
                self.dispatched_end, int(batch.phy_offset[last]) + int(batch.msg_size[last])
            )

    def _state(self, topic: str, queue_id: int) -> QueueState:
        """The state of a queue; without files when a record is the first to speak of it."""
        return self._states.setdefault((topic, queue_id), QueueState(topic, queue_id, None))

    def _read_run(self, state: QueueState, offset: int, out: memoryview) -> None:
        try:
            behind = state.read(offset, out)
            if behind and self._live and state.refreshed_in != self._batches:
                state.refreshed_in = self._batches
                assert state.files is not None
                state.files.refresh()
                state.read(offset, out)
        except OSError as error:
            self._findings.add(
                "unreadable", ERROR, state.path, f"entries from queue offset {offset} on: {error}", field="bytes",
                expected="readable", found=str(error),
            )  # fmt: skip

    def _judge(
        self,
        batch: LogBatch,
        runs: Runs,
        states: Iterable[tuple[QueueState, bool]],
        compared: Compared,
    ) -> None:
        """Look closer at runs that differ or come after records without an entry."""
        differing = any_of_each(compared.differs, runs)
        with_one = any_of_each(~compared.absent, runs)
        sizes = batch.msg_size[runs.rows].astype(np.int64)
        run_sizes = np.add.reduceat(sizes, runs.starts).tolist()
        phy_offsets = batch.phy_offset[runs.rows[runs.starts]].tolist()
        queue_offsets = batch.queue_offset[runs.rows[runs.starts]].tolist()
        firsts = zip(phy_offsets, queue_offsets, strict=True)
        for (state, begins_anew), (_, start, end), differs, has_one, size, first in zip(
            states, runs, differing, with_one, run_sizes, firsts, strict=True
        ):
            if begins_anew or not differs:
                self._late.later_has_entry(state, begins_anew=begins_anew)
            if not differs:
                continue
            if not has_one:  # each record of a forged log can be a run: no array is made for it
                self._late.add(state, end - start, size, first)
                continue
            absent = compared.absent[start:end]
            tail = int(np.flatnonzero(~absent)[-1]) + 1
            rows, entries = runs.rows[start:end], compared.entries[start:end]
            self._late.later_has_entry(state)
            for part in stretches(np.flatnonzero(absent[:tail])):
                self._late.note_missing(state, batch, rows[part], entries[part[0]])
            wrong = np.flatnonzero(compared.differs[start : start + tail] & ~absent[:tail])
            self._wrong.note(state, batch, rows[wrong], entries[wrong])
            if tail < end - start:
                place = int(batch.phy_offset[rows[tail]]), int(batch.queue_offset[rows[tail]])
                self._late.add(
                    state, end - start - tail, int(sizes[start + tail : end].sum()), place
                )

    # ---- the end ------------------------------------------------------------------------------------

    def finish(self, *, growing: bool, unclean: bool) -> None:
        """Judge what is left at the end of the log; with `growing` the end is not known, since records kept coming."""
        self._entry_check.log_end = self._log.log_end
        self._entry_check.growing = growing
        for state in self._states.values():
            self._entry_check.check_tail(state)
        self.dispatched_end = max(self.dispatched_end, self._entry_check.greatest_end)
        for state in self._states.values():
            deleted = bool(self._topics) and state.topic not in self._topics
            self._late.log_ends(
                state, unclean=unclean, dispatched_end=self.dispatched_end, deleted=deleted
            )
