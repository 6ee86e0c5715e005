"""Ctrl-C anywhere: the store is closed cleanly, or the next open recovers. RMQCORE_CTRL_C: how often."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from support.doses import dose
from support.places import TESTS

from rmqcore.testing.crash_check import TINY, Acked, check_directory

ROUNDS = dose("RMQCORE_CTRL_C", test=2, verify=8, night=200)
PROGRAM = """
import sys; sys.path.insert(0, {tests!r})
import json, os
from rmqcore.testing.crash_check import *
config = {{**TINY, "flush_disk_type": sys.argv[2]}}
number = int(sys.argv[3])
os.write(1, b"{{}}\\n")
while True:
    with rmqcore.open(sys.argv[1], **config) as store:
        for _ in range(200):
            answer = put(store, number)
            number += 1
            os.write(1, json.dumps(answer.as_dict()).encode() + b"\\n")
"""


@pytest.mark.parametrize("mode", ["ASYNC_FLUSH", "SYNC_FLUSH"])
def test_interrupted_anywhere(tmp_path: Path, rng: random.Random, mode: str) -> None:
    root, acked = tmp_path / "store", []
    for round_ in range(ROUNDS):
        command = [
            sys.executable,
            "-X",
            "faulthandler",
            "-c",
            PROGRAM.format(tests=str(TESTS)),
            str(root),
            mode,
        ]
        with subprocess.Popen(
            [*command, str(round_ * 100_000)], stdout=subprocess.PIPE, stderr=subprocess.PIPE
        ) as child:
            assert child.stdout is not None and child.stderr is not None
            lines = [
                child.stdout.readline()
                for _ in range(rng.choice((1, 2, 100, 195, 199, 200, 201, 350)))
            ]
            child.send_signal(signal.SIGINT)
            # A child that hangs is made to say where.
            watchdog = threading.Timer(120, child.send_signal, [signal.SIGABRT])
            watchdog.start()
            lines += child.stdout.readlines()
            err = child.stderr.read()
            watchdog.cancel()
        assert child.returncode in (-signal.SIGINT, 1, 0), err.decode()
        assert b"KeyboardInterrupt" in err
        answers = [json.loads(line) for line in lines if line.endswith(b"\n")]
        acked += [Acked(**answer) for answer in answers if answer]
        check_directory(root, acked, {**TINY, "flush_disk_type": mode}, twice=False)
