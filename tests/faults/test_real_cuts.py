"""Power cuts of real file systems, which are mounted for it. RMQCORE_REAL_CUTS: how many, half on ext4 and half on XFS."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from support.doses import dose

from rmqcore.testing.disks.real_cuts import cut_rounds, why_not

CUTS = dose("RMQCORE_REAL_CUTS", test=2, verify=4, night=50)


@pytest.mark.skipif(why_not() is not None, reason=f"NO REAL POWER CUT WAS MADE: {why_not()}")
def test_what_was_acknowledged_is_on_the_disk(tmp_path: Path, rng: random.Random) -> None:
    counts = cut_rounds(tmp_path, rng, CUTS)
    assert counts["power cuts on ext4"] + counts["power cuts on xfs"] == CUTS
    assert counts["acknowledged messages"] > 0
