"""A store that lives on a small disk, always nearly full. RMQCORE_SMALL_DISK_HOURS: of its time, of which an hour takes 3.6 s."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from support.doses import dose

from rmqcore.testing.disks.real_cuts import why_not
from rmqcore.testing.disks.small_disk import HOWS, lives

HOURS = dose("RMQCORE_SMALL_DISK_HOURS", test=3, verify=3, night=24)


@pytest.mark.skipif(why_not() is not None, reason=f"NO SMALL DISK WAS MOUNTED: {why_not()}")
@pytest.mark.parametrize("how", HOWS)
def test_a_store_on_a_small_disk(tmp_path: Path, rng: random.Random, how: str) -> None:
    counts = lives(tmp_path, rng, hours=HOURS, how=how, deletions=11)
    assert counts["files deleted"] > 10
    assert (counts["before their time"] > 0) == (how == "forced")
