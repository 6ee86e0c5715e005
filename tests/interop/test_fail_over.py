"""A SYNC_MASTER that is killed under load, and its slave, which becomes the master: one of them is a real broker.

RMQCORE_FAIL_OVERS: how often.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from interop.java_node import JavaNode
from support.doses import dose
from support.fail_over import fail_over
from support.replicated_pair import OurNode

ROUNDS = dose("RMQCORE_FAIL_OVERS", test=1, verify=1, night=10)
ANSWERS = 500
SETTINGS = {"mappedFileSizeCommitLog": 16 << 20, "flushConsumerOffsetInterval": 50}


@pytest.mark.slow
@pytest.mark.parametrize("number", range(ROUNDS))
@pytest.mark.parametrize("promoted", ["ours", pytest.param("java", marks=pytest.mark.long)])
def test_a_slave_becomes_the_master(
    tmp_path: Path, rng: random.Random, promoted: str, number: int
) -> None:
    rng.seed(rng.random() + number)
    java, ours = JavaNode(tmp_path / "java", SETTINGS), OurNode(tmp_path / "ours", SETTINGS)
    try:
        if promoted == "ours":
            fail_over(java, ours, rng, answers=ANSWERS)
        else:
            fail_over(ours, java, rng, answers=ANSWERS, name_server=java.name_server)
    finally:
        java.end()
        ours.end()
