"""kill -9 of a writer at any moment: what it was told is stored is there."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from crash_check import TINY, Acked, check_directory
from fault_shim import TESTS

KILLS = int(os.environ.get("RMQCORE_KILLS", "12"))


def kill_one(root: Path, mode: str, first: int, rng: random.Random) -> list[Acked]:
    """Start a writer, kill it after a random number of answers, and give these."""
    call = f"killed_writer.write({str(root)!r}, {mode!r}, {first}, {rng.randrange(1 << 30)})"
    program = f"import sys; sys.path.insert(0, {str(TESTS)!r}); import killed_writer; {call}"
    answers = []
    with subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as child:
        assert child.stdout is not None and child.stderr is not None
        most = rng.choice((1, 3, 30, 300, 1500))
        for line in child.stdout:
            answers.append(line)
            if len(answers) >= most:
                break
        child.send_signal(signal.SIGKILL)
        answers += child.stdout.readlines()
        told = child.stderr.read().decode()
    assert child.returncode == -signal.SIGKILL, told
    whole = [json.loads(line) for line in answers if line.endswith(b"\n")]
    return [Acked(**one) for one in whole if one]


@pytest.mark.parametrize("mode", ["ASYNC_FLUSH", "SYNC_FLUSH"])
def test_what_was_acknowledged_is_there(tmp_path: Path, rng: random.Random, mode: str) -> None:
    root, acked, first = tmp_path / "store", [], 0
    for kill in range(KILLS):
        acked += kill_one(root, mode, first, rng)
        first += 100_000
        if rng.random() < 0.5 or kill == KILLS - 1:  # else the next writer recovers, as it would
            check_directory(root, acked, {**TINY, "flush_disk_type": mode}, twice=False)
