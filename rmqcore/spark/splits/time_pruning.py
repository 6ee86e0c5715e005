"""Choice of files by time, from the first records of a few files.

A store timestamp is the broker's clock when it appended the record, so timestamps ascend along the log unless the clock
is set back. The store does not record by how much; the caller states the largest step. Then of two records in the order
of the log the later timestamp is at least the earlier one minus that step, and a file's first record bounds the files
on either side of it.
"""

from __future__ import annotations

import struct
from bisect import bisect_left

from rmqcore._native.format.layout import (
    MAGIC_V1,
    MAGIC_V2,
    REC_MAGIC,
    REC_PHYSICALOFFSET,
    REC_STORETIMESTAMP_MAX_END,
    REC_SYSFLAG,
    store_timestamp_pos,
)
from rmqcore.offline.log.log_files import LogFile


def files_in_time(
    files: list[LogFile], since_ms: int | None, until_ms: int | None, max_clock_step_ms: int
) -> list[LogFile]:
    """Return the files that may hold a record stored in [since_ms, until_ms); `files` are sorted by offset.

    A file is left out only if two files agree, which keeps one file more at either end than the rule needs: so a
    damaged header loses no record. Reads about log2(number of files) headers.
    """
    times: dict[int, int | None] = {}

    def first_time(number: int) -> int | None:
        if number not in times:
            times[number] = first_store_timestamp(files[number])
        return times[number]

    def begins_late(number: int) -> bool:
        """Return True if all records from this file on were stored at or after the end."""
        found = first_time(number)
        return found is not None and until_ms is not None and found - max_clock_step_ms >= until_ms

    def begins_early(number: int) -> bool:
        """Return True if all records before this file were stored before the beginning."""
        found = first_time(number)
        return found is not None and since_ms is not None and found + max_clock_step_ms < since_ms

    # The result of a bisection is tested again: timestamps need not ascend exactly.
    numbers = range(len(files))
    begin, end = 0, len(files)
    late = bisect_left(numbers, True, key=begins_late)
    if late + 1 < len(files) and begins_late(late) and begins_late(late + 1):
        end = late + 1
    early = bisect_left(numbers, True, key=lambda number: not begins_early(number)) - 1
    if early > 0 and begins_early(early) and begins_early(early - 1):
        begin = early - 1
    return files[begin:end]


def first_store_timestamp(file: LogFile) -> int | None:
    """Return the store timestamp of the record at a file's beginning; None without a record there, or if it is unreadable."""
    header = bytearray(REC_STORETIMESTAMP_MAX_END)
    bad: list[OSError] = []
    try:
        with file.open(lambda start, end, error: bad.append(error)) as source:
            got = source.read_into(memoryview(header), 0)
    except OSError:
        return None
    if bad or got < len(header):
        return None
    (magic,) = struct.unpack_from(">i", header, REC_MAGIC)
    (phy_offset,) = struct.unpack_from(">q", header, REC_PHYSICALOFFSET)
    (sys_flag,) = struct.unpack_from(">i", header, REC_SYSFLAG)
    if magic not in (MAGIC_V1, MAGIC_V2) or phy_offset != file.file_from_offset:
        return None
    (store_timestamp_ms,) = struct.unpack_from(">q", header, store_timestamp_pos(sys_flag))
    return int(store_timestamp_ms)
