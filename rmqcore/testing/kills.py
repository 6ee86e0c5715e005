"""kill -9 of a writer at any moment: every message acknowledged to it exists afterwards.

The page cache outlives the process, so this tests the logic of recovery; power_cuts and real_cuts test the disk.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from rmqcore.testing.crash_check import TINY, Acked, check_directory
from rmqcore.testing.verdict import hold

MESSAGES_A_LIFE = 1_000_000
HANG_S = 120  # seconds without an answer after which a child must print its stacks


def store_settings(rng: random.Random) -> dict[str, Any]:
    """Choose the settings of a store: small files, so that all kinds of files roll often."""
    return {
        **TINY,
        "mapped_file_size_commit_log": rng.choice((4, 16, 64)) * 1024,
        "mapped_file_size_consume_queue": 20 * rng.choice((4, 16, 100)),
        "max_index_num": rng.choice((16, 64, 1000)),
        "max_hash_slot_num": rng.choice((16, 100)),
        "flush_disk_type": rng.choice(("ASYNC_FLUSH", "SYNC_FLUSH")),
    }


def child_of(call: str, module: str = "rmqcore.testing.killed_writer") -> subprocess.Popen[bytes]:
    """Start a program that calls a function of a module."""
    package, _, name = module.rpartition(".")
    program = f"from {package} import {name}; {call}"
    paths = os.pathsep.join(path for path in sys.path if path)
    return subprocess.Popen(
        [sys.executable, "-X", "faulthandler", "-c", program],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=dict(os.environ, PYTHONPATH=paths),
    )


class Killed:
    """A store whose writers are killed, one after the other.

    Parameters
    ----------
    root : Path
    rng : random.Random
    config : dict, optional
        Fixed settings; None: random ones.

    Attributes
    ----------
    acked : list of Acked
    kills : int
    """

    def __init__(
        self, root: Path, rng: random.Random, config: dict[str, Any] | None = None
    ) -> None:
        self.root = root
        self._rng = rng
        self.config = store_settings(rng) if config is None else config
        self.acked: list[Acked] = []
        self.kills = 0

    def kill(self) -> None:
        """Start a writer and kill it after a random number of answers, or while it opens."""
        first = self.kills * MESSAGES_A_LIFE
        seed = self._rng.randrange(1 << 30)
        call = f"killed_writer.write({str(self.root)!r}, {self.config!r}, {first}, {seed})"
        answers = []
        with child_of(call) as child:
            assert child.stdout is not None and child.stderr is not None
            watchdog = threading.Timer(HANG_S, child.send_signal, [signal.SIGABRT])
            watchdog.start()
            most = self._rng.choice((1, 3, 30, 300))
            for line in child.stdout:
                answers.append(line)
                if len(answers) >= most:
                    break
            child.send_signal(signal.SIGKILL)
            answers += child.stdout.readlines()
            told = child.stderr.read().decode(errors="replace")
            watchdog.cancel()
        hold(child.returncode == -signal.SIGKILL, "the writer ended with", child.returncode, told)
        self.kills += 1
        for line in answers:
            if line.endswith(b"\n"):
                answer = json.loads(line)
                hold("broken" not in answer, "a reader got", answer.get("broken"))
                self.acked += [Acked(**one) for one in answer.get("acked", ())]

    def check(self) -> None:
        """Compare the directory with the acknowledged messages."""
        check_directory(self.root, self.acked, self.config, twice=False)


def kill_rounds(base: Path, rng: random.Random, kills: int) -> tuple[int, int]:
    """Kill `kills` writers of one store, with checks between; return the numbers of kills and acknowledged messages."""
    killed = Killed(base / "killed", rng)
    for number in range(kills):
        killed.kill()
        if rng.random() < 0.4 or number == kills - 1:  # else the next writer recovers, as it would
            killed.check()
    return killed.kills, len(killed.acked)
