"""Processor time of each thread of this process, and time that the host kept back: what a rate by the clock can be at most."""

from __future__ import annotations

import os
import pathlib
import threading

TASKS = pathlib.Path("/proc/self/task")
STOLEN = 8  # the column of /proc/stat


def running_ns() -> dict[str, int]:
    """Nanoseconds that each thread has run, by the thread's name; a service of a store without ``rmqcore-`` in front."""
    names = {str(thread.native_id): thread.name for thread in threading.enumerate()}
    found: dict[str, int] = {}
    for task in TASKS.iterdir():
        try:
            ran = int((task / "schedstat").read_text().split()[0])
        except OSError:  # it has ended meanwhile
            continue
        name = names.get(task.name, "other").removeprefix("rmqcore-")
        found[name] = found.get(name, 0) + ran
    return found


def between(before: dict[str, int], after: dict[str, int]) -> dict[str, int]:
    """What the threads ran between two looks."""
    return {name: ran - before.get(name, 0) for name, ran in after.items()}


def stolen_ms() -> float:
    """Milliseconds since boot that cores of this machine had work and its host gave them to others, all cores together."""
    columns = pathlib.Path("/proc/stat").read_text().splitlines()[0].split()
    return int(columns[STOLEN]) * 1e3 / os.sysconf("SC_CLK_TCK")
