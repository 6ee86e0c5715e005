"""ConsumeQueue entries for which the log gave no record: each must be a filler, expired, or point at its record.

They are the entries before the log's first record, behind its last one, of damaged records, and all of light queues
(``%LMQ%...``), whose records belong to other topics. Fillers may lie in a queue's first file, and before an entry that has a
record: the log lacks those messages. An entry of a light queue that was lost at its end does not show.
"""

from __future__ import annotations

import numpy as np

from rmqcore._native.format.codec import MessageView
from rmqcore._native.format.cq import valid_prefix
from rmqcore._native.format.layout import CQ_FILLER_SIZE
from rmqcore.offline.fsck.findings import ERROR, WARNING, Findings
from rmqcore.offline.fsck.log_batch import Int64
from rmqcore.offline.fsck.log_pass import LogAudit
from rmqcore.offline.fsck.queue_offset_runs import EXT_ADDRESS_MAX
from rmqcore.offline.fsck.queue_state import Lost, QueueState
from rmqcore.offline.queues.queues import Entries
from rmqcore.offline.queues.wrong_entries import in_light_queue
from rmqcore.vocabulary.sysflag import has_queue_entry

CHUNK_ENTRIES = 50_000
FIRST_ENTRIES = 256
"""The first read behind a queue's end: thousands of queues usually have nothing there."""

MOST_BAD = 10_000

NOT_SERVED = "a transaction that is prepared or rolled back, which has no queue entry"

MOST_IN_DAMAGE = 100_000
"""So many entries that point into damage are looked up; of all others it is taken for granted that no record starts there."""


class EntryCheck:
    """Looks at entries one by one, except those that can be judged a chunk at a time.

    Attributes
    ----------
    log_end : int or None
        Where the log ends, once that is known: an entry that points there or behind has no record.
    growing : bool
        The log's end is not known after all: entries that point behind it are ordinary.
    greatest_end : int
        The greatest end of a message that entries behind the log's end tell of.
    checked : int
        Entries looked at.
    """

    def __init__(self, log: LogAudit, findings: Findings, lost: Lost, *, with_ext: bool) -> None:
        self.log_end: int | None = None
        self.growing = False
        self.greatest_end = -1
        self.checked = 0
        self._log = log
        self._findings = findings
        self._lost = lost
        self._with_ext = with_ext
        self._bad = 0
        self._in_damage = 0

    def check(self, state: QueueState, start: int, stop: int) -> None:
        """Check the entries of queue offsets [start, stop), which lie before an entry whose record was found."""
        while state.files is not None and start < stop:
            entries = state.entries(start, min(CHUNK_ENTRIES, stop - start), self._findings)
            if entries is None:
                return
            if len(entries):
                self._check_entries(state, start, entries, fillers=True)
                start += len(entries)
            else:
                start = state.next_file(start) or stop

    def check_tail(self, state: QueueState) -> None:
        """Check the entries behind the last entry whose record was found."""
        start: int | None = state.next_offset
        count = FIRST_ENTRIES
        while state.files is not None and start is not None:
            entries = state.entries(start, count, self._findings)
            count = CHUNK_ENTRIES
            if entries is None:
                return
            used = valid_prefix(entries.tobytes())
            if used:
                self._check_entries(state, start, entries[:used])
            start += used
            if used < len(entries):
                self._check_behind(state, start, entries[used:])
            if used < len(entries) or not len(entries):
                start = state.next_file(start)

    def _check_behind(self, state: QueueState, start: int, entries: Entries) -> None:
        """Look behind the first invalid entry, where a broker sees nothing; usually zeros are there."""
        if entries.view(np.uint8).any():
            entry = entries[entries["msg_size"].argmax()]
            self._findings.add(
                "cq_entry",
                WARNING,
                state.path,
                f"the queue ends at queue offset {start}, but bytes lie behind; a broker start writes over them",
                field="msg_size",
                expected=0,
                found=int(entry["msg_size"]),
            )

    def _check_entries(
        self, state: QueueState, first: int, entries: Entries, *, fillers: bool = False
    ) -> None:
        self.checked += len(entries)
        phy_offset = entries["phy_offset"].astype(np.int64)
        size = entries["msg_size"].astype(np.int64)
        offsets = np.arange(first, first + len(entries))
        filler = (phy_offset == 0) & (size == CQ_FILLER_SIZE) & (entries["tags_code"] == 0)
        invalid = (phy_offset < 0) | (size <= 0)
        self._note_many(state, offsets[invalid], "is no entry", size[invalid])
        assert state.files is not None
        first_file = state.files.files[0]
        odd = filler & (offsets >= first_file.first_offset + first_file.entry_count)
        if not fillers:
            self._note_many(state, offsets[odd], "is a filler", size[odd])
        rest = ~invalid & ~filler & (phy_offset >= self._log.log_min)
        end = self._log.files[-1].end_offset if self._log.files else 0
        beyond = rest & (phy_offset >= (end if self.log_end is None else self.log_end))
        if beyond.any():
            self._note_beyond(state, offsets[beyond], phy_offset[beyond], size[beyond])
        wanted = rest & ~beyond
        if self._in_damage >= MOST_IN_DAMAGE:
            damaged = wanted & self._log.damage.holds(phy_offset)
            self._lost.add(state, int(damaged.sum()), int(size[damaged].sum()))
            wanted &= ~damaged
        for at in np.flatnonzero(wanted).tolist():
            if self._bad >= MOST_BAD:
                message = (
                    f"entries from queue offset {offsets[at]} on were not checked: too many were "
                    "wrong"
                )
                self._findings.add("cq_entry", WARNING, state.path, message)
                return
            self._look(state, int(offsets[at]), entries[at])

    def _note_many(self, state: QueueState, offsets: Int64, what: str, sizes: Int64) -> None:
        if len(offsets):
            self._findings.add(
                "cq_entry",
                ERROR,
                state.path,
                f"queue offset {offsets[0]} {what}, and so are {len(offsets) - 1} more",
                field="msg_size",
                expected="the size of a record",
                found=int(sizes[0]),
                count=len(offsets),
            )

    def _note_beyond(
        self, state: QueueState, offsets: Int64, phy_offsets: Int64, sizes: Int64
    ) -> None:
        if self.growing:
            return
        self.greatest_end = max(self.greatest_end, int((phy_offsets + sizes).max()))
        self._lost.add(state, len(offsets), int(sizes.sum()))
        self._findings.add(
            "cq_beyond",
            ERROR,
            state.path,
            f"{len(offsets)} entries from queue offset {offsets[0]} on point at or past the log's end",
            phy_offset=int(phy_offsets[0]),
            field="phy_offset",
            expected=None if self.log_end is None else f"less than {self.log_end}",
            found=int(phy_offsets[0]),
            count=len(offsets),
        )

    # ---- one entry ----------------------------------------------------------------------------------

    def _look(self, state: QueueState, queue_offset: int, entry: np.void) -> None:
        phy_offset, size = int(entry["phy_offset"]), int(entry["msg_size"])
        view = self._log.record(phy_offset, size)
        field, expected, found = "phy_offset", "the start of a record", str(phy_offset)
        if view is not None:
            differing = self._difference(view, state, queue_offset, entry)
            if differing is None:
                return
            field, expected, found = differing
        elif self._log.has_expired(phy_offset):
            return
        self._lost.add(state, 1, size)
        if view is None and self._log.damage.holds(np.array([phy_offset]))[0]:
            self._in_damage += 1
            return  # the damage itself is a finding
        self._bad += 1
        self._findings.add(
            "cq_entry",
            ERROR,
            state.path,
            f"queue offset {queue_offset} points at {phy_offset}{self.target(phy_offset)}",
            phy_offset=phy_offset,
            field=field,
            expected=expected,
            found=found,
        )

    def fits(self, state: QueueState, queue_offset: int, entry: np.void) -> bool:
        """Return True if an entry points at a record that belongs there."""
        view = self._log.record(int(entry["phy_offset"]), int(entry["msg_size"]))
        return view is not None and self._difference(view, state, queue_offset, entry) is None

    def target(self, phy_offset: int) -> str:
        """Return what an entry points to, as the end of a sentence."""
        if self._log.file_of(phy_offset) is None:
            return " (outside the log)"
        view = self._log.record(phy_offset)
        if view is None:
            return " (no record starts there)"
        return f" (a record of {view.topic} queue {view.queue_id} offset {view.queue_offset}, {view.msg_size} bytes)"

    def _difference(
        self, view: MessageView, state: QueueState, queue_offset: int, entry: np.void
    ) -> tuple[str, str, str] | None:
        """The first field in which an entry differs from its record, with expected and found; None when all agree."""
        own = {"topic": view.topic, "queue_id": view.queue_id, "queue_offset": view.queue_offset}
        place = {"topic": state.topic, "queue_id": state.queue_id, "queue_offset": queue_offset}
        if own != place and in_light_queue(view, state.topic, state.queue_id, queue_offset):
            own = place
        own |= {"msg_size": view.msg_size, "tags_code": view.tags_code}
        place |= {"msg_size": int(entry["msg_size"]), "tags_code": int(entry["tags_code"])}
        if self._with_ext and int(entry["tags_code"]) <= EXT_ADDRESS_MAX:
            place["tags_code"] = view.tags_code
        field = next((name for name in own if own[name] != place[name]), None)
        if field is None and not has_queue_entry(view.sys_flag):
            return "sys_flag", "a message for consumers", f"{view.sys_flag}: {NOT_SERVED}"
        return None if field is None else (field, str(own[field]), str(place[field]))
