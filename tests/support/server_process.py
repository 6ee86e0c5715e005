"""``rmqcore serve`` in a process of its own, as an operator runs it: started, ended, killed, and started again on its ports."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

READY_SECONDS = 120.0
END_SECONDS = 120.0
SMALL: dict[str, Any] = {
    "mappedFileSizeCommitLog": 1 << 20,
    "mappedFileSizeConsumeQueue": 6000,
    "maxHashSlotNum": 100,
    "maxIndexNum": 1000,
    "diskMaxUsedSpaceRatio": 100,
}
"""Settings of a store whose files a test fills."""
OPENED: dict[str, Any] = {
    "mapped_file_size_commit_log": 1 << 20,
    "mapped_file_size_consume_queue": 6000,
    "max_hash_slot_num": 100,
    "max_index_num": 1000,
    "disk_max_used_space_ratio": 100,
}
"""The same, for `rmqcore.open`."""


class ServerProcess:
    """A broker and a name server on a store. What it has said on stderr stands in `log`.

    `before` is put before its command line: a program that runs it.

    Attributes
    ----------
    store : Path
    broker, namesrv : str
        Where they listen, once `start` has returned; a later start uses the same ports.
    ha : str
        Where slaves get the log; empty: nowhere.
    """

    def __init__(
        self,
        folder: Path,
        *options: str,
        settings: Mapping[str, Any] | None = None,
        before: Sequence[str] = (),
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.store = folder / "store"
        self.broker = self.namesrv = self.ha = ""
        self._options = options
        self._before = before
        self._log = folder / "serve.log"
        self._conf = folder / "serve.conf"
        given = {**SMALL, **(settings or {})}
        self._conf.write_text("".join(f"{name}={value}\n" for name, value in given.items()))
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None and self._process.poll() is None:
            self.kill()

    @property
    def process(self) -> subprocess.Popen[str]:
        """The process of the last start."""
        assert self._process is not None
        return self._process

    @property
    def log(self) -> str:
        """What all starts have said on stderr."""
        return self._log.read_text(errors="replace")

    def start(self) -> None:
        """Start it, and wait until clients can be served."""
        ports = ["--port", self.broker.rpartition(":")[2] or "0"]
        if self.namesrv:
            ports += ["--namesrv-port", self.namesrv.rpartition(":")[2]]
        words = ["serve", str(self.store), *ports, "--config", str(self._conf), "--json"]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [*self._before, sys.executable, "-m", "rmqcore", *words, *self._options],
                stdout=subprocess.PIPE,
                stderr=log,
                stdin=subprocess.DEVNULL,
                text=True,
            )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            code = self._process.wait(READY_SECONDS)
            raise AssertionError(f"no server (exit code {code}): {self.log[-4000:]}")
        ready = json.loads(line)
        self.broker, self.namesrv = ready["broker"], ready["namesrv"] or ""
        self.ha = ready["ha"] or ""

    def signal(self, number: int = signal.SIGTERM) -> None:
        """Send it a signal."""
        self.process.send_signal(number)

    def wait(self, seconds: float = END_SECONDS) -> int:
        """Give its exit code, once it has ended."""
        code = self.process.wait(seconds)
        assert self.process.stdout is not None
        self.process.stdout.close()
        return code

    def stop(self) -> int:
        """End it as an operator does."""
        self.signal()
        return self.wait()

    def kill(self) -> None:
        """End it as a crash does."""
        self.process.kill()
        self.wait()

    def is_running(self) -> bool:
        """Say whether it has not ended."""
        return self.process.poll() is None

    def open_files(self) -> int:
        """How many file descriptors it has, sockets included."""
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def anonymous_bytes(self) -> int:
        """Its resident memory that no file stands behind."""
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("RssAnon:"):
                return int(line.split()[1]) << 10
        raise AssertionError("no RssAnon")


def fsck(store: Path) -> tuple[int, str]:
    """Check a store by the command line; give the exit code and what it said."""
    done = subprocess.run(
        [sys.executable, "-m", "rmqcore", "fsck", str(store)],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    return done.returncode, done.stdout + done.stderr
