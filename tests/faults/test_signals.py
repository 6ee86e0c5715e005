"""SIGINT and SIGTERM at random moments of a program: it ends as it should and in time, and nothing is lost.

Before this test a handler that closed the store hung in half of all cases, and a Ctrl-C in the first milliseconds after an open
made the store fail without a failed disk.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

from support.doses import dose
from support.places import TESTS, python_path

SIGNALS = dose("RMQCORE_SIGNALS", test=4, verify=40, night=2000)


def test_signals_at_random_moments(tmp_path: Path, rng: random.Random) -> None:
    command = [sys.executable, "-m", "support.faults.signal_rounds"]
    done = subprocess.run(
        [*command, str(tmp_path), str(SIGNALS), str(rng.randrange(1 << 30))],
        cwd=TESTS,
        env={**os.environ, "PYTHONPATH": python_path()},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
