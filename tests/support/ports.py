"""Ports for servers that a test starts: no two processes of this machine are given the same ones at a time."""

from __future__ import annotations

import contextlib
import fcntl
import os
import random
import socket
import tempfile
import weakref
from pathlib import Path

BLOCK = 8
"""Ports that lie side by side: a broker of RocketMQ listens on its port, on the next one, and on the one two below."""
FIRST = 12_000
BEYOND = 32_000
"""Linux gives connections ports from 32,768 on, and other systems from 49,152 on."""
LOCKS = Path(tempfile.gettempdir()) / f"rmqcore-test-ports-{os.getuid()}"


class PortBlock:
    """Eight ports side by side, which belong to this process until the object is closed or gone.

    A server binds its ports seconds after they were chosen. A port that was free may be taken in between, by the
    tests of another process, so each block has a file, and the process that locks the file has the block, until it ends.

    Attributes
    ----------
    first : int
        The lowest port; the others are those above it.
    """

    def __init__(self) -> None:
        LOCKS.mkdir(exist_ok=True)
        blocks = range(FIRST, BEYOND, BLOCK)
        # Not the generator that Hypothesis seeds, which would draw the same blocks in each process.
        for first in random.SystemRandom().sample(blocks, len(blocks)):
            lock = _locked(LOCKS / f"{first}")
            if lock is None:
                continue
            if _are_free(range(first, first + BLOCK)):
                self.first = first
                self._close = weakref.finalize(self, os.close, lock)
                return
            os.close(lock)
        raise OSError(f"all ports from {FIRST} to {BEYOND - 1} are taken")

    def close(self) -> None:
        """Leave the ports to others."""
        self._close()


def _locked(path: Path) -> int | None:
    """Open a file and lock it; None where another process has it."""
    lock = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        return None
    return lock


def _are_free(ports: range) -> bool:
    """Say whether programs that hold no lock have left all of them free."""
    with contextlib.ExitStack() as bound:
        for port in ports:
            try:
                bound.enter_context(socket.socket()).bind(("127.0.0.1", port))
            except OSError:
                return False
    return True
