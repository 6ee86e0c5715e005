"""Where a store ended at one moment, so that all readers with this pin read the same part of a growing store.

Full files of a log do not change. So a pin is small: where the log began, and where it ended in each file that its
owner may still have been writing to, usually one and the file that was allocated ahead.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import PurePosixPath
from typing import Any

from rmqcore.offline.log.damage import DamageRange, damage_of_fields
from rmqcore.offline.log.log_files import LogFile, LogShape


@dataclass(frozen=True)
class FileEnd:
    """Where the log ended in a file.

    Attributes
    ----------
    file_from_offset, size : int
        First offset and size of the file; the file may be larger now.
    end_phy_offset : int
        Where a walk over the whole file ended: behind its last record, and behind all damage that a sound record follows.
    rest : tuple of DamageRange
        The damage from there on: a torn tail, the end of a short file.
    """

    file_from_offset: int
    size: int
    end_phy_offset: int
    rest: tuple[DamageRange, ...] = ()


@dataclass(frozen=True)
class StorePin:
    """Where the log of a store began and ended.

    Attributes
    ----------
    first_phy_offset : int
        Start of its first file.
    shape : LogShape
    log_end : int
        Behind the last sound record.
    ends : tuple of FileEnd
        For the file in which the log ended and those behind it, by offset; empty if the log had no file.
    """

    first_phy_offset: int
    shape: LogShape
    log_end: int
    ends: tuple[FileEnd, ...]

    @property
    def walked_end(self) -> int:
        """Behind the last sound record, and behind all damage there."""
        rest = (damage.end_phy_offset for end in self.ends for damage in end.rest)
        return max(self.log_end, *rest, 0)

    def end_in(self, file: LogFile) -> FileEnd | None:
        """Return where the log ended in a file; None for a file that was full."""
        return next(
            (end for end in self.ends if end.file_from_offset == file.file_from_offset), None
        )

    def files(self, listed: list[LogFile]) -> list[LogFile]:
        """Return the present files that existed then, with their sizes of then."""
        kept: list[LogFile] = []
        for file in listed:
            end = self.end_in(file)
            if end is not None:
                kept.append(replace(file, size=end.size))
            elif self.first_phy_offset <= file.file_from_offset < self.shape.tail_from:
                kept.append(file)
        return kept

    def missing(self, kept: list[LogFile], log: str) -> list[DamageRange]:
        """Return what `files` lacks at the beginning and the end of the log, deleted since. `log` is the log's directory.

        A hole between two files is found without a pin.
        """
        first, last = self.first_phy_offset, -1
        lost: list[tuple[int, int]] = []
        if kept:
            lost.append((first, kept[0].file_from_offset))
            last = kept[-1].file_from_offset
            first = last + self.shape.file_size
        ends = [end.end_phy_offset for end in self.ends if end.file_from_offset > last]
        lost.append((first, max(ends, default=0)))
        return [_deleted(log, start, end) for start, end in lost if start < end]


def _deleted(log: str, start: int, end: int) -> DamageRange:
    name = f"{PurePosixPath(log).name}/{start:020}"
    return DamageRange(
        start, end, "missing_file", name, "file", name, "deleted since it was listed"
    )


def pins_text(pins: Mapping[str, StorePin]) -> str:
    """Write pins, by broker, as the text of an option."""
    return json.dumps({broker: asdict(pin) for broker, pin in pins.items()})


def parse_pins(text: str) -> tuple[tuple[str, StorePin], ...]:
    """Parse a text made by `pins_text`; raise ValueError for other texts."""
    try:
        return tuple((broker, _pin(fields)) for broker, fields in json.loads(text).items())
    except (AttributeError, KeyError, TypeError, ValueError):
        raise ValueError("pins as rmqcore.spark.optimize writes them") from None


def _pin(fields: dict[str, Any]) -> StorePin:
    ends = (
        FileEnd(**{**end, "rest": tuple(map(damage_of_fields, end["rest"]))})
        for end in fields["ends"]
    )
    return StorePin(**{**fields, "shape": LogShape(**fields["shape"]), "ends": tuple(ends)})
