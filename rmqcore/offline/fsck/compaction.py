"""Compacted queues (``compaction/``): names and sizes of their files, and each entry against its record.

They are not compared with the CommitLog: it may have deleted the messages that these files keep.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from rmqcore._native.format import codec
from rmqcore._native.format.codec import MessageView
from rmqcore._native.scan import places
from rmqcore._native.scan.places import Place
from rmqcore.disk.config_files import what_is_wrong
from rmqcore.disk.paths import StorePaths, is_utf8, parse_file_name, parse_queue_id
from rmqcore.disk.read_range import left_out
from rmqcore.disk.store_kinds import COMPACTED, COMPACTED_ENTRIES
from rmqcore.errors import is_unreadable
from rmqcore.offline.fsck.file_kinds import list_folder, note_kind, note_unreadable
from rmqcore.offline.fsck.findings import ERROR, WARNING, Findings
from rmqcore.offline.log.log_files import LogBytes, LogFile
from rmqcore.offline.log.long_record import LongRecords, without_body
from rmqcore.offline.log.window import SearchWindow
from rmqcore.offline.queues.batch_queue import AT_ONCE, UNIT_SIZE, BatchFile, sound_entries
from rmqcore.offline.queues.compacted_queue import CompactedQueue, each_compacted_queue
from rmqcore.vocabulary.units import INT_MAX

CHECKPOINT = "compaction/position-checkpoint"
MOST_BAD = 10_000
"""Entries of a queue that become findings; the entries behind them are not checked."""
MOST_FILES = 100_000
"""Files of the logs that are compared with each other by size, and files of a queue that are compared by name."""
ROOM = 1 << 16
"""Bytes of a log that are read at once."""
Wrong = tuple[str, object, object]
"""A field of an entry, what is expected and what was found."""


# ---- names and sizes --------------------------------------------------------------------------------


class _File(NamedTuple):
    path: str
    size: int


def check_compaction_files(paths: StorePaths, findings: Findings) -> None:
    """Check names and sizes of the files of all compacted queues; only directories are listed, and one small file is read."""
    logs: list[_File] = []
    all_entries: list[_File] = []
    for _ in _queue_folders(paths.compaction_entries, COMPACTED_ENTRIES, findings):
        pass  # each link in it is a finding
    for folder, path in _queue_folders(paths.compaction_log, COMPACTED, findings):
        entries = paths.compaction_entries / folder.parent.name / folder.name
        entries_path = f"{COMPACTED_ENTRIES}/{folder.parent.name}/{folder.name}"
        if any(one.is_symlink() for one in (entries.parent.parent, entries.parent, entries)):
            continue  # a finding of their own
        if not entries.is_dir():
            _note_missing(entries_path, f"RocketMQ does not read {path} without it", findings)
            continue
        of_log, of_entries = _files(folder, path, findings), _files(entries, entries_path, findings)
        if of_log.keys() != of_entries.keys():  # a broker may be making a file, or replacing some
            quiet = Findings(0)
            of_log, of_entries = _files(folder, path, quiet), _files(entries, entries_path, quiet)
        for here, there, place in (
            (of_log, of_entries, entries_path),
            (of_entries, of_log, path),
        ):
            for name in sorted(here.keys() - there.keys()):
                why = f"{here[name].path} has no other half; RocketMQ refuses to start"
                _note_missing(f"{place}/{name}", why, findings)
        logs += list(of_log.values())[: max(0, MOST_FILES - len(logs))]
        all_entries += list(of_entries.values())[: max(0, MOST_FILES - len(all_entries))]
    _check_sizes(logs, 1, findings)
    _check_sizes(all_entries, UNIT_SIZE, findings)
    problem = what_is_wrong(paths, CHECKPOINT)
    if problem is not None:
        findings.add(
            "compaction_file",
            WARNING,
            CHECKPOINT,
            f"{problem}; RocketMQ compacts the files again from the first one",
            field="file",
            expected="a JSON object",
            found=problem,
        )


def _check_sizes(files: list[_File], unit: int, findings: Findings) -> None:
    """Compare sizes: each file should have the one that most have."""
    sizes = Counter(file.size for file in files)
    usual = max(sizes, key=lambda size: (sizes[size], size), default=0)
    for file in files:
        if file.size > INT_MAX or file.size % unit:
            _note_size(file, f"at most {INT_MAX}, a multiple of {unit}", findings)
        elif file.size != usual:
            _note_size(file, usual, findings)


def _queue_folders(root: Path, path: str, findings: Findings) -> Iterator[tuple[Path, str]]:
    if root.is_symlink():
        note_kind(root, path, root.lstat().st_mode, findings)
        return
    for topic in list_folder(root, path, findings):
        if not topic.is_directory or not is_utf8(topic.name):
            continue
        for queue in list_folder(root / topic.name, f"{path}/{topic.name}", findings):
            if queue.is_directory and parse_queue_id(queue.name) is not None:
                place = f"{topic.name}/{queue.name}"
                yield root / place, f"{path}/{place}"


def _files(folder: Path, path: str, findings: Findings) -> dict[str, _File]:
    """Files of a queue by name; RocketMQ's own directories of an unfinished compaction are left out."""
    found: dict[str, _File] = {}
    for file in list_folder(folder, path, findings):
        if file.is_directory:
            continue
        if parse_file_name(file.name) is None:
            findings.add(
                "compaction_file",
                ERROR,
                f"{path}/{file.name}",
                "the name is not an offset; RocketMQ refuses to start",
                field="file name",
                expected="20 digits",
                found=file.name,
            )
        elif len(found) < MOST_FILES:
            found[file.name] = _File(f"{path}/{file.name}", file.size)
    return found


def _note_missing(path: str, why: str, findings: Findings) -> None:
    findings.add(
        "compaction_file",
        ERROR,
        path,
        f"missing: {why}",
        field="file",
        expected="present",
        found="missing",
    )


def _note_size(file: _File, expected: object, findings: Findings) -> None:
    findings.add(
        "compaction_file",
        ERROR,
        file.path,
        f"the file's size is {file.size}, expected {expected}; RocketMQ does not read the queue",
        field="file size",
        expected=expected,
        found=file.size,
    )


# ---- entries and records ----------------------------------------------------------------------------


def check_compacted_entries(paths: StorePaths, findings: Findings) -> int:
    """Compare each entry with its record, and return how many were looked at."""
    checked = 0
    for queue in each_compacted_queue(paths, left_out):
        check = _QueueCheck(queue, findings)
        try:
            check.run()
        except FileNotFoundError:
            continue  # a compaction replaced the queue's files
        except OSError as error:
            if not is_unreadable(error):
                raise
            note_unreadable(queue.entries_place, error, findings)
        checked += check.checked
    return checked


class _QueueCheck:
    """The check of one queue."""

    def __init__(self, queue: CompactedQueue, findings: Findings) -> None:
        self.checked = 0
        self._queue = queue
        self._findings = findings
        self._bad = 0
        self._next_offset = 0
        self._next_place = 0

    def run(self) -> None:
        entries = {Path(file.path).name: file for file in self._queue.entries.batch_files}
        for log in self._queue.log_files:
            file = entries.get(log.path.name)
            self._next_place = log.file_from_offset
            with log.open(self._note_unreadable) as source:
                records = _Records(log, source)
                if file is not None:
                    self._check_file(file, log, records)
                if self._bad >= MOST_BAD:
                    return
                self._check_behind(log, records)

    def _check_file(self, file: BatchFile, log: LogFile, records: _Records) -> None:
        for begin in range(0, file.count, AT_ONCE):
            entries = file.read(begin, min(AT_ONCE, file.count - begin))
            for entry, sound in zip(entries, sound_entries(entries).tolist(), strict=True):
                self.checked += 1
                wrong = self._difference(entry, log, records) if sound else _unsound(entry)
                if wrong is None:
                    self._next_offset = int(entry["base_offset"]) + 1
                    self._next_place = int(entry["phy_offset"]) + int(entry["msg_size"])
                    continue
                self._note(entry, wrong)
                if self._bad >= MOST_BAD:
                    return

    def _difference(self, entry: np.void, log: LogFile, records: _Records) -> Wrong | None:
        """The first field in which an entry differs from its record or from its place; None when all agree."""
        base, place = int(entry["base_offset"]), int(entry["phy_offset"])
        if base < self._next_offset:
            return "base_offset", f"{self._next_offset} or more", base
        if not self._next_place <= place < log.end_offset:
            return "phy_offset", f"{self._next_place} to {log.end_offset - 1}", place
        found = records.look(place)
        if found.code == places.BODYCRC:
            return found.describe()
        if found.code <= 0:
            return "phy_offset", "the start of a record", place
        view = records.record(found)
        own = {
            "msg_size": view.msg_size,
            "base_offset": view.queue_offset,
            "batch_size": 1,
            "store_ms": view.store_timestamp_ms,
            "tags_code": view.tags_code,
        }
        queue = self._queue
        if (view.topic, view.queue_id) != (queue.topic, queue.queue_id):
            return "phy_offset", f"a record of {queue.topic} {queue.queue_id}", place
        field = next((name for name in own if own[name] != int(entry[name])), None)
        return None if field is None else (field, own[field], int(entry[field]))

    def _check_behind(self, log: LogFile, records: _Records) -> None:
        """Look for a record behind the last entry's: RocketMQ does not read it."""
        if self._next_place >= log.end_offset:
            return
        found = records.look(self._next_place)
        if found.code <= 0 and found.code != places.BODYCRC:
            return
        if (
            self._last_offset_now(log.path.name) < self._next_offset
        ):  # else a broker has appended since
            self._findings.add(
                "compaction_entry",
                WARNING,
                f"{self._queue.place}/{log.path.name}",
                f"the record at {self._next_place} has no entry; RocketMQ overwrites it",
                field="entry",
                expected="an entry for each record",
                found="missing",
            )

    def _last_offset_now(self, name: str) -> int:
        """Queue offset of the last entry that a file has by now; -1 without one."""
        entries = self._queue.entries
        entries.refresh()
        now = zip(entries.batch_files, entries.last_offsets, strict=True)
        return next((offset for file, offset in now if Path(file.path).name == name), -1)

    def _note(self, entry: np.void, wrong: Wrong) -> None:
        field, expected, found = wrong
        self._bad += 1
        place, base = int(entry["phy_offset"]), int(entry["base_offset"])
        self._findings.add(
            "compaction_entry",
            ERROR,
            self._queue.entries_place,
            f"queue offset {base}, byte {place} of {self._queue.place}: {field} is {found}, expected {expected}",
            field=field,
            expected=expected,
            found=found,
        )

    def _note_unreadable(self, start: int, end: int, error: OSError) -> None:
        note_unreadable(self._queue.place, error, self._findings, f"bytes {start} to {end}: ")


class _Records:
    """Records of a log's file; of a very long one the body is not brought in."""

    def __init__(self, log: LogFile, source: LogBytes) -> None:
        self._log = log
        self._source = source
        self._window = SearchWindow(source, log.size, room=ROOM, long_records=LongRecords())

    def look(self, place: int) -> Place:
        """What lies at a byte of the log."""
        return self._window.step(place - self._log.file_from_offset)

    def record(self, found: Place) -> MessageView:
        """The record that `look` has found."""
        window, own = self._window, memoryview(b"")
        if window.is_long(found.size):
            own = without_body(self._source.peek_into, found.pos, found.size, 0)
        else:
            begin = found.pos - window.start
            own = memoryview(bytes(window.buf[begin : begin + found.size]))
        view: MessageView = codec.decode_with_levels(own, 0, None)
        return view


def _unsound(entry: np.void) -> Wrong:
    """The field for which a broker does not take an entry for one."""
    for field, least in (("phy_offset", 0), ("msg_size", 1), ("base_offset", 0)):
        if int(entry[field]) < least:
            return field, f"{least} or more", int(entry[field])
    return "batch_size", 1, int(entry["batch_size"])
