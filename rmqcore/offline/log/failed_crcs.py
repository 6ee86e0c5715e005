"""Messages that were found one by one and whose bodies fail their CRC, as the ranges that a walk over the log gives."""

from __future__ import annotations

import zlib
from bisect import bisect_right
from collections.abc import Iterable

from rmqcore._native.format.codec import MessageView
from rmqcore._native.format.layout import CRC_MASK
from rmqcore.offline.log.damage import DamageRange
from rmqcore.offline.log.log_files import LogFile


def failed_crcs(files: list[LogFile], views: Iterable[MessageView]) -> list[DamageRange]:
    """Return a range of kind ``crc`` for each of these messages, whose bodies fail their CRC."""
    return [
        DamageRange(
            view.phy_offset,
            view.phy_offset + view.msg_size,
            "crc",
            _name_at(files, view.phy_offset),
            "BODYCRC",
            zlib.crc32(view.body) & CRC_MASK,
            view.body_crc,
        )
        for view in views
    ]


def _name_at(files: list[LogFile], phy_offset: int) -> str:
    at = bisect_right(files, phy_offset, key=lambda file: file.file_from_offset) - 1
    return files[at].name if at >= 0 else "commitlog"
