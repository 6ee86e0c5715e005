"""Watermarks: how far a table has a store's log, and whether the log is still the same.

All records before the watermark's CommitLog offset are in the table. Its seal (`rmqcore.offline.log.seal`) shows
whether another log lies there now.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Self

from rmqcore.errors import StoreFormatError, WatermarkError
from rmqcore.offline.log.log_files import LogFile
from rmqcore.offline.log.seal import Seal, broken_seal, seal_at
from rmqcore.vocabulary.units import LONG_MAX


@dataclass(frozen=True)
class TableWatermark:
    """How far a table has the log of one store.

    Attributes
    ----------
    phy_offset : int
        All records before are in the table; a record begins or ends here.
    root : str
        Path or URI of the store at the newest commit.
    seal : Seal or None
        None before any part of the log was read.
    """

    phy_offset: int
    root: str
    seal: Seal | None

    def as_dict(self) -> dict[str, Any]:
        """The attributes as plain JSON values."""
        return asdict(self)

    @classmethod
    def parse(cls, found: Any, where: str) -> Self:
        """Make a watermark of the values of `as_dict`.

        Raises
        ------
        StoreFormatError
            The values are not those of a watermark.
        """
        try:
            seal = None if found["seal"] is None else Seal(**found["seal"])
            mark = cls(found["phy_offset"], found["root"], seal)
        except (TypeError, KeyError):
            raise _no_watermark(found, where) from None
        numbers = [mark.phy_offset, *([] if seal is None else [seal.end_phy_offset])]
        texts = [mark.root, *([] if seal is None else [seal.sha256])]
        if not all(type(number) is int and 0 <= number <= LONG_MAX for number in numbers):
            raise _no_watermark(found, where)
        if not all(isinstance(text, str) for text in texts):
            raise _no_watermark(found, where)
        return mark


def _no_watermark(found: Any, where: str) -> StoreFormatError:
    return StoreFormatError(
        f"{where}: {found!r} is not a watermark, expected phy_offset, root and seal"
    )


def fits(files: Sequence[LogFile], mark: TableWatermark) -> bool:
    """Return True if the log has the bytes that a watermark seals."""
    return mark.seal is not None and seal_at(files, mark.seal.end_phy_offset) == mark.seal


def check_watermark(broker: str, files: Sequence[LogFile], mark: TableWatermark) -> None:
    """Make sure that a log is still the one whose beginning a table has.

    A log passes if its owner has deleted all files before the watermark: nothing is left to compare.

    Raises
    ------
    WatermarkError
        The log ends before the watermark, or other bytes lie there.
    """
    if mark.seal is None:
        return
    # If the sealed file was deleted, the plan finds out whether a part that the table lacks was lost with it.
    why = broken_seal(files, mark.seal)
    if why is not None:
        raise WatermarkError(
            f"store {broker}: the table has the log up to CommitLog offset {mark.phy_offset}, but "
            f"{why}: the log was cut, repaired or replaced since the last run"
        )
