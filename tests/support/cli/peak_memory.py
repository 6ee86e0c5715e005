"""The most memory that a run of the command line had at once, in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys

RUN = """
import sys
sys.argv = ["rmqcore", *sys.argv[1:]]
from rmqcore.cli import main
try:
    code = main()
finally:
    with open("/proc/self/status") as status:
        peak = next(line for line in status if line.startswith("VmHWM"))
    print("\\n" + peak.split()[1], file=sys.stderr)
sys.exit(code)
"""


def peak_kib(*words: str | os.PathLike[str], source: str = RUN) -> tuple[int, int]:
    """Exit code, and the KiB that were resident at once, files' pages included, as the kernel counts them (VmHWM).

    ``ru_maxrss`` of a child counts also what the process had that started it.
    """
    done = subprocess.run(
        [sys.executable, "-c", source, *map(str, words)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    last = done.stderr.splitlines()[-1:]
    assert last and last[0].isdigit(), done.stderr[-2000:]
    return done.returncode, int(last[0])
