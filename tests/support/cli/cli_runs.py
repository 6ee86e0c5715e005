"""Runs of the command line: what they answer, and children on a terminal."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
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


class Terminal:
    """A terminal that a child's streams can be connected to; a thread reads it, for its buffer is small."""

    def __init__(self) -> None:
        self.master, self.slave = pty.openpty()
        self._text = b""
        self._news = threading.Condition()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        while True:
            try:
                part = os.read(self.master, 65536)
            except OSError:  # Linux answers EIO where others say end of file
                part = b""
            with self._news:
                self._text += part
                self._news.notify_all()
            if not part:
                break

    def wait_for(self, text: bytes) -> None:
        """Return once this was written."""
        with self._news:
            assert self._news.wait_for(lambda: text in self._text, timeout=60), self._text

    def read_to_end(self) -> str:
        """All that was written, once the child has ended."""
        os.close(self.slave)
        self._thread.join(60)
        return self._text.decode()


@contextmanager
def open_terminal() -> Iterator[Terminal]:
    terminal = Terminal()
    try:
        yield terminal
    finally:
        os.close(terminal.master)


def environment(**more: str) -> dict[str, str]:
    """A child's environment without what would change the output."""
    dropped = {"NO_COLOR", "FORCE_COLOR", "COLUMNS", "LINES", "TTY_COMPATIBLE", "TTY_INTERACTIVE"}
    base = {name: value for name, value in os.environ.items() if name not in dropped}
    return {**base, "TERM": "xterm", "TZ": "UTC", **more}


def in_terminal(
    *words: str | Path,
    streams: str = "stdout stderr",
    program: Sequence[str] = COMMAND,
    **more: str,
) -> tuple[int, str, bytes]:
    """Run with these streams on a terminal; answer the exit code, what the terminal got, and the other stream."""
    with open_terminal() as terminal:
        on = {
            name: terminal.slave if name in streams.split() else subprocess.PIPE
            for name in ("stdout", "stderr")
        }
        done = subprocess.run(
            [*program, *map(str, words)],
            env=environment(**more),
            timeout=300,
            check=False,
            **on,  # type: ignore[call-overload]
        )
        text = terminal.read_to_end()
    return done.returncode, text, done.stdout or done.stderr or b""
