"""A program that ends without closing its store."""

from __future__ import annotations

import subprocess
import sys

import pytest
from support.places import TESTS

PROGRAM = """
import sys
sys.path.insert(0, {tests!r})
from support.stores.fake_store import FakeStore
from rmqcore.services import Services

class Loud(FakeStore):
    def close(self):
        services.stop()
        print("closed", self.reput_from_offset, flush=True)
        {closing}

store, other = Loud(), FakeStore()
services, more = Services(store), Services(other)
other.close = lambda: (more.stop(), print("closed the other", flush=True))
services.start()
more.start()
store.put(5)
{ending}
"""


def end(ending: str, closing: str = "") -> subprocess.CompletedProcess[str]:
    program = PROGRAM.format(tests=str(TESTS), ending=ending, closing=closing)
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False
    )


@pytest.mark.parametrize(
    ("ending", "code"),
    [("", 0), ("sys.exit(3)", 3), ("raise KeyboardInterrupt", -2), ("1 / 0", 1)],
)
def test_stores_are_closed(ending: str, code: int) -> None:
    done = end(ending)
    assert done.returncode == code
    assert sorted(done.stdout.splitlines()) == ["closed 5", "closed the other"]


def test_a_store_that_cannot_be_closed_does_not_keep_the_others_open() -> None:
    done = end("", "raise OSError(5, 'Input/output error')")
    assert sorted(done.stdout.splitlines()) == ["closed 5", "closed the other"]
    assert "Input/output error" in done.stderr


def test_a_store_that_was_dropped_keeps_nothing_from_ending() -> None:
    done = end("del store, other; import gc; gc.collect()")
    assert (done.returncode, done.stdout) == (0, "")


def test_a_child_closes_nothing_of_its_parent() -> None:
    child = "import os; pid = os.fork()\nif pid == 0: sys.exit(7)\nprint(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))"
    done = end(child)
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == ["7", "closed 5", "closed the other"]
