"""How far a table has a store's log, and whether the log is still the one that it was.

The watermark says up to which CommitLog offset all records are in the table. Its seal is a hash of the log's bytes before: a log
that was cut and written anew, or another store in the same place, has others.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Self

from rmqcore.errors import StoreFormatError, WatermarkError
from rmqcore.offline.log.log_files import LogFile

SEAL_BYTES = 64 * 1024
"""A seal covers so many bytes before its end, as far as they lie in one file."""


@dataclass(frozen=True)
class Seal:
    """A hash of the bytes before an offset.

    Attributes
    ----------
    end_phy_offset : int
        Where records or damage ended that were read.
    sha256 : str
    """

    end_phy_offset: int
    sha256: str


@dataclass(frozen=True)
class Watermark:
    """How far a table has the log of one store.

    Attributes
    ----------
    phy_offset : int
        All records before are in the table; a record begins or ends here.
    root : str
        Where the store lay.
    seal : Seal or None
        None as long as nothing of the log was read.
    """

    phy_offset: int
    root: str
    seal: Seal | None

    def as_dict(self) -> dict[str, Any]:
        """The attributes as plain JSON values."""
        return asdict(self)

    @classmethod
    def parse(cls, found: Any, where: str) -> Self:
        """Make one of the values of `as_dict`.

        Raises
        ------
        StoreFormatError
            They are not those of a watermark.
        """
        try:
            seal = None if found["seal"] is None else Seal(**found["seal"])
            mark = cls(found["phy_offset"], found["root"], seal)
        except (TypeError, KeyError):
            raise _no_watermark(found, where) from None
        numbers = [mark.phy_offset, *([] if seal is None else [seal.end_phy_offset])]
        texts = [mark.root, *([] if seal is None else [seal.sha256])]
        if not all(type(number) is int and 0 <= number < 1 << 63 for number in numbers):
            raise _no_watermark(found, where)
        if not all(isinstance(text, str) for text in texts):
            raise _no_watermark(found, where)
        return mark


def _no_watermark(found: Any, where: str) -> StoreFormatError:
    return StoreFormatError(
        f"{where}: {found!r} is no watermark, expected phy_offset, root and seal"
    )


def seal_at(files: Sequence[LogFile], end_phy_offset: int) -> Seal | None:
    """Seal the log before an offset; None where its bytes are not there, or the disk does not give them."""
    file = _file_before(files, end_phy_offset)
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


def _file_before(files: Sequence[LogFile], end_phy_offset: int) -> LogFile | None:
    """The file that has the byte before an offset."""
    at = bisect_left(files, end_phy_offset, key=lambda file: file.file_from_offset) - 1
    return files[at] if at >= 0 and end_phy_offset <= files[at].end_offset else None


def fits(files: Sequence[LogFile], mark: Watermark) -> bool:
    """Whether the bytes that a watermark seals lie in a log."""
    return mark.seal is not None and seal_at(files, mark.seal.end_phy_offset) == mark.seal


def check_watermark(broker: str, files: Sequence[LogFile], mark: Watermark) -> None:
    """Make sure that a log is still the one of which a table has the beginning.

    A log whose files before the watermark were all deleted by its owner has nothing left to compare.

    Raises
    ------
    WatermarkError
        It is not: the log ends before the watermark, or other bytes lie there.
    """
    seal = mark.seal
    if seal is None:
        return
    if not files or files[-1].end_offset < seal.end_phy_offset:
        ends = f"ends at {files[-1].end_offset}" if files else "has no files"
        raise WatermarkError(
            f"store {broker}: the table has its log up to CommitLog offset {mark.phy_offset}, and the log {ends}: it was cut or "
            "replaced since"
        )
    if _file_before(files, seal.end_phy_offset) is None:
        return  # deleted: whether a part is lost that the table lacks, the plan finds out
    if seal_at(files, seal.end_phy_offset) != seal:
        raise WatermarkError(
            f"store {broker}: the table has its log up to CommitLog offset {mark.phy_offset}, and the bytes before "
            f"{seal.end_phy_offset} are not those that were exported: the log was cut, repaired or replaced since"
        )
