"""Random damage to log, queues, index and checkpoint, then an open: nothing is misplaced, and a second open changes nothing.

RMQCORE_DAMAGED: how many stores. Beside Java's recovery: tests/interop/test_differential_recovery.py.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from support.doses import dose

from rmqcore.testing.damaged_stores import damage_rounds
from rmqcore.testing.random_damage import PARTS

STORES = dose("RMQCORE_DAMAGED", test=10, verify=60, night=3000)
A_PAIR = 30


@pytest.mark.smoke
@pytest.mark.parametrize("parts", [tuple(PARTS)[1:], tuple(PARTS)], ids=["whole log", "all"])
def test_a_damaged_store_is_recovered(
    folder: Path, rng: random.Random, parts: tuple[str, ...]
) -> None:
    done = 0
    while done < STORES:
        done += damage_rounds(
            folder / str(done), rng.randrange(1 << 30), min(A_PAIR, STORES), parts
        )["damaged stores"]
