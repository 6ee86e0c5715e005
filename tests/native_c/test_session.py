"""Dispatch sessions under ThreadSanitizer: what they share with the threads beside them is in an order that holds."""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess

import pytest

HERE = pathlib.Path(__file__).parent
KERNELS = HERE.parent.parent / "src" / "rmqcore" / "_native"
ROOMS = ("crc32", "dispatch", "files", "format", "index", "put", "queues", "scan", "threads")
FLAGS = {
    "threads": ["-O1", "-g", "-fsanitize=thread", "-Wno-tsan"],  # fences, which it does not know
    "addresses": ["-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=undefined"],
}


@pytest.mark.large
@pytest.mark.parametrize("flags", FLAGS)
def test_sessions_beside_other_threads(tmp_path: pathlib.Path, flags: str) -> None:
    compiler = shutil.which("cc")
    assert compiler, "the native tests need a C compiler named cc"
    program = tmp_path / "session"
    queues = tmp_path / "consumequeue"
    queues.mkdir()
    sources = [path for room in ROOMS for path in (KERNELS / room).glob("*.c")]
    subprocess.run(
        [
            compiler,
            "-std=gnu11",
            *FLAGS[flags],
            f"-I{KERNELS}",
            *sources,
            HERE / "test_session.c",
            "-o",
            program,
            "-lpthread",
        ],
        check=True,
    )
    # Where the interpreter itself runs under a sanitizer, its run-time must not get into a program with another one.
    own = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    done = subprocess.run(
        [program, queues], capture_output=True, text=True, check=False, timeout=300, env=own
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout == "session: 0 failures\n"
