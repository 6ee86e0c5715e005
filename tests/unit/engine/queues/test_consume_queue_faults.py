"""ConsumeQueues when system calls fail, each in turn: what counts is what is on disk, and the next attempt completes it."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from rmqcore.testing.fault_shim import run_child

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux") or shutil.which("cc") is None,
    reason="preloads a library that it compiles",
)


@pytest.mark.parametrize("call", ["pwrite", "ftruncate", "open", "mkdir", "fsync"])
def test_each_call(tmp_path: Path, call: str) -> None:
    done = run_child(
        f"failing_queues.each_call({str(tmp_path)!r}, {call!r})", package="support.faults"
    )
    assert done.returncode == 0, done.stdout + done.stderr
    count = int(done.stdout.split()[0])
    assert count >= 2, done.stdout
