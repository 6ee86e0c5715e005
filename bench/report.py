"""What a run measured: a row for each measurement, with its ratio and the ratio that is required."""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
import platform
import time


@dataclasses.dataclass(frozen=True)
class Row:
    """One measurement. `required` is the least value that `ratio` may have, or with `at_most` the value it must stay below.

    A measurement that could not be made has `failed` set, and its requirement does not hold.
    """

    group: str
    name: str
    measured: str
    ratio: float | None = None
    required: float | None = None
    unit: str = "x"
    at_most: bool = False
    failed: bool = False

    @property
    def holds(self) -> bool | None:
        if self.failed:
            return False
        if self.required is None or self.ratio is None:
            return None
        return self.ratio < self.required if self.at_most else self.ratio >= self.required

    def cells(self) -> tuple[str, ...]:
        ratio = "" if self.ratio is None else f"{self.ratio:.3g} {self.unit}"
        sign = "<" if self.at_most else ">="
        required = "" if self.required is None else f"{sign} {self.required:g} {self.unit}"
        holds = {None: "", True: "yes", False: "NO"}[self.holds]
        return self.group, self.name, self.measured, ratio, required, holds


def machine() -> dict[str, str]:
    """CPU, kernel, Python and load of this machine: without them a number says nothing."""
    cpu = platform.processor() or platform.machine()
    info = pathlib.Path("/proc/cpuinfo")
    if info.exists():
        names = [
            line
            for line in info.read_text().splitlines()
            if line.startswith(("model name", "CPU part"))
        ]
        cpu = names[0].split(":", 1)[1].strip() if names else cpu
    return {
        "cpu": f"{cpu}, {os.cpu_count()} cores",
        "kernel": f"{platform.system()} {platform.release()} {platform.machine()}",
        "python": platform.python_version(),
        "load": " ".join(f"{load:.1f}" for load in os.getloadavg()),
        "time": time.strftime("%Y-%m-%d %H:%M:%S"),
    }


def table(rows: list[Row]) -> str:
    """The rows as text, with a column for each field."""
    lines = [
        ("group", "name", "measured", "ratio", "required", "holds"),
        *(row.cells() for row in rows),
    ]
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    lines.insert(1, tuple("-" * width for width in widths))
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def write_json(path: pathlib.Path, rows: list[Row], where: dict[str, str], mib: int) -> None:
    document = {
        "machine": where,
        "mib": mib,
        "rows": [{**dataclasses.asdict(row), "holds": row.holds} for row in rows],
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document, indent=1) + "\n")
