"""CPU time and memory of a Spark session's processes: the JVM, and the Python workers that it started (Linux)."""

from __future__ import annotations

import dataclasses
import os
import pathlib
from typing import Any

TICKS = os.sysconf("SC_CLK_TCK")


@dataclasses.dataclass(frozen=True)
class CpuSeconds:
    """CPU seconds of the JVM, and of the Python processes under it."""

    jvm: float
    python: float

    def __sub__(self, other: CpuSeconds) -> CpuSeconds:
        return CpuSeconds(self.jvm - other.jvm, self.python - other.python)


class Processes:
    """The processes of a local session.

    Parameters
    ----------
    spark : SparkSession
    """

    def __init__(self, spark: Any) -> None:
        self._jvm = int(spark._jvm.java.lang.ProcessHandle.current().pid())  # noqa: SLF001
        self._python: dict[int, float] = {}
        self._peaks: dict[int, float] = {}

    def workers(self) -> list[int]:
        """Python processes under the JVM: the daemon and the workers that it forked."""
        found, waiting = [], _children(self._jvm)
        while waiting:
            pid = waiting.pop()
            found.append(pid)
            waiting += _children(pid)
        return found

    def cpu(self) -> CpuSeconds:
        """CPU seconds so far; a worker that has ended counts with the seconds of the last look at it."""
        self._look()
        return CpuSeconds(_cpu_seconds(self._jvm), sum(self._python.values()))

    def peak_rss_mib(self) -> float:
        """The most memory that any Python worker ever had, in MiB."""
        self._look()
        return max(self._peaks.values(), default=0.0)

    def _look(self) -> None:
        # Spark ends a worker that had nothing to do for a minute: its numbers of the last look are kept.
        for pid in self.workers():
            self._python[pid] = max(self._python.get(pid, 0.0), _cpu_seconds(pid))
            self._peaks[pid] = max(self._peaks.get(pid, 0.0), _peak_rss_mib(pid))


def _children(pid: int) -> list[int]:
    found = []
    for task in pathlib.Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            found += [int(child) for child in task.read_text().split()]
        except FileNotFoundError:  # the thread has ended
            continue
    return found


def _cpu_seconds(pid: int) -> float:
    """User and system time of a process."""
    try:
        fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except FileNotFoundError:
        return 0.0
    return sum(int(ticks) for ticks in fields[11:13]) / TICKS


def _peak_rss_mib(pid: int) -> float:
    try:
        status = pathlib.Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return 0.0
    lines = [line for line in status.splitlines() if line.startswith("VmHWM:")]
    return int(lines[0].split()[1]) / 1024 if lines else 0.0
