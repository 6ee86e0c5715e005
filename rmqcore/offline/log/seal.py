"""A seal of a log's past: a hash of the bytes before an offset, by which a reader knows the log again.

A log that was cut and written anew, or another store in the same place, has other bytes there. Tables that grow, streams and
backups compare the same seal.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

from rmqcore.offline.log.log_files import LogFile

SEAL_BYTES = 64 * 1024
"""A seal covers at most this many bytes before its end, all of them in one file."""


@dataclass(frozen=True)
class Seal:
    """A hash of the bytes before an offset. The same bytes always have the same seal.

    Attributes
    ----------
    end_phy_offset : int
        CommitLog offset where a record, a file or damage ends that was read.
    sha256 : str
        64 hex digits.
    """

    end_phy_offset: int
    sha256: str


def seal_at(files: Sequence[LogFile], end_phy_offset: int) -> Seal | None:
    """Seal the log before an offset; None if the file is missing or shorter, or the disk cannot read it. One read."""
    file = file_before(files, end_phy_offset)
    if file is None:
        return None
    begin = max(0, end_phy_offset - file.file_from_offset - SEAL_BYTES)
    data = bytearray(end_phy_offset - file.file_from_offset - begin)
    unread: list[OSError] = []
    try:
        with (
            file.open(lambda start, end, error: unread.append(error)) as source,
            memoryview(data) as view,
        ):
            got = source.read_into(view, begin)
    except FileNotFoundError:  # cleaned since it was listed
        return None
    if unread or got < len(data):
        return None
    return Seal(end_phy_offset, hashlib.sha256(data).hexdigest())


def file_before(files: Sequence[LogFile], end_phy_offset: int) -> LogFile | None:
    """Return the file that has the byte before an offset; None if no file has it."""
    at = bisect_left(files, end_phy_offset, key=lambda file: file.file_from_offset) - 1
    return files[at] if at >= 0 and end_phy_offset <= files[at].end_offset else None


def broken_seal(files: Sequence[LogFile], seal: Seal) -> str | None:
    """Return why a log is not the one that was sealed, for an error text; None if nothing speaks against it.

    A log whose owner deleted the sealed file has nothing left to compare, nor has one whose disk cannot read it.
    """
    end = seal.end_phy_offset
    if not files:
        return "the log has no files"
    if files[-1].end_offset < end:
        return f"the log ends at {files[-1].end_offset}"
    found = seal_at(files, end)
    if found is None or found == seal:
        return None
    return f"the bytes before {end} changed since they were read"
