"""ConsumeQueue entries that no record came to: each must be a filler, expired, or point at its record.

These are entries before the log's first record, behind its last one, of damaged records, and all of light queues
(``%LMQ%...``), whose records belong to other topics. A light queue's offsets have no gaps, so an entry lost in its
middle shows as one that does not fit; lost at its end it does not show.
"""

from __future__ import annotations

import numpy as np

from rmqcore._native.codec import MessageView
from rmqcore._native.cq import CQ_FILLER_SIZE, valid_prefix
from rmqcore.offline.findings import ERROR, WARNING, Findings
from rmqcore.offline.fsck_log import Int64, LogAudit
from rmqcore.offline.fsck_state import Lost, QueueState
from rmqcore.offline.queues import Entries

CHUNK_ENTRIES = 50_000
MOST_BAD = 10_000
EXT_ADDRESS_MAX = -2147483649
"""A tags code up to here is an address in the ConsumeQueueExt."""


class EntryCheck:
    """Looks at entries one by one, those that need no look at once.

    Attributes
    ----------
    log_end : int or None
        Where the log ends, once that is known: what points there or behind has no record.
    growing : bool
        The log's end is not known after all: entries that point behind it are ordinary.
    greatest_end : int
        The greatest end of a message that entries behind the log's end tell of.
    checked : int
        Entries looked at.
    """

    def __init__(self, log: LogAudit, findings: Findings, lost: Lost) -> None:
        self.log_end: int | None = None
        self.growing = False
        self.greatest_end = -1
        self.checked = 0
        self._log = log
        self._findings = findings
        self._lost = lost
        self._bad = 0

    def check(self, state: QueueState, start: int, stop: int) -> None:
        """Check the entries of queue offsets [start, stop), before one that a record has come to."""
        while state.files is not None and start < stop:
            entries = state.files.entries(start, min(CHUNK_ENTRIES, stop - start))
            if len(entries):
                self._check_entries(state, start, entries)
                start += len(entries)
            else:
                start = _next_file(state, start, stop)

    def check_tail(self, state: QueueState) -> None:
        """Check the entries behind the last one that a record has come to."""
        start = state.next_offset
        while state.files is not None:
            entries = state.files.entries(start, CHUNK_ENTRIES)
            used = valid_prefix(entries.tobytes()) if len(entries) else 0
            if used:
                self._check_entries(state, start, entries[:used])
            start += used
            if used < len(entries):
                self._check_behind(state, start, entries[used:])
            if used < len(entries) or not len(entries):
                following = _next_file(state, start, -1)
                if following < 0:
                    state.next_offset = start
                    return
                start = following

    def _check_behind(self, state: QueueState, start: int, entries: Entries) -> None:
        """Behind the first invalid entry a broker sees nothing; usually there are zeros."""
        used = np.flatnonzero(entries.view(np.uint8).reshape(len(entries), -1).any(axis=1))
        if len(used):
            entry = entries[used[0]]
            self._findings.add(
                "cq_entry", WARNING, state.path,
                f"the queue ends at queue offset {start}, but bytes lie behind; a broker start writes over them",
                field="msg_size", expected=0, found=int(entry["msg_size"]),
            )  # fmt: skip

    def _check_entries(self, state: QueueState, first: int, entries: Entries) -> None:
        self.checked += len(entries)
        phy_offset = entries["phy_offset"].astype(np.int64)
        size = entries["msg_size"].astype(np.int64)
        offsets = np.arange(first, first + len(entries))
        filler = (phy_offset == 0) & (size == CQ_FILLER_SIZE) & (entries["tags_code"] == 0)
        invalid = (phy_offset < 0) | (size <= 0)
        self._note_many(state, offsets[invalid], "is no entry", size[invalid])
        assert state.files is not None
        in_first_file = offsets < state.files.files[0].first_offset + state.files.files[0].entry_count
        self._note_many(state, offsets[filler & ~in_first_file], "is a filler", size[filler & ~in_first_file])
        rest = ~invalid & ~filler & (phy_offset >= self._log.log_min)
        end = self._log.files[-1].end_offset if self._log.files else 0
        beyond = rest & (phy_offset >= (end if self.log_end is None else self.log_end))
        if beyond.any():
            self._note_beyond(state, offsets[beyond], phy_offset[beyond], size[beyond])
        for at in np.flatnonzero(rest & ~beyond).tolist():
            if self._bad >= MOST_BAD:
                left = np.flatnonzero(rest & ~beyond) >= at
                self._findings.add("cq_entry", ERROR, state.path, "more entries, not looked at", count=int(left.sum()))
                return
            self._look(state, int(offsets[at]), entries[at])

    def _note_many(self, state: QueueState, offsets: Int64, what: str, sizes: Int64) -> None:
        if len(offsets):
            self._findings.add(
                "cq_entry", ERROR, state.path, f"queue offset {offsets[0]} {what}, and so are {len(offsets) - 1} more",
                field="msg_size", expected="the size of a record", found=int(sizes[0]), count=len(offsets),
            )  # fmt: skip

    def _note_beyond(self, state: QueueState, offsets: Int64, phy_offsets: Int64, sizes: Int64) -> None:
        if self.growing:
            return
        self.greatest_end = max(self.greatest_end, int((phy_offsets + sizes).max()))
        self._lost.add(state, len(offsets), int(sizes.sum()))
        self._findings.add(
            "cq_beyond", ERROR, state.path,
            f"{len(offsets)} entries from queue offset {offsets[0]} on point at or past the log's end",
            phy_offset=int(phy_offsets[0]), field="phy_offset",
            expected=None if self.log_end is None else f"less than {self.log_end}", found=int(phy_offsets[0]),
            count=len(offsets),
        )  # fmt: skip

    # ---- one entry ----------------------------------------------------------------------------------

    def _look(self, state: QueueState, queue_offset: int, entry: np.void) -> None:
        phy_offset, size, tags_code = int(entry["phy_offset"]), int(entry["msg_size"]), int(entry["tags_code"])
        view = self._log.record(phy_offset, size)
        if view is None and self._log.in_damage(np.array([phy_offset]))[0]:
            self._lost.add(state, 1, size)  # the damage itself is a finding
            return
        field, expected, found = "phy_offset", "the start of a record", str(phy_offset)
        if view is not None:
            wanted = _wanted(view, state, queue_offset)
            actual = {
                "topic": state.topic, "queue_id": state.queue_id, "queue_offset": queue_offset, "msg_size": size,
                "tags_code": wanted["tags_code"] if tags_code <= EXT_ADDRESS_MAX else tags_code,
            }  # fmt: skip
            differing = [name for name in actual if actual[name] != wanted[name]]
            if not differing:
                return
            field = differing[0]
            expected, found = str(wanted[field]), str(actual[field])
        self._bad += 1
        self._lost.add(state, 1, size)
        self._findings.add(
            "cq_entry", ERROR, state.path,
            f"queue offset {queue_offset} points at {phy_offset}{self.target(phy_offset)}",
            phy_offset=phy_offset, field=field, expected=expected, found=found,
        )  # fmt: skip

    def target(self, phy_offset: int) -> str:
        """What lies where an entry points, as the end of a sentence."""
        if self._log.files and not self._log.log_min <= phy_offset < self._log.files[-1].end_offset:
            return " (outside the log)"
        view = self._log.record(phy_offset)
        if view is None:
            return " (no record starts there)"
        return f" (a record of {view.topic} queue {view.queue_id} offset {view.queue_offset}, {view.msg_size} bytes)"


def _wanted(view: MessageView, state: QueueState, queue_offset: int) -> dict[str, object]:
    """What an entry for a record must be found as; in a light queue the record lists it among its others."""
    wanted: dict[str, object] = {
        "topic": view.topic, "queue_id": view.queue_id, "queue_offset": view.queue_offset, "msg_size": view.msg_size,
        "tags_code": view.tags_code,
    }  # fmt: skip
    if state.topic == view.topic and state.queue_id == view.queue_id:
        return wanted
    names = view.properties.get("INNER_MULTI_DISPATCH", "").split(",")
    offsets = view.properties.get("INNER_MULTI_QUEUE_OFFSET", "").split(",")
    if state.queue_id == 0 and len(names) == len(offsets):
        for name, offset in zip(names, offsets, strict=True):
            if name == state.topic:
                own = int(offset) if offset.isascii() and offset.isdigit() else queue_offset
                return wanted | {"topic": name, "queue_id": 0, "queue_offset": own}
    return wanted


def _next_file(state: QueueState, offset: int, otherwise: int) -> int:
    """The first queue offset of the next file behind an offset."""
    assert state.files is not None
    return min((file.first_offset for file in state.files.files if file.first_offset > offset), default=otherwise)
