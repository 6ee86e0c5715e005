"""Every record against its ConsumeQueue entry.

A batch of records is put in order of queues; the entries where they should be are read with one read a run, and all
are compared at once as bytes. Only where they differ is a record looked at by itself. A queue keeps the offset up to
which its entries are accounted for; what no record came to is left to `rmqcore.offline.fsck_entries`.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from rmqcore import sysflag
from rmqcore._native.cq import CQ_DTYPE, CQ_FILLER_SIZE, CQ_STORE_UNIT_SIZE, pack_cq
from rmqcore.engine.paths import StorePaths, file_name
from rmqcore.offline.findings import ERROR, INFO, WARNING, Findings
from rmqcore.offline.fsck_entries import EXT_ADDRESS_MAX, EntryCheck
from rmqcore.offline.fsck_log import Int64, LogAudit, LogBatch
from rmqcore.offline.fsck_state import Lost, QueueState, read_into
from rmqcore.offline.queues import Entries, QueueFiles, find_queues

SCHEDULE_TOPIC = "SCHEDULE_TOPIC_XXXX"
Flags = npt.NDArray[np.bool_]

UNREAD = 0xFF
"""Bytes for an entry that could not be read: its size and offset are -1, which no entry has."""


class QueueAudit:
    """Compares the log's batches with the queues.

    Attributes
    ----------
    lost : Lost
    checked : int
        Records compared with their entries.
    dispatched_end : int
        Greatest end of a message that has an entry, -1 without any.

    Parameters
    ----------
    paths : StorePaths
    log : LogAudit
    findings : Findings
    own_levels : bool
        The delay levels are the broker's: a deliver time that differs is an error.
    live : bool
        The store may be in use: new queue files are looked for.
    """

    def __init__(self, paths: StorePaths, log: LogAudit, findings: Findings, *, own_levels: bool, live: bool) -> None:
        self.lost = Lost()
        self.live = live
        self.checked = 0
        self.dispatched_end = -1
        self._batches = 0
        self._findings = findings
        self._log = log
        self._own_levels = own_levels
        self._states: dict[tuple[str, int], QueueState] = {}
        self._by_key: dict[int, QueueState] = {}
        self._room = np.empty(0, np.uint8)
        self.entry_check = EntryCheck(log, findings, self.lost)
        for files in find_queues(paths):
            state = QueueState(files.topic, files.queue_id, files)
            if files.files:
                state.next_offset = files.files[0].first_offset
            self._note_holes(state, files)
            self._states[files.topic, files.queue_id] = state
        self.topics = {topic for topic, _ in self._states}

    @property
    def states(self) -> Iterable[QueueState]:
        """All queues, those of directories and those of records."""
        return self._states.values()

    @property
    def total_bytes(self) -> int:
        """Bytes of all queue files."""
        return sum(file.size for state in self.states if state.files for file in state.files.files)

    def state(self, topic: str, queue_id: int) -> QueueState:
        """The state of a queue, made when a record is the first to speak of it."""
        found = self._states.get((topic, queue_id))
        if found is None:
            found = self._states[topic, queue_id] = QueueState(topic, queue_id, None)
        return found

    def _note_holes(self, state: QueueState, files: QueueFiles) -> None:
        for one, other in zip(files.files, files.files[1:], strict=False):
            end = one.first_offset + one.entry_count
            if end >= other.first_offset:
                continue
            state.holes.append((end, other.first_offset))
            if one.size >= files.file_size:  # else the file is short, which is told of its own
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
        kind = batch.sys_flag & sysflag.TRANSACTION_MASK
        with_entry = (kind != sysflag.TRANSACTION_PREPARED) & (kind != sysflag.TRANSACTION_ROLLBACK)
        with_entry &= (batch.sys_flag & sysflag.INNER_BATCH) == 0
        key = (batch.topic_id.astype(np.int64) << 32) | (batch.queue_id.astype(np.int64) & 0xFFFFFFFF)
        rows = _sorted_rows(key, with_entry)
        if not len(rows):
            return
        key = key[rows]
        queue_offset = batch.queue_offset[rows]
        new_run = np.ones(len(rows), bool)
        new_run[1:] = (key[1:] != key[:-1]) | (queue_offset[1:] != queue_offset[:-1] + 1)
        starts = np.flatnonzero(new_run)
        ends = np.append(starts[1:], len(rows))
        if len(self._room) < len(rows) * CQ_STORE_UNIT_SIZE:
            self._room = np.empty(len(rows) * CQ_STORE_UNIT_SIZE, np.uint8)
        found = self._room[: len(rows) * CQ_STORE_UNIT_SIZE]
        found[:] = UNREAD
        view = memoryview(found.data)
        states = []
        for run_key, start, end, offset in zip(
            key[starts].tolist(), starts.tolist(), ends.tolist(), queue_offset[starts].tolist(), strict=True
        ):
            state = self._by_key.get(run_key)
            if state is None:
                queue_id = run_key & 0xFFFFFFFF
                queue_id -= (queue_id & 0x80000000) << 1
                state = self._by_key[run_key] = self.state(batch.topics[run_key >> 32], queue_id)
            states.append(state)
            if offset > state.next_offset and offset <= state.end_of_files:
                self.entry_check.check(state, state.next_offset, offset)
            if offset <= state.end_of_files:  # else the number is damaged, or dispatch has not come so far
                state.next_offset = max(state.next_offset, offset + end - start)
            self._read_run(state, offset, view[start * CQ_STORE_UNIT_SIZE : end * CQ_STORE_UNIT_SIZE])
        packed = pack_cq(batch.phy_offset[rows], batch.msg_size[rows], batch.tags_code[rows])
        expected = np.frombuffer(packed, np.uint8)
        self.checked += len(rows)
        if any(state.late for state in states) or not np.array_equal(found, expected):
            runs = zip(states, starts.tolist(), ends.tolist(), strict=True)
            differs = (found != expected).reshape(len(rows), -1).any(1)
            present = rows[self._compare_runs(batch, rows, runs, found.view(CQ_DTYPE), differs)]
        else:
            present = rows
        if len(present):
            last = int(present.max())
            self.dispatched_end = max(self.dispatched_end, int(batch.phy_offset[last]) + int(batch.msg_size[last]))

    def _compare_runs(
        self, batch: LogBatch, rows: Int64, runs: Iterable[tuple[QueueState, int, int]], found: Entries, differs: Flags
    ) -> Flags:
        """Look closer at runs that differ or come after records without an entry; answer which records have one."""
        same_place = (found["phy_offset"] == batch.phy_offset[rows]) & (found["msg_size"] == batch.msg_size[rows])
        differs &= ~(same_place & (found["tags_code"] <= EXT_ADDRESS_MAX))
        absent = found["phy_offset"] == -1
        absent |= (found["phy_offset"] == 0) & np.isin(found["msg_size"], (0, CQ_FILLER_SIZE))
        absent &= differs
        for state, start, end in runs:
            present = np.flatnonzero(~absent[start:end])
            tail = start + int(present[-1]) + 1 if len(present) else start
            if tail > start:
                self.end_lateness(state)
                for part in _stretches(np.flatnonzero(absent[start:tail]) + start):
                    self._missing(state, batch, rows[part], found[part[0]])
                wrong = np.flatnonzero(differs[start:tail] & ~absent[start:tail]) + start
                self._entries_differ(state, batch, rows[wrong], found[wrong])
            self._late(state, batch, rows[tail:end])
        has_entry: Flags = ~absent
        return has_entry

    # ---- single records -----------------------------------------------------------------------------

    def _late(self, state: QueueState, batch: LogBatch, rows: Int64) -> None:
        """Records at the queue's end without an entry: judged once it is known whether any follows that has one."""
        if not len(rows):
            return
        if not state.late:
            state.late_from = (int(batch.phy_offset[rows[0]]), int(batch.queue_offset[rows[0]]))
        state.late += len(rows)
        state.late_bytes += int(batch.msg_size[rows].sum(dtype=np.int64))

    def end_lateness(self, state: QueueState) -> None:
        """A later record of the queue has an entry, so those without were not just waiting for dispatch."""
        if not state.late:
            return
        late, size = state.late, state.late_bytes
        phy_offset, first = state.late_from
        state.late = state.late_bytes = 0
        if self.live and state.files is not None:
            there = state.files.entries(first, late)["msg_size"] > 0
            if len(there) == late and there.all():  # dispatch was on its way
                self.entry_check.check(state, first, first + late)
                return
        self.lost.add(state, late, size)
        if state.in_hole(first, first + late):
            return
        self._findings.add(
            "cq_missing", ERROR, state.path,
            f"{late} records from queue offset {first} on have no entry, records after them have",
            phy_offset=phy_offset, field="entry", expected=first, found="none", count=late,
        )  # fmt: skip

    def finish(self, *, growing: bool, unclean: bool) -> None:
        """Judge what is left when the log has ended; `growing`: it did not, there was no end to wait for."""
        self.entry_check.log_end = self._log.log_end
        self.entry_check.growing = growing
        for state in self._states.values():
            self.entry_check.check_tail(state)
            if state.late:
                self._judge_late(state, unclean=unclean)
        self.dispatched_end = max(self.dispatched_end, self.entry_check.greatest_end)

    def _judge_late(self, state: QueueState, *, unclean: bool) -> None:
        phy_offset, first = state.late_from
        message = f"{state.late} records from queue offset {first} on have no entry: "
        if unclean and phy_offset >= self.dispatched_end >= 0:
            severity, why = INFO, "dispatch had not come to them"
        elif unclean:
            severity, why = WARNING, "a broker start makes those of the last files anew"
        elif state.topic not in self.topics and self.topics:
            severity, why = WARNING, "the topic has no queues, it may have been deleted"
        else:
            severity, why = ERROR, "they cannot be fetched"
        if not unclean:
            self.lost.add(state, state.late, state.late_bytes)
        self._findings.add(
            "cq_missing", severity, state.path, message + why, phy_offset=phy_offset, field="entry", expected=first,
            found="none", count=state.late,
        )  # fmt: skip

    def _missing(self, state: QueueState, batch: LogBatch, rows: Int64, entry: np.void) -> None:
        """Records that follow each other in a queue, without entries although later ones have them."""
        first = int(batch.queue_offset[rows[0]])
        last = first + len(rows) - 1
        self.lost.add(state, len(rows), int(batch.msg_size[rows].sum(dtype=np.int64)))
        if state.in_hole(first, last + 1):
            return
        filler = int(entry["msg_size"]) == CQ_FILLER_SIZE
        self._findings.add(
            "cq_missing", ERROR, state.path,
            f"the records of queue offsets {first} to {last} have {'fillers' if filler else 'nothing'} for entries",
            phy_offset=int(batch.phy_offset[rows[0]]), field="entry", expected=first,
            found="filler" if filler else "none", count=len(rows),
        )  # fmt: skip

    def _entries_differ(self, state: QueueState, batch: LogBatch, rows: Int64, entries: Entries) -> None:
        """Entries that are not what the records at their queue offsets ask for."""
        closer = min(self._findings.room("cq_entry") + 1, len(rows))
        for row, entry in zip(rows[:closer].tolist(), entries[:closer], strict=True):
            self._entry_differs(state, batch, row, entry)
        if closer < len(rows):
            self._findings.add("cq_entry", ERROR, state.path, "more entries differ", count=len(rows) - closer)

    def _entry_differs(self, state: QueueState, batch: LogBatch, row: int, entry: np.void) -> None:
        wanted = {name: int(getattr(batch, name)[row]) for name in ("phy_offset", "msg_size", "tags_code")}
        name = next(name for name in wanted if wanted[name] != int(entry[name]))
        found, queue_offset = int(entry[name]), int(batch.queue_offset[row])
        if self.live and state.files is not None:
            again = state.files.entries(queue_offset, 1)
            if len(again) and again[0].tolist() == tuple(wanted.values()):
                return  # it was being written
        severity = ERROR
        message = f"queue offset {queue_offset}: {name} is {found}, its record has {wanted[name]}"
        if name == "phy_offset":
            self.lost.add(state, 1, wanted["msg_size"])
            message += self.entry_check.target(found)
        elif self._may_be_other_levels(state, found, int(batch.store_timestamp_ms[row])):
            severity = WARNING
            message += "; the broker's messageDelayLevel may not be the default"
        self._findings.add(
            "cq_entry", severity, state.path, message, phy_offset=wanted["phy_offset"], field=name,
            expected=wanted[name], found=found,
        )  # fmt: skip

    def _may_be_other_levels(self, state: QueueState, tags_code: int, store_timestamp_ms: int) -> bool:
        return state.topic == SCHEDULE_TOPIC and not self._own_levels and tags_code >= store_timestamp_ms

    def _read_run(self, state: QueueState, offset: int, out: memoryview) -> None:
        """Read entries from queue offset `offset` on; what is not there is left as it is."""
        done, count = 0, len(out) // CQ_STORE_UNIT_SIZE
        while state.files is not None and done < count:
            file = state.files.file_of(offset + done)
            if file is None:
                following = [one.first_offset for one in state.files.files if one.first_offset > offset + done]
                if not following and self.live and state.refreshed_in != self._batches:
                    state.refreshed_in = self._batches
                    state.files.refresh()
                    continue
                if not following:
                    return
                done = min(following) - offset
                continue
            place = offset + done - file.first_offset
            part = out[done * CQ_STORE_UNIT_SIZE :][: (file.entry_count - place) * CQ_STORE_UNIT_SIZE]
            try:
                read_into(file.path, part, place * CQ_STORE_UNIT_SIZE)
            except FileNotFoundError:  # the cleaner was faster
                return
            done += len(part) // CQ_STORE_UNIT_SIZE


def _sorted_rows(key: Int64, with_entry: Flags) -> Int64:
    """Rows with an entry by queue, within a queue in log order."""
    if with_entry.all():
        rows = None
    else:
        rows = np.flatnonzero(with_entry)
        key = key[rows]
    if not len(key):
        return np.empty(0, np.int64)
    topics, queues = key >> 32, key & 0xFFFFFFFF
    wide = int(queues.max()) + 1
    if (int(topics.max()) + 1) * wide <= 1 << 16:
        # NumPy sorts 16-bit numbers by radix, ten times faster.
        key = (topics * wide + queues).astype(np.uint16)
    order = np.argsort(key, kind="stable")
    return order if rows is None else rows[order]


def _stretches(places: Int64) -> list[Int64]:
    """Split ascending numbers where one is left out."""
    return [part for part in np.split(places, np.flatnonzero(np.diff(places) > 1) + 1) if len(part)]
