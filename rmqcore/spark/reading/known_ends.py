"""Ends of newest files that this process has found, reused until something is appended.

A broker writes through a mapping, which does not always change the time of a file: the page may be dirty already. So a
known end is valid while the file is the same, of the same size and time, and two places in it hold the same bytes: the
header of the last record, and the place behind that record, where a new one would begin. An end with other bytes behind
it, for example a record that is being written, is not kept.
"""

from __future__ import annotations

import os
import threading
import time
from dataclasses import dataclass

from rmqcore._native.format.layout import (
    MAGIC_BLANK,
    REC_MAGIC,
    REC_MIN_SIZE_V1,
    REC_PHYSICALOFFSET,
)
from rmqcore.offline.log.log_files import LogFile, LogShape
from rmqcore.spark.splits.sizing import Sizing
from rmqcore.spark.storage.store_pin import FileEnd

MOST = 10_000
"""The most ends that a process keeps; each takes at most a kilobyte."""

SETTLED_NS = 2_000_000_000
"""A file written less than this time ago may be written again without a change of its time."""

Status = tuple[int, int, int, int]
_MAGIC = slice(REC_MAGIC, REC_MAGIC + 4)
_SIZE = slice(0, 4)
_PLACE = slice(REC_PHYSICALOFFSET, REC_PHYSICALOFFSET + 8)
_BLANK = MAGIC_BLANK.to_bytes(4, "big", signed=True)


@dataclass(frozen=True)
class KnownEnd:
    """Where the log ends in a file, as a search found it.

    Attributes
    ----------
    end : FileEnd
    last_phy_offset, log_end : int or None
        CommitLog offsets of the last sound record and behind it; None if the file has no record.
    """

    end: FileEnd
    last_phy_offset: int | None = None
    log_end: int | None = None


@dataclass(frozen=True)
class _Signs:
    """The signs that show whether something was appended to a file."""

    status: Status
    behind: bytes
    last_header: bytes

    def prove(self, found: KnownEnd) -> bool:
        """Return True if the last record still starts where it was found, with zeros or a BLANK behind it."""
        if self.behind.strip(b"\0") and self.behind[_MAGIC] != _BLANK:
            return False
        if found.last_phy_offset is None or found.log_end is None:
            return found.end.end_phy_offset == found.end.file_from_offset
        size, place = self.last_header[_SIZE], self.last_header[_PLACE]
        return (
            found.log_end == found.end.end_phy_offset
            and int.from_bytes(size, "big") == found.log_end - found.last_phy_offset
            and int.from_bytes(place, "big") == found.last_phy_offset
        )


class KnownEnds:
    """Ends of files on local disks, by path; safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[tuple[object, ...], tuple[_Signs, KnownEnd]] = {}

    def find(self, file: LogFile, shape: LogShape, sizing: Sizing) -> KnownEnd | None:
        """Return the end that `keep` stored for the file, if it is still valid; else None."""
        with self._lock:
            known = self._known.get(_key(file, shape, sizing))
        if known is None or _signs(file, known[1]) != known[0]:
            return None
        return known[1]

    def keep(
        self,
        file: LogFile,
        shape: LogShape,
        sizing: Sizing,
        found: KnownEnd,
        before: Status | None,
    ) -> None:
        """Keep an end; `before` is the `file_status` before the search for it."""
        if found.end.rest or before is None or time.time_ns() - before[3] < SETTLED_NS:
            return
        signs = _signs(file, found)
        if signs is None or signs.status != before or not signs.prove(found):
            return
        with self._lock:
            self._known.pop(_key(file, shape, sizing), None)
            while len(self._known) >= MOST:
                del self._known[next(iter(self._known))]
            self._known[_key(file, shape, sizing)] = signs, found


def file_status(file: LogFile) -> Status | None:
    """Return device, inode, size and time (nanoseconds) of a file; None if it is not on a local disk, or is missing."""
    if type(file) is not LogFile:
        return None
    try:
        found = os.stat(file.path)
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def _key(file: LogFile, shape: LogShape, sizing: Sizing) -> tuple[object, ...]:
    return file, shape, sizing.split_mode == "walk", sizing.max_record_size


def _signs(file: LogFile, found: KnownEnd) -> _Signs | None:
    now = file_status(file)
    if now is None:
        return None
    base = file.file_from_offset
    try:
        behind = file.read_range(found.end.end_phy_offset - base, REC_MIN_SIZE_V1)
        last = b""
        if found.last_phy_offset is not None:
            last = file.read_range(found.last_phy_offset - base, REC_MIN_SIZE_V1)
    except OSError:
        return None
    return _Signs(now, behind, last)
