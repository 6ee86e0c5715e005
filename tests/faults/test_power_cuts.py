"""Power cuts: images of the disk at many moments of a recorded run, and of the recoveries of such images.

RMQCORE_CUTS: images a recording; RMQCORE_CUT_SEEDS: recordings a writer.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from support.doses import dose

from rmqcore.testing.fault_shim import run_child, why_not
from rmqcore.testing.power_cuts import WRITERS

pytestmark = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))

CUTS = dose("RMQCORE_CUTS", test=12, verify=120, night=600)
SEEDS = dose("RMQCORE_CUT_SEEDS", test=1, verify=1, night=6)


@pytest.mark.smoke
@pytest.mark.parametrize("seed", range(SEEDS))
@pytest.mark.parametrize("writer", WRITERS)
def test_cut_at_any_moment(folder: Path, writer: str, seed: int) -> None:
    cuts = CUTS // 6 if writer == "wide" else CUTS  # 400 files an image
    call = f"power_cuts.cut({str(folder)!r}, {writer!r}, {seed}, {cuts})"
    done = run_child(call, timeout=3600)
    assert done.returncode == 0, f"{done.returncode}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
    assert int(done.stdout.split()[0]) >= cuts
