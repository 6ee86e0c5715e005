"""The driver's process: requests and answers as JSON lines, with time-outs and with the log's end in every failure."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import queue
import subprocess
import threading
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from interop import java_build

CALL_TIMEOUT_S = 300.0  # longer than the driver waits for anything
LOG_LINES = 25


class JavaError(Exception):
    """A call failed in Java, or there was no answer."""


class JavaProcess:
    """One JVM, which serves many stores.

    Parameters
    ----------
    home : Path
        Where its log and whatever RocketMQ writes into a home directory go.
    environment : mapping, optional
        Variables beside those of this process.
    """

    _numbers = itertools.count(1)

    def __init__(self, home: Path, environment: Mapping[str, str] | None = None) -> None:
        self.home = home / f"jvm{next(self._numbers)}"
        command = java_build.command(self.home, "org.rmqcore.interop.Driver", "-Xmx1g")
        self._log = (self.home / "log").open("wb")
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            env={**os.environ, **(environment or {})},
        )
        self._answers: queue.Queue[bytes] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True, name="java-answers")
        self._reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._answers.put(line)
        self._answers.put(b"")

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def call(self, call: str, *, timeout_s: float = CALL_TIMEOUT_S, **arguments: Any) -> Any:
        """Send one request and wait for its answer; JavaError with the log's end when there is none."""
        if not self.alive:
            raise JavaError(f"{call}: the JVM has ended\n{self.log()}")
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps({"call": call, **arguments}).encode() + b"\n")
            self._process.stdin.flush()
            line = self._answers.get(timeout=timeout_s)
        except queue.Empty:
            self.kill()
            raise JavaError(f"{call}: no answer in {timeout_s:g} s\n{self.log()}") from None
        except OSError as error:
            raise JavaError(f"{call}: {error}\n{self.log()}") from error
        if not line:
            code = self._process.wait()
            raise JavaError(f"{call}: the JVM ended with {code}\n{self.log()}")
        answer = json.loads(line)
        if "error" in answer:
            raise JavaError(f"{call}: {answer['error']}\n{answer['trace']}\n{self.log()}")
        return answer["answer"]

    def crash(self) -> None:
        """End the JVM at once, as a crash does: no store is shut down, `abort` and locks stay as they are."""
        with contextlib.suppress(JavaError):
            self.call("crash")
        self._process.wait(timeout=CALL_TIMEOUT_S)
        self._close_pipes()

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        self._close_pipes()

    def stop(self) -> None:
        """End the JVM; no store is shut down."""
        if self.alive:
            self.kill()
        else:
            self._close_pipes()

    def _close_pipes(self) -> None:
        self._reader.join(timeout=CALL_TIMEOUT_S)
        for stream in (self._process.stdin, self._process.stdout, self._log):
            assert stream is not None
            with contextlib.suppress(OSError):  # what was still buffered for a process that is gone
                stream.close()

    def log(self) -> str:
        """The last lines that RocketMQ logged."""
        lines = (self.home / "log").read_text(errors="replace").splitlines()
        return "\n".join(["-- its log ends with", *lines[-LOG_LINES:]])
