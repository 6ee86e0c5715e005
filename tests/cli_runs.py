"""Runs of the command line: what they answer, and children on a terminal."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

COMMAND = [sys.executable, "-m", "rmqcore.cli"]


@dataclass
class Result:
    """What a run printed and answered."""

    code: int
    out: bytes
    err: str

    @property
    def lines(self) -> list[Any]:
        """Stdout as JSON Lines."""
        return [json.loads(line) for line in self.out.splitlines()]

    @property
    def object(self) -> Any:
        """Stdout as one JSON object."""
        return json.loads(self.out)


class Run(Protocol):
    """Runs ``rmqcore`` with these words; stdout is no terminal."""

    def __call__(self, *words: str | Path) -> Result: ...


@dataclass
class Terminal:
    """A terminal that a child's streams can be connected to."""

    master: int
    slave: int

    def read_to_end(self) -> str:
        """All that was written, once the child has ended."""
        os.close(self.slave)
        text = b""
        while True:
            try:
                part = os.read(self.master, 65536)
            except OSError:  # Linux answers EIO where others say end of file
                break
            if not part:
                break
            text += part
        return text.decode()


@contextmanager
def open_terminal() -> Iterator[Terminal]:
    master, slave = pty.openpty()
    try:
        yield Terminal(master, slave)
    finally:
        os.close(master)


def environment(**more: str) -> dict[str, str]:
    """A child's environment without what would change the output."""
    dropped = {"NO_COLOR", "FORCE_COLOR", "COLUMNS", "LINES", "TTY_COMPATIBLE", "TTY_INTERACTIVE"}
    base = {name: value for name, value in os.environ.items() if name not in dropped}
    return {**base, "TERM": "xterm", "TZ": "UTC", **more}


def in_terminal(*words: str | Path, streams: str = "stdout stderr", **more: str) -> tuple[int, str, bytes]:
    """Run with these streams on a terminal; answer the exit code, what the terminal got, and the other stream."""
    with open_terminal() as terminal:
        on = {name: terminal.slave if name in streams.split() else subprocess.PIPE for name in ("stdout", "stderr")}
        done = subprocess.run(
            [*COMMAND, *map(str, words)], env=environment(**more), timeout=60, check=False, **on  # type: ignore[call-overload]
        )
        text = terminal.read_to_end()
    return done.returncode, text, done.stdout or done.stderr or b""
