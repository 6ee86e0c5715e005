"""Queues of batches (``batchconsumequeue/``) against the log: each entry leads to its record, and each record has an entry."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np

from rmqcore._native.format.codec import MessageView
from rmqcore.disk.paths import StorePaths
from rmqcore.disk.queue_files import BatchTopics
from rmqcore.disk.read_range import left_out
from rmqcore.offline.fsck.file_kinds import note_unreadable
from rmqcore.offline.fsck.findings import ERROR, WARNING, Findings
from rmqcore.offline.fsck.log_batch import LogBatch
from rmqcore.offline.fsck.log_pass import LogAudit
from rmqcore.offline.queues.batch_queue import UNIT_SIZE, BatchFile, BatchQueue, sound_entries
from rmqcore.offline.queues.queues import each_batch_queue
from rmqcore.vocabulary.sysflag import has_queue_entry

MOST_BAD = 10_000
"""Entries of a queue that become findings; the entries behind them are not checked."""
MOST_QUEUES = 100_000
"""Queues whose records are counted."""
INNER_NUM = "INNER_NUM"


class BatchAudit:
    """Counts the records of batch topics while the log is read, and looks at the entries at its end.

    Parameters
    ----------
    paths : StorePaths
    log : LogAudit
    findings : Findings

    Attributes
    ----------
    checked : int
        Entries looked at.
    """

    def __init__(self, paths: StorePaths, log: LogAudit, findings: Findings) -> None:
        self.checked = 0
        self._paths = paths
        self._log = log
        self._findings = findings
        self._topics = BatchTopics(paths, unreadable=left_out)
        self._records: Counter[tuple[str, int]] = Counter()

    def add(self, batch: LogBatch) -> None:
        """Count the records of a part of the log."""
        if not self._topics:
            return
        numbers = [number for number, topic in enumerate(batch.topics) if topic in self._topics]
        rows = np.flatnonzero(np.isin(batch.topic_id, numbers) & has_queue_entry(batch.sys_flag))
        queues = zip(batch.topic_id[rows].tolist(), batch.queue_id[rows].tolist(), strict=True)
        for (number, queue_id), count in Counter(queues).items():
            place = batch.topics[number], queue_id
            if place in self._records or len(self._records) < MOST_QUEUES:
                self._records[place] += count

    def finish(self, *, unclean: bool) -> None:
        """Look at all entries. With `unclean` records at the end may wait for dispatch."""
        for queue in each_batch_queue(self._paths, left_out):
            path = f"batchconsumequeue/{queue.topic}/{queue.queue_id}"
            try:
                found = self._check(queue, path)
            except OSError as error:
                note_unreadable(path, error, self._findings)
                continue
            missing = self._records.pop((queue.topic, queue.queue_id), 0) - found
            if missing > 0:
                self._note_missing(path, missing, unclean=unclean)
        for (topic, queue_id), missing in self._records.items():
            self._note_missing(f"batchconsumequeue/{topic}/{queue_id}", missing, unclean=unclean)

    def _note_missing(self, path: str, missing: int, *, unclean: bool) -> None:
        self._findings.add(
            "cq_missing",
            WARNING if unclean else ERROR,
            path,
            f"{missing} records have no entry",
            field="entry",
            expected="an entry for each record",
            found="none",
            count=missing,
        )

    def _check(self, queue: BatchQueue, path: str) -> int:
        """Look at a queue; answer how many entries lead to their records."""
        found = bad = 0
        next_offset = -1
        for file in queue.batch_files:
            self._check_length(file, path)
            for begin in range(0, file.count, 4096):
                entries = file.read(begin, 4096)
                for entry, sound in zip(entries, sound_entries(entries).tolist(), strict=True):
                    self.checked += 1
                    base, size = int(entry["base_offset"]), int(entry["batch_size"])
                    wrong = (
                        self._difference(queue, entry)
                        if sound
                        else ("batch_size", "1 or more", size)
                    )
                    if wrong is None and base < next_offset:
                        wrong = "base_offset", f"{next_offset} or more", base
                    if wrong is None:
                        next_offset = base + size
                        found += 1
                        continue
                    if wrong[0] == "expired":
                        continue
                    bad += 1
                    self._note(path, base, entry, wrong)
                    if bad >= MOST_BAD:
                        return found
        return found

    def _check_length(self, file: BatchFile, path: str) -> None:
        if file.size % UNIT_SIZE:
            self._findings.add(
                "cq_file_size",
                ERROR,
                f"{path}/{Path(file.path).name}",
                f"the file's size {file.size} is not a whole number of entries of {UNIT_SIZE} bytes",
                field="file size",
                expected=f"a multiple of {UNIT_SIZE}",
                found=file.size,
            )

    def _note(
        self, path: str, base: int, entry: np.void, wrong: tuple[str, object, object]
    ) -> None:
        field, expected, found = wrong
        self._findings.add(
            "cq_entry",
            ERROR,
            path,
            f"base offset {base}: {field} is {found}, expected {expected}",
            phy_offset=int(entry["phy_offset"]),
            field=field,
            expected=expected,
            found=found,
        )

    def _difference(self, queue: BatchQueue, entry: np.void) -> tuple[str, object, object] | None:
        """The first field in which an entry differs from its record, with expected and found; None when all agree."""
        phy_offset, size = int(entry["phy_offset"]), int(entry["msg_size"])
        if phy_offset < self._log.log_min:
            return "expired", None, None
        view = self._log.record(phy_offset, size)
        if view is None:
            if self._log.damage.holds(np.array([phy_offset]))[0]:
                return "expired", None, None  # the damage itself is a finding
            return "phy_offset", "the start of a record", phy_offset
        own = {
            "topic": view.topic,
            "queue_id": view.queue_id,
            "msg_size": view.msg_size,
            "base_offset": view.queue_offset,
            "batch_size": _messages_of(view),
            "store_ms": view.store_timestamp_ms,
        }
        place = {"topic": queue.topic, "queue_id": queue.queue_id}
        place |= {name: int(entry[name]) for name in own if name not in place}
        field = next((name for name in own if own[name] != place[name]), None)
        return None if field is None else (field, own[field], place[field])


def _messages_of(view: MessageView) -> int:
    """How many messages a record has."""
    text = view.properties.get(INNER_NUM, "1")
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 5 else 1
