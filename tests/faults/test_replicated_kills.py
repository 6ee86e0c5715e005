"""kill -9 of a master and of its slave, again and again, over a line that cuts, delays and splits: their logs are the same.

RMQCORE_PAIR_KILLS: how often; RMQCORE_PAIR_MB: how many megabytes.
"""

from __future__ import annotations

import random
from contextlib import ExitStack
from pathlib import Path

import pytest
from support.doses import dose
from support.replicated_pair import OurNode, check_stores, kill_again_and_again

KILLS = dose("RMQCORE_PAIR_KILLS", test=2, verify=4, night=20)
MEGABYTES = dose("RMQCORE_PAIR_MB", test=3, verify=10, night=1000)
FILE = max(1, MEGABYTES // 16) << 20
MOST_REPEATS = 900


@pytest.mark.slow
@pytest.mark.smoke
def test_both_sides_are_killed(tmp_path: Path, rng: random.Random) -> None:
    settings = {"mappedFileSizeCommitLog": FILE}
    master, slave = (OurNode(tmp_path / name, settings) for name in ("master", "slave"))
    with ExitStack() as stack:
        stack.callback(master.end)
        stack.callback(slave.end)
        size = MEGABYTES * 1_000_000
        load = kill_again_and_again(
            master, slave, rng, kills=KILLS, size=size, most_repeats=MOST_REPEATS
        )
    check_stores(load, master.store, slave.store)
