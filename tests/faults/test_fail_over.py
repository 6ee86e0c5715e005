"""A SYNC_MASTER with inSyncReplicas=2 that is killed under load: its slave, started as the master, has all that was answered.

RMQCORE_FAIL_OVERS: how often.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from support.doses import dose
from support.fail_over import fail_over
from support.replicated_pair import OurNode

ROUNDS = dose("RMQCORE_FAIL_OVERS", test=1, verify=2, night=10)
ANSWERS = 500


@pytest.mark.slow
@pytest.mark.smoke
@pytest.mark.parametrize("number", range(ROUNDS))
def test_a_slave_becomes_the_master(tmp_path: Path, rng: random.Random, number: int) -> None:
    rng.seed(rng.random() + number)
    settings = {"flushConsumerOffsetInterval": 50}
    old, new = (OurNode(tmp_path / name, settings) for name in ("old", "new"))
    try:
        fail_over(old, new, rng, answers=ANSWERS)
    finally:
        old.end()
        new.end()
