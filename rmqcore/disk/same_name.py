"""Error for two files of one name in two directories of a log: the bytes that differ, and the file to move away."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from rmqcore.disk.read_range import read_range
from rmqcore.errors import LogFileTwiceError

Read = Callable[[int, int], bytes]
"""Reads a number of bytes of a file from a position on; fewer at its end."""
STEP = 1 << 20


def file_twice(one: str, other: str) -> LogFileTwiceError:
    """Return the error for a log file that lies in two directories of this machine."""
    return compared(one, partial(read_range, one), other, partial(read_range, other))


def compared(one: str, read_one: Read, other: str, read_other: Read) -> LogFileTwiceError:
    """Return the error for two files of the same name; it names the one to move away.

    Both are read up to the first byte that differs, and from there on the one that has only zeros behind it.
    """
    return LogFileTwiceError(
        f"{one} and {other} have the same name, but each file of the log may only be in one "
        f"directory: {_what_differs(one, read_one, other, read_other)}"
    )


def _what_differs(one: str, read_one: Read, other: str, read_other: Read) -> str:
    place = _first_difference(read_one, read_other)
    if place is None:
        return f"their bytes are equal, so move {other} away"
    is_end = [_is_zero_from(place, read) for read in (read_one, read_other)]
    if is_end == [True, False]:
        return (
            f"they are equal up to byte {place}, where {one} ends and {other} has more, so move "
            f"{one} away"
        )
    if is_end == [False, True]:
        return (
            f"they are equal up to byte {place}, where {other} ends and {one} has more, so move "
            f"{other} away"
        )
    return f"they differ from byte {place}, so move the one away that the broker did not write"


def _first_difference(read_one: Read, read_other: Read) -> int | None:
    """Return the first position at which two files differ or one ends; None if they are equal."""
    begin = 0
    a, b = read_one(0, STEP), read_other(0, STEP)
    while a == b and len(a) == STEP:
        begin += STEP
        a, b = read_one(begin, STEP), read_other(begin, STEP)
    if a == b:
        return None
    both = min(len(a), len(b))
    return begin + next((at for at in range(both) if a[at] != b[at]), both)


def _is_zero_from(place: int, read: Read) -> bool:
    """Return True if a file has only zeros from a position on."""
    data = read(place, STEP)
    while data and not data.strip(b"\0"):
        place += len(data)
        data = read(place, STEP)
    return not data
