"""Every system call of a store's life fails once; then full disks that are really full."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from fault_shim import run_child

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the shim is preloaded by ld.so")

CALLS = (
    "msync",
    "fsync",
    "pwrite",
    "fallocate",
    "ftruncate",
    "mmap",
    "madvise",
    "open",
    "rename",
    "unlink",
    "mkdir",
)


def child(call: str) -> str:
    done = run_child(call)
    assert done.returncode == 0, f"{done.returncode}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
    last = done.stdout.splitlines()[-1]
    assert last.startswith("done"), done.stdout
    return last


@pytest.mark.parametrize("mode", ["ASYNC_FLUSH", "SYNC_FLUSH"])
@pytest.mark.parametrize("call", CALLS)
def test_one_call_fails(folder: Path, call: str, mode: str) -> None:
    # Those that one life makes often are tried in steps, a different one for each mode.
    stride = {"open": 7, "fsync": 5, "pwrite": 5, "msync": 5}.get(call, 1) + (mode == "SYNC_FLUSH")
    last = child(
        f"failing_calls.each_call({str(folder)!r}, {call!r}, 'life', {mode!r}, stride={stride})"
    )
    assert last != "done: 0 failures", "the call is never made"


@pytest.mark.parametrize("call", ["fallocate", "pwrite", "ftruncate", "msync", "madvise"])
def test_a_disk_that_stays_full(folder: Path, call: str) -> None:
    """From the n-th call on there is no space, also for what an error path does."""
    child(
        f"failing_calls.each_call({str(folder)!r}, {call!r}, 'life', 'ASYNC_FLUSH', 'ENOSPC', True, stride=3)"
    )


@pytest.mark.parametrize("mode", ["ASYNC_FLUSH", "SYNC_FLUSH"])
@pytest.mark.parametrize("call", ["msync", "fsync", "pwrite", "fallocate"])
def test_one_call_of_a_thread_fails(folder: Path, call: str, mode: str) -> None:
    child(f"failing_calls.each_call({str(folder)!r}, {call!r}, 'threads', {mode!r}, stride=7)")


@pytest.mark.parametrize("mode", ["ASYNC_FLUSH", "SYNC_FLUSH"])
@pytest.mark.parametrize("call", ["msync", "fallocate", "ftruncate"])
def test_after_a_failure(folder: Path, call: str, mode: str) -> None:
    child(f"failing_calls.after_failure({str(folder)!r}, {call!r}, {mode!r})")
