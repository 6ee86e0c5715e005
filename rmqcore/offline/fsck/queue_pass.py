"""The check of every record against its ConsumeQueue entry.

A batch of records is put in order of queues; the entries where they should be are read with one read a run, and all
are compared at once as bytes. Only where they differ is a record looked at by itself. A queue keeps the offset up to which its
entries are accounted for; entries for which no record was found are left to `rmqcore.offline.fsck.entries_without_record`.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path

import numpy as np

from rmqcore._native.format.layout import CQ_STORE_UNIT_SIZE
from rmqcore._native.queues.queue_table import is_directory_name
from rmqcore.disk.paths import StorePaths, file_name
from rmqcore.disk.queue_files import BatchTopics
from rmqcore.disk.read_range import left_out
from rmqcore.disk.topics_file import configured_topics
from rmqcore.offline.fsck.entries_without_record import EntryCheck
from rmqcore.offline.fsck.file_kinds import note_unreadable
from rmqcore.offline.fsck.findings import ERROR, Findings
from rmqcore.offline.fsck.log_batch import Int64, LogBatch
from rmqcore.offline.fsck.log_pass import LogAudit
from rmqcore.offline.fsck.mismatched_entries import WrongEntries
from rmqcore.offline.fsck.queue_names import QueueNames
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
from rmqcore.offline.fsck.queue_state import Lost, NoState, QueueState, QueueStates
from rmqcore.offline.fsck.records_without_entry import LateRecords, OtherQueues
from rmqcore.offline.fsck.rocksdb_names import RocksdbNames
from rmqcore.offline.queues.queues import QueueFiles

MOST_RESTARTS = 16
MOST_KEYS = 200_000
"""Queues that are found by the number of their topic, and not by its name."""


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
    names : QueueNames or RocksdbNames
        What was found by name: files that are not looked at, and bytes in all.

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
        names: QueueNames | RocksdbNames,
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
        self._others = OtherQueues(findings, self.lost)
        self._paths = paths
        self.total_bytes = names.total_bytes
        self._states = QueueStates(paths, names)
        self._by_key: dict[int, QueueState | NoState] = {}
        self._numbering = 0
        self._batch_topics = BatchTopics(paths, unreadable=left_out)
        self._configured = configured_topics(paths)
        self._note_holes()

    @property
    def checked(self) -> int:
        """Entries compared with records."""
        return self._compared + self._entry_check.checked

    def _note_holes(self) -> None:
        for state in self._states:
            if state.files is not None and len(state.files.files) > 1:
                self._note_holes_of(state, state.files)

    def _note_holes_of(self, state: QueueState, files: QueueFiles) -> None:
        holes = []
        for one, other in pairwise(files.files):
            end = one.first_offset + one.entry_count
            if end >= other.first_offset:
                continue
            holes.append((end, other.first_offset))
            if one.size >= files.file_size:  # else the file is short, which is a finding of its own
                missing = file_name(end * CQ_STORE_UNIT_SIZE)
                self._findings.add(
                    "cq_hole",
                    ERROR,
                    f"{state.path}/{missing}",
                    f"queue offsets {end} to {other.first_offset - 1} have no file: their messages cannot be fetched",
                    field="file",
                    expected=missing,
                    found="missing",
                )
        state.holes = holes

    # ---- one batch ----------------------------------------------------------------------------------

    def add(self, batch: LogBatch) -> None:
        """Compare a batch of records with their entries."""
        self._batches += 1
        runs = find_runs(batch, self._batch_topics)
        runs, of_runs = self._known(batch, runs)
        if not len(runs.rows):
            return
        entries = self._room.unread(len(runs.rows))
        view = memoryview(entries.view(np.uint8).data)
        offsets = batch.queue_offset[runs.rows[runs.starts]].tolist()
        found = []
        for (_, start, end), offset, state in zip(runs, offsets, of_runs, strict=True):
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

    def _known(self, batch: LogBatch, runs: Runs) -> tuple[Runs, list[QueueState]]:
        """The runs of queues that are remembered now, and the state of each."""
        by_key = self._by_key
        if batch.numbering != self._numbering or len(by_key) > MOST_KEYS:
            self._numbering = batch.numbering
            by_key.clear()
        found = []
        for key in runs.key[runs.starts].tolist():
            state = by_key.get(key)
            if state is None:
                state = self._states.of(batch.topics[key >> 32], queue_id_of(key))
                by_key[key] = state
            found.append(state)
        states = [state for state in found if isinstance(state, QueueState)]
        if len(states) == len(found):
            return runs, states
        for (key, start, end), state in zip(runs, found, strict=True):
            if state is NoState.FORGOTTEN:
                self._add_other(batch, runs.rows[start:end], batch.topics[key >> 32])
        return runs.part([isinstance(state, QueueState) for state in found]), states

    def _add_other(self, batch: LogBatch, rows: Int64, topic: str) -> None:
        deleted = self._may_be_deleted(topic)
        size = int(batch.msg_size[rows].sum(dtype=np.int64))
        self._others.add(len(rows), size, int(batch.phy_offset[rows[0]]), deleted=deleted)
        self._compared += len(rows)

    def _read_run(self, state: QueueState, offset: int, out: memoryview) -> None:
        try:
            behind = state.read(offset, out)
            if behind and self._live and state.refreshed_in != self._batches:
                state.refreshed_in = self._batches
                assert state.files is not None
                state.files.refresh()
                state.read(offset, out)
        except OSError as error:
            what = f"entries from queue offset {offset} on: "
            note_unreadable(state.path, error, self._findings, what)

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

    def _may_be_deleted(self, topic: str) -> bool:
        """Return True if other topics have queues, and neither a directory nor the broker's configuration knows this one."""
        if not self._states.any_queue or self._states.has(topic) or topic in self._configured:
            return False
        return not is_directory_name(topic) or not _has_something(self._paths.consumequeue / topic)

    # ---- the end ------------------------------------------------------------------------------------

    def finish(self, *, growing: bool, unclean: bool) -> None:
        """Judge what is left at the end of the log; with `growing` the end is not known, since records kept coming.

        Where there is no memory for all queues at once the log is walked over once more for each further part of them.
        """
        self._finish_part(growing=growing, unclean=unclean)
        while self._states.has_more:
            self._states.next_part()
            self._by_key.clear()
            self._numbering = 0
            self._note_holes()
            self._entry_check.log_end, self._entry_check.growing = None, False
            for batch in self._log.batches_again():
                self.add(batch)
            self._finish_part(growing=growing, unclean=unclean)
        self._others.log_ends(unclean=unclean)

    def _finish_part(self, *, growing: bool, unclean: bool) -> None:
        self._entry_check.log_end = self._log.log_end
        self._entry_check.growing = growing
        for state in self._states:
            self._entry_check.check_tail(state)
        self.dispatched_end = max(self.dispatched_end, self._entry_check.greatest_end)
        for state in self._states:
            if not state.late:
                continue
            deleted = self._may_be_deleted(state.topic)
            self._late.log_ends(
                state, unclean=unclean, dispatched_end=self.dispatched_end, deleted=deleted
            )


def _has_something(folder: Path) -> bool:
    """Return True if a directory is not empty, or something else lies in its place."""
    try:
        return any(folder.iterdir())
    except FileNotFoundError:
        return False
    except OSError:  # it is no directory, or cannot be listed: another finding
        return True
