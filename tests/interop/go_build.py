"""Finds Go, and builds our program over RocketMQ's Go client when its sources are newer than what was built.

``PYTHONPATH=tests python tests/interop/go_build.py`` builds it and prints its path. The client comes from Go's module proxy on
first use.
"""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from pathlib import Path

from support.tools import find, how_to_install

ROOT = Path(__file__).resolve().parent.parent.parent
SOURCES = ROOT / "tests" / "interop" / "go"
PROGRAM = ROOT / "build" / "go" / "interop"
BUILD_TIMEOUT_S = 600  # the first build of a machine fetches the client and what it needs


class GoBuildError(Exception):
    """Go is not installed, or the build failed."""


@functools.cache
def program() -> Path:
    """Path of the program; built first where needed."""
    go = find("go")
    if go is None:
        raise GoBuildError(
            f"no go on PATH: RocketMQ's Go client needs Go 1.19 or later; {how_to_install(['go'])}"
        )
    newest = max(path.stat().st_mtime for path in SOURCES.iterdir())
    if not PROGRAM.exists() or PROGRAM.stat().st_mtime < newest:
        PROGRAM.parent.mkdir(parents=True, exist_ok=True)
        done = subprocess.run(
            [go, "build", "-mod=readonly", "-buildvcs=false", "-o", str(PROGRAM), "."],
            cwd=SOURCES,
            env={**os.environ, "GOTOOLCHAIN": "local"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=BUILD_TIMEOUT_S,
            check=False,
        )
        if done.returncode:
            raise GoBuildError(f"go answered {done.returncode}:\n{done.stdout}")
        PROGRAM.touch()  # go leaves it as it is when nothing changed
    return PROGRAM


if __name__ == "__main__":
    try:
        sys.stdout.write(f"{program()}\n")
    except GoBuildError as error:
        sys.exit(str(error))
