"""The block that a second thread reads ahead."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

import rmqcore
from rmqcore import Message, codec
from rmqcore.disk.log_window import WINDOW
from rmqcore.offline.log.read_ahead import CARRY


@pytest.fixture
def store(tmp_path: Path) -> tuple[Path, int]:
    """A log of one file of some windows, with records larger and smaller than what is carried over; their number."""
    (tmp_path / "commitlog").mkdir()
    log = bytearray()
    count = 0
    while len(log) < 8 * WINDOW:
        body = bytes([count % 251]) * (CARRY + 5000 if count % 40 == 7 else 997 * (count % 60))
        message = Message("T", body)
        log += codec.encode(message, phy_offset=len(log), queue_offset=count, store_timestamp_ms=1)
        count += 1
    log += bytes(4096)
    (tmp_path / "commitlog" / f"{0:020}").write_bytes(log)
    return tmp_path, count


def test_every_record_comes_once_whatever_the_window_cuts(store: tuple[Path, int]) -> None:
    path, count = store
    reader = rmqcore.read(path)
    offsets = [view.queue_offset for view in reader.messages()]
    assert offsets == list(range(count))
    assert not reader.damage
    assert sum(len(batch) for batch in reader.batches(["queue_offset"])) == count


# Python 3.12 and newer warn of what this is about.
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
@pytest.mark.forks
def test_an_iterator_carried_over_a_fork_goes_on(store: tuple[Path, int]) -> None:
    """The iterator once waited for ever in the child, for a thread that only the parent has."""
    path, count = store
    reader = rmqcore.read(path)
    messages = reader.messages()
    next(messages)

    def rest() -> int:
        return sum(1 for _ in messages)

    assert in_child(rest) == (count - 1) % 256
    assert rest() == count - 1


def in_child(work: Callable[[], int]) -> int:
    """The answer of `work` in a forked child, modulo 256; the child is killed when it hangs."""
    pid = os.fork()
    if pid == 0:
        signal.alarm(120)
        code = 255
        try:
            code = work() % 256
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
