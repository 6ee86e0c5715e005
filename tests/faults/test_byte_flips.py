"""A bit flipped in the bytes of a small store. RMQCORE_FLIP_STRIDE=1: in each; 60: in one of 60, others with another seed."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from support.doses import dose
from support.reliability_page import silent_fields

from rmqcore.testing.fault_shim import run_child

STRIDE = dose("RMQCORE_FLIP_STRIDE", test=600, verify=60, night=1)


@pytest.mark.smoke
@pytest.mark.parametrize("prop_crc", [False, True], ids=["plain", "prop_crc"])
def test_each_byte(folder: Path, rng: random.Random, prop_crc: bool) -> None:
    """Nothing crashes, and only the fields that docs/reliability.md names change an answer in silence."""
    seed = rng.randrange(1 << 20)
    call = f"byte_flips.each_byte({str(folder)!r}, {seed}, {STRIDE}, prop_crc={prop_crc})"
    done = run_child(call, preload=False, timeout=3600, package="support.faults")
    assert done.returncode == 0, f"{done.returncode}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
    counts = json.loads(done.stdout.splitlines()[-1])
    silent = {field for field, of_field in counts.items() if "silent" in of_field}
    known = silent_fields()[prop_crc]
    assert silent <= known
    if STRIDE == 1:
        assert silent == known, "the page names a field that is covered by now"
