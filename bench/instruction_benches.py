"""Instructions of the hot paths, for each message: a change that makes one slower fails without a clock.

Callgrind counts what the processor is told to do, outside of the kernel: the same every time to some parts in a thousand, however
busy the machine is. It says nothing of caches and page faults; for these there are the other benches.
"""

from __future__ import annotations

import json
import os
import pathlib
import platform
import shutil
import subprocess
import sys
import tempfile

from bench import build
from bench.report import Row

BOUNDS = build.BENCH / "instruction_bounds.json"
"""What was counted when a change was made that meant to: for each path the instructions a message, all and those of our
extensions, and the versions of compiler and interpreter that they hold for."""
MORE = {"own": 1.05, "all": 1.2}
"""How much more another build of the same compiler, or of the same interpreter, may take."""
OWN = "rmqcore/_native/"
TRIGGER = "desc: Trigger: Client Request: "

Counts = dict[str, dict[str, float]]
"""For each path, its parts: ``own``, ``all``."""


def instructions() -> list[Row]:
    """Two rows for each path: instructions a message, beside those that were recorded."""
    if shutil.which("valgrind") is None:
        return [Row("instructions", "all", "needs valgrind", failed=True)]
    document = json.loads(BOUNDS.read_text())
    recorded: Counts = document["instructions"]
    comparable = {part: document["versions"][part] == mine for part, mine in versions().items()}
    rows = []
    for name, found in count().items():
        for part, value in found.items():
            bound = recorded.get(name, {}).get(part)
            told = f"{value:,.0f} a message, recorded {bound} with {document['versions'][part]}"
            ratio = None if bound is None else value / bound
            required = MORE[part] if comparable[part] else None
            rows.append(
                Row(
                    "instructions",
                    f"{name}: {part}",
                    told,
                    ratio,
                    required,
                    at_most=True,
                    failed=bound is None,
                )
            )
    return rows


def versions() -> dict[str, str]:
    """What the numbers depend on, for each part."""
    compiler = [os.environ.get("CC", "cc"), "-dumpversion"]
    done = subprocess.run(compiler, check=True, stdout=subprocess.PIPE, text=True)
    own = f"{platform.machine()}, cc {done.stdout.split('.')[0].strip()}"
    return {"own": own, "all": f"{own}, CPython {sys.version_info.major}.{sys.version_info.minor}"}


def count() -> Counts:
    """Run all paths in callgrind; instructions for each message."""
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder, "callgrind")
        command = [
            "valgrind",
            "--quiet",
            "--tool=callgrind",
            "--instr-atstart=no",
            "--compress-strings=no",
            f"--callgrind-out-file={out}",
            sys.executable,
            "-m",
            "bench.instruction_paths",
            library(),
            f"{folder}/store",
        ]
        # Sets of strings are walked in an order that is drawn anew in each process.
        environment = {**os.environ, "PYTHONHASHSEED": "0"}
        done = subprocess.run(
            [str(word) for word in command],
            check=True,
            stdout=subprocess.PIPE,
            text=True,
            cwd=build.ROOT,
            env=environment,
        )
        counted = dict(read_counts(path) for path in pathlib.Path(folder).glob("callgrind.*"))
    paths = (line.split(" ", 1) for line in done.stdout.splitlines())
    return {
        name: {part: total / int(messages) for part, total in counted[name].items()}
        for messages, name in paths
    }


def read_counts(path: pathlib.Path) -> tuple[str, dict[str, int]]:
    """The name of a part that callgrind wrote, and its instructions: all, and those of our extensions."""
    name, own, everything = "", 0, 0
    is_own = is_call = False
    for line in path.read_text().splitlines():
        if line.startswith(TRIGGER):
            name = line.removeprefix(TRIGGER)
        elif line.startswith("ob="):
            is_own = OWN in line
        elif line.startswith("calls="):
            is_call = True  # the next line has what was called, which counts where it lies
        elif line[:1] in "0123456789+-*" and line:
            if not is_call:
                cost = int(line.split()[1])
                everything += cost
                own += cost if is_own else 0
            is_call = False
    return name, {"own": own, "all": everything}


def library() -> pathlib.Path:
    """Compile ``bench/native/marks.c``."""
    out = build.BUILD / "bin" / "libmarks.so"
    out.parent.mkdir(parents=True, exist_ok=True)
    compiler = os.environ.get("CC", "cc")
    source = build.BENCH / "native" / "marks.c"
    subprocess.run([compiler, "-O2", "-shared", "-fPIC", source, "-o", out], check=True)
    return out


def record() -> None:
    """Write down what is counted now."""
    found = {
        name: {part: round(value) for part, value in parts.items()}
        for name, parts in count().items()
    }
    document = {"versions": versions(), "instructions": found}
    BOUNDS.write_text(json.dumps(document, indent=2) + "\n")


if __name__ == "__main__":
    record()
