"""Every system call of a store's life fails once; then full disks that are really full."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.doses import dose

from rmqcore.testing.fault_shim import CALLS, run_child, why_not

pytestmark = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))

NOT_MADE = {"write", "rmdir", "read"}
"""Calls that the life of a store makes rarely or never."""
STRIDE = dose("RMQCORE_CALL_STRIDE", test=97, verify=47, night=1)


def child(call: str, package: str = "rmqcore.testing") -> str:
    done = run_child(call, timeout=3600, package=package)
    assert done.returncode == 0, f"{done.returncode}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
    last = done.stdout.splitlines()[-1]
    assert last.startswith("done"), done.stdout
    return last


@pytest.mark.parametrize("mode", ["ASYNC_FLUSH", "SYNC_FLUSH"])
@pytest.mark.parametrize("call", sorted(set(CALLS) - NOT_MADE))
def test_one_call_fails(folder: Path, call: str, mode: str) -> None:
    # Calls that a store's life makes often fail at every n-th place only, with a different n for each mode.
    stride = {
        "open": 7,
        "stat": 7,
        "pread": 7,
        "opendir": 3,
        "fsync": 5,
        "pwrite": 5,
        "msync": 5,
    }.get(call, 1) + (mode == "SYNC_FLUSH")
    last = child(
        f"failing_calls.each_call({str(folder)!r}, {call!r}, 'life', {mode!r}, stride={stride})"
    )
    assert last != "done: 0 failures", "the call is never made"


@pytest.mark.parametrize("how", ["life", "look"])
@pytest.mark.parametrize(
    "error",
    ["EIO", pytest.param("ENOSPC", marks=pytest.mark.smoke), "ENOMEM", "EMFILE", "EINTR"],
)
def test_any_call_fails(folder: Path, error: str, how: str) -> None:
    """RMQCORE_CALL_STRIDE=1: every call of the life of a store that is written, and of one that is read, with every error."""
    first = 1 + sum(error.encode()) % STRIDE  # each error at other calls
    for mode in ("ASYNC_FLUSH", "SYNC_FLUSH")[: 1 + (STRIDE == 1)]:
        call = (
            f"{str(folder)!r}, 'any', {how!r}, {mode!r}, {error!r}, stride={STRIDE}, first={first}"
        )
        assert child(f"failing_calls.each_call({call})") != "done: 0 failures"


@pytest.mark.parametrize("call", ["fallocate", "pwrite", "ftruncate", "msync", "madvise"])
def test_a_disk_that_stays_full(folder: Path, call: str) -> None:
    """From the n-th call on there is no space, also for what an error path does."""
    child(
        f"failing_calls.each_call({str(folder)!r}, {call!r}, 'life', 'ASYNC_FLUSH', 'ENOSPC', True, stride=3)"
    )


@pytest.mark.parametrize("mode", ["ASYNC_FLUSH", "SYNC_FLUSH"])
@pytest.mark.parametrize("how", ["by_steps", "with_threads"])
@pytest.mark.parametrize("call", ["fallocate", "pwrite", "ftruncate", "mkdir"])
def test_a_disk_that_is_full_for_a_while(folder: Path, call: str, how: str, mode: str) -> None:
    """A store whose disk was full for a second had failed: every put raised until somebody opened it again."""
    for allowed in (0, 1, 3):
        place = folder / str(allowed)
        place.mkdir()
        program = f"full_disk.{how}({str(place)!r}, {call!r}, {mode!r}, {allowed})"
        done = run_child(program, package="support.faults")
        assert done.returncode == 0, f"{allowed}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"


@pytest.mark.parametrize("mode", ["ASYNC_FLUSH", "SYNC_FLUSH"])
@pytest.mark.parametrize("how", ["by_steps", "with_threads"])
def test_descriptors_that_are_missing_for_a_while(folder: Path, how: str, mode: str) -> None:
    """The first file that could not be opened ended all writing, until the store was opened again."""
    for allowed in range(dose("RMQCORE_MISSING_DESCRIPTORS", test=6, verify=10, night=64)):
        place = folder / str(allowed)
        place.mkdir()
        call = f"full_disk.{how}({str(place)!r}, 'open', {mode!r}, {allowed}, 'EMFILE')"
        done = run_child(call, package="support.faults")
        assert done.returncode == 0, f"{allowed}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"


@pytest.mark.parametrize("error", ["EMFILE", "ENFILE"])
@pytest.mark.parametrize("how", ["life", "threads"])
def test_no_missing_descriptor_fails_a_store(folder: Path, how: str, error: str) -> None:
    stride = dose("RMQCORE_DESCRIPTOR_STRIDE", test=9, verify=5, night=1)
    assert (
        child(
            f"failing_calls.each_call({str(folder)!r}, 'open', {how!r}, 'SYNC_FLUSH', {error!r}, stride={stride})"
        )
        != "done: 0 failures"
    )


@pytest.mark.parametrize("mode", ["ASYNC_FLUSH", "SYNC_FLUSH"])
@pytest.mark.parametrize("call", ["msync", "fsync", "pwrite", "fallocate"])
def test_one_call_of_a_thread_fails(folder: Path, call: str, mode: str) -> None:
    child(f"failing_calls.each_call({str(folder)!r}, {call!r}, 'threads', {mode!r}, stride=7)")


@pytest.mark.parametrize("mode", ["ASYNC_FLUSH", "SYNC_FLUSH"])
@pytest.mark.parametrize("call", ["msync", "fallocate", "ftruncate"])
def test_after_a_failure(folder: Path, call: str, mode: str) -> None:
    program = f"after_failure.after_failure({str(folder)!r}, {call!r}, {mode!r})"
    child(program, package="support.faults")
