"""Mutex, Calls, Bell and Descriptor: what holds when a call is interrupted, repeated or made on top of itself."""

from __future__ import annotations

import fcntl
import os
import threading
from pathlib import Path

import pytest

from rmqcore._native.threads.bell import Bell, Bells
from rmqcore._native.threads.descriptor import Descriptor
from rmqcore._native.threads.mutex import Calls, Mutex, run_with

HANG = 120  # seconds


def taken(mutex: Mutex) -> bool:
    """Whether another thread would have to wait."""
    got = threading.Event()
    thread = threading.Thread(target=mutex.run, args=(got.set,), daemon=True)
    thread.start()
    thread.join(0.1)
    return not got.is_set()


def test_the_lock_is_let_go_of_whatever_the_call_does() -> None:
    mutex = Mutex()
    assert mutex.run(divmod, 7, 2) == (3, 1)
    with pytest.raises(ZeroDivisionError):
        mutex.run(divmod, 7, 0)
    assert not mutex.held_here
    assert not taken(mutex)


def test_a_thread_never_waits_for_itself() -> None:
    mutex = Mutex()
    with pytest.raises(RuntimeError, match="reentrant call"):
        mutex.run(mutex.run, len, "")
    assert not taken(mutex)
    again = Mutex(again=True)
    assert again.run(again.run, len, "abc") == 3
    assert not taken(again)


def test_several_locks_are_taken_for_one_call() -> None:
    first, second = Mutex(), Mutex()

    def both() -> tuple[bool, bool]:
        return first.held_here, second.held_here

    assert run_with((first, second), both) == (True, True)
    assert run_with((), divmod, 7, 2) == (3, 1)
    with pytest.raises(ZeroDivisionError):
        run_with((first, second), divmod, 7, 0)
    with pytest.raises(RuntimeError, match="len: reentrant call"):
        second.run(run_with, (first, second), len, "")
    assert not taken(first), "it was taken before the other one was refused"
    assert not taken(second)


def test_work_waits_until_the_last_lock_of_its_thread_is_free() -> None:
    calls = Calls()
    outer, inner = Mutex(calls), Mutex(calls)
    seen = []

    def work() -> None:
        seen.append((calls.inside, outer.held_here, inner.held_here))

    def step() -> None:
        assert calls.inside
        calls.when_left(work)

    def both() -> None:
        inner.run(step)
        assert not seen

    outer.run(both)
    assert seen == [(False, False, False)]
    outer.run(len, "")
    assert len(seen) == 1, "once"


def test_work_is_done_when_an_exception_passes_and_keeps_it() -> None:
    calls = Calls()
    mutex = Mutex(calls)
    seen = []

    def leave() -> None:
        calls.when_left(lambda: seen.append(1))
        raise SystemExit(3)

    with pytest.raises(SystemExit):
        mutex.run(leave)
    assert seen == [1]


def test_a_ring_is_kept_once() -> None:
    bell = Bell()
    assert not bell.wait(0)
    bell.ring()
    bell.ring()
    assert bell.wait(0)
    assert not bell.wait(0)
    bell.ring()
    bell.clear()
    assert not bell.wait(-1)
    thread = threading.Thread(target=bell.wait, args=(HANG,))
    thread.start()
    bell.ring()
    thread.join(HANG)
    assert not thread.is_alive()


def test_bells_ring_together_once() -> None:
    bells, first, second = Bells(), Bell(), Bell()
    bells.add(first.ring)
    bells.add(first.ring)
    bells.add(second.ring)
    bells.ring()
    assert first.wait(0)
    assert second.wait(0)
    bells.ring()
    assert not first.wait(0)


def test_a_descriptor_that_nobody_holds_is_closed(tmp_path: Path) -> None:
    path = tmp_path / "file"
    descriptor = Descriptor(path, os.O_RDWR | os.O_CREAT)
    number = descriptor.fileno()
    assert fcntl.fcntl(number, fcntl.F_GETFD) & fcntl.FD_CLOEXEC
    del descriptor
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(number)
    with pytest.raises(FileNotFoundError):
        Descriptor(tmp_path / "none", os.O_RDONLY)


def test_a_close_that_is_repeated_closes_no_other_file(tmp_path: Path) -> None:
    descriptor = Descriptor(tmp_path, os.O_RDONLY)
    descriptor.close()
    other = os.open(tmp_path, os.O_RDONLY)
    descriptor.close()
    os.fstat(other)
    os.close(other)
    assert descriptor.fileno() == -1
