"""The process of `killed_query`, and the gate at which its tasks wait."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import IO, Any

PATIENCE = 240.0
"""Seconds after which a test that waits has failed; nothing else hangs on time."""


class Gate:
    """Lets tasks pass, a number of them; the next one waits, and so its batch is not done."""

    def __init__(self) -> None:
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._server.getsockname()[1]
        self._changed = threading.Condition()
        self._allowed = 0
        self._held: list[socket.socket] = []
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def _accept(self) -> None:
        while True:
            try:
                task = self._server.accept()[0]
            except OSError:  # closed
                return
            with self._changed:
                if self._allowed:
                    self._allowed -= 1
                    task.close()
                else:
                    self._held.append(task)
                    self._changed.notify_all()

    def hold_after(self, tasks: int) -> None:
        """Let so many tasks pass, and hold the next."""
        with self._changed:
            self._allowed = tasks

    def wait_for_task(self) -> None:
        """Wait until a task is held."""
        with self._changed:
            assert self._changed.wait_for(lambda: self._held, PATIENCE), "no task came by"

    def let_go(self) -> None:
        """Let those that are held pass, or find that their Spark is gone."""
        with self._changed:
            for task in self._held:
                task.close()
            self._held.clear()

    def close(self) -> None:
        self._server.close()
        self.let_go()


class QueryProcess:
    """One driver with its JVM, in a process group of its own."""

    def __init__(self, folder: Path, path: str, gate: Gate, options: dict[str, Any]) -> None:
        script = Path(__file__).with_name("killed_query.py")
        arguments = [str(folder), path, str(gate.port), json.dumps(options)]
        self._log = open(folder / "driver.log", "ab")  # noqa: SIM115 - closed with the process
        self._process = subprocess.Popen(
            [sys.executable, str(script), *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            start_new_session=True,
            env=os.environ | {"SPARK_LOCAL_DIRS": str(folder / "local"), "TZ": "UTC"},
        )
        self._ready = False

    def do(self, verb: str) -> None:
        """Say one thing, and wait until it is done."""
        if not self._ready:
            self._ready = True
            self._hear("ready")
        stdin = self._process.stdin
        assert stdin is not None
        stdin.write(verb + "\n")
        stdin.flush()
        self._hear(verb.partition(" ")[0])

    def kill(self) -> None:
        """SIGKILL to driver and JVM; nothing of them says goodbye."""
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self.close()

    def close(self) -> None:
        """End it if it runs."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            _close(pipe)
        self._log.close()

    def _hear(self, wanted: str) -> None:
        stdout = self._process.stdout
        assert stdout is not None
        watch = threading.Timer(PATIENCE, self._process.kill)
        watch.start()
        try:
            for line in stdout:
                if line.startswith("## "):
                    assert line.split()[1] == wanted, line
                    return
        finally:
            watch.cancel()
        raise AssertionError(f"the driver ended before it answered {wanted}: see {self._log.name}")


def _close(pipe: IO[str] | None) -> None:
    if pipe is not None:
        try:
            pipe.close()
        except BrokenPipeError:  # it was killed with a line unread
            return
