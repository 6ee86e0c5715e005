"""Runs a command and prints its time and peak memory as JSON: ``python -m bench.rusage [--one-core] COMMAND ...``.

It is a process of its own because the kernel counts the memory of the process that starts a command as
memory of the command: a bench that holds a gigabyte would report a gigabyte for every command.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time


def main(arguments: list[str]) -> int:
    if arguments[0] == "--one-core":
        arguments = arguments[1:]
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    start = time.perf_counter()
    with subprocess.Popen(arguments, stdout=subprocess.DEVNULL) as child:
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    print(
        json.dumps(
            {
                "seconds": time.perf_counter() - start,
                "cpu_seconds": usage.ru_utime + usage.ru_stime,
                "max_rss_mib": usage.ru_maxrss / 1024,
                "exit_code": child.returncode,
            }
        )
    )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
