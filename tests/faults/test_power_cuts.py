"""Power cuts: images of the disk after each sync of a recorded run, and of the recoveries of such images."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from fault_shim import run_child

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the shim is preloaded by ld.so")

CUTS = int(os.environ.get("RMQCORE_CUTS", "60"))


@pytest.mark.parametrize("seed", range(int(os.environ.get("RMQCORE_CUT_SEEDS", "2"))))
@pytest.mark.parametrize("writer", ["threads", "steps", "wide"])
def test_cut_at_every_sync(folder: Path, writer: str, seed: int) -> None:
    cuts = min(CUTS, 15) if writer == "wide" else CUTS  # 400 files an image
    done = run_child(f"power_cuts.cut({str(folder)!r}, {writer!r}, {seed}, {cuts})", timeout=1800)
    assert done.returncode == 0, f"{done.returncode}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
    assert int(done.stdout.split()[0]) > min(cuts, 40)
