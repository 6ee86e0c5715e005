"""Exact cuts of a file: a walk over all of it on the planner."""

from __future__ import annotations

import numpy as np

from rmqcore._native.scan import ColumnScan
from rmqcore.offline.damage import DamageRange
from rmqcore.offline.files import LogFile, LogShape
from rmqcore.offline.walk import Blank, LogWalk
from rmqcore.spark.split_start import is_skipped


def record_starts(file: LogFile, shape: LogShape, count: int) -> list[int]:
    """CommitLog offsets of records that cut a file into at most `count` about equal parts; holds one batch at a time.

    A record behind damage is none of them: whoever begins with it would not know that it was found by search.
    """
    damage: list[DamageRange] = []
    walk = LogWalk([file], ColumnScan(["phy_offset"]), damage, shape=shape)
    found: list[int] = []
    number = 1
    for batch in walk.run():
        assert not isinstance(batch, Blank)
        starts = np.asarray(batch.buffer("phy_offset")).view(np.int64)
        behind = {one.end_phy_offset for one in damage if is_skipped(one)}
        while number < count:
            at = int(np.searchsorted(starts, file.file_from_offset + number * file.size // count))
            while at < len(starts) and int(starts[at]) in behind:
                at += 1
            if at == len(starts):
                break
            found.append(int(starts[at]))
            number += 1
            while (
                number < count and file.file_from_offset + number * file.size // count <= found[-1]
            ):
                number += 1
    return found
