"""kill -9 of a writer at any moment: every message that it was told is stored is there. RMQCORE_KILLS: how often."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from support.doses import dose

from rmqcore.testing.crash_check import TINY
from rmqcore.testing.kills import Killed, kill_rounds

KILLS = dose("RMQCORE_KILLS", test=1, verify=12, night=1000)
A_STORE = 6


@pytest.mark.parametrize("mode", ["ASYNC_FLUSH", "SYNC_FLUSH"])
def test_what_was_acknowledged_is_there(tmp_path: Path, rng: random.Random, mode: str) -> None:
    killed = Killed(tmp_path / "store", rng, {**TINY, "flush_disk_type": mode})
    # One that dies before its first message leaves nothing to look for.
    while killed.kills < min(A_STORE, KILLS) or not killed.acked:
        assert killed.kills < 20, "no message is acknowledged"
        killed.kill()
    killed.check()


@pytest.mark.smoke
def test_any_settings(tmp_path: Path, rng: random.Random) -> None:
    left = KILLS
    while left > 0:
        done, _ = kill_rounds(tmp_path / str(left), rng, min(A_STORE, left))
        left -= done
