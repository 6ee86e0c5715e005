"""A process that ends while a query engine's thread reads a store."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Generator
from pathlib import Path

import pytest

from rmqcore.offline.lazy import process_end
from rmqcore.offline.lazy.process_end import ProcessEndsError, Scans

SLOW = """
import os, sys, time
import polars as pl
import rmqcore
from rmqcore import StoreReader
from rmqcore.offline.lazy import polars_scan

polars_scan.BATCH_ROWS = 100
batches = StoreReader.batches

def slowly(self, columns, **options):
    for number, batch in enumerate(batches(self, columns, **options)):
        if number:
            os.write(1, b"asked again\\n")  # print writes a line in two parts, between which another thread's came
            time.sleep(1)  # a slow file system: the script ends during this call. Without the GIL, as the scan is
        yield batch

StoreReader.batches = slowly
frame = rmqcore.scan(sys.argv[1]).filter(pl.col("queue_id") < 9)
height = frame.head(1).collect(engine="streaming").height
os.write(1, f"{height}\\n".encode())
"""


def test_a_script_ends_well_while_polars_reads_on(golden: Path) -> None:
    """Polars had answered and forgot its thread, which came back to a Python that was going away: SIGABRT, after the answer."""
    pytest.importorskip("polars")
    done = subprocess.run(
        [sys.executable, "-c", SLOW, str(golden / "basic" / "store")],
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "1" in done.stdout.split()
    assert "asked again" in done.stdout


def test_the_end_waits_for_who_is_going_on() -> None:
    scans = Scans()
    begun, steps = threading.Event(), list[int]()

    def items() -> Generator[int]:
        yield 1
        begun.set()
        while True:  # as a scan that finds nothing
            steps.append(len(steps))
            scans.keep_on(0, 0)

    given: list[int] = []
    thread = threading.Thread(target=lambda: given.extend(scans.watched(items())))
    thread.start()
    begun.wait()
    scans.end()
    seen = len(steps)
    thread.join()
    assert (given, len(steps)) == ([1], seen)


def test_nothing_begins_at_the_end() -> None:
    scans = Scans()
    closed: list[int] = []

    def items() -> Generator[int]:
        try:
            while True:
                yield 1
        finally:
            closed.append(1)

    one = scans.watched(items())
    assert next(one) == 1
    scans.end()
    assert list(one) == []
    assert closed == [1]
    assert list(scans.watched(items())) == []
    with pytest.raises(ProcessEndsError):
        scans.keep_on(0, 0)


def test_errors_are_those_of_the_scan() -> None:
    scans = Scans()

    def broken() -> Generator[int]:
        yield 1
        raise OSError("the disk is gone")

    one = scans.watched(broken())
    assert next(one) == 1
    with pytest.raises(OSError, match="the disk is gone"):
        next(one)
    scans.end()  # waits for nobody


def test_a_child_does_not_wait_for_threads_that_it_does_not_have() -> None:
    scans = Scans()

    def items() -> Generator[float]:
        scans.begin()  # as behind a fork in the middle of a scan
        before = time.monotonic()
        scans.end()
        yield time.monotonic() - before

    assert next(scans.watched(items())) < process_end.LONGEST_WAIT
