"""The preloaded shim (tests/faults/shim.c): compiled once, driven by ctypes inside a child process that a fault may kill."""

from __future__ import annotations

import ctypes
import errno
import functools
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

TESTS = Path(__file__).parent
SOURCE = TESTS / "faults" / "shim.c"
CALLS = (
    "msync",
    "fsync",
    "pwrite",
    "fallocate",
    "ftruncate",
    "mmap",
    "madvise",
    "open",
    "rename",
    "unlink",
    "mkdir",
)
EVER = 1 << 40


@functools.cache
def shim_path() -> Path:
    """Compile the shim; the same source is compiled once for all test runs of a user."""
    compiler = shutil.which("cc")
    assert compiler, "the fault tests need a C compiler named cc"
    digest = hashlib.sha256(SOURCE.read_bytes()).hexdigest()[:16]
    path = Path(tempfile.gettempdir()) / f"rmqcore-shim-{os.getuid()}-{digest}.so"
    if not path.exists():
        with tempfile.TemporaryDirectory() as folder:
            working = Path(folder) / "shim.so"
            flags = ["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-O1", "-shared", "-fPIC"]
            subprocess.run(
                [compiler, *flags, SOURCE, "-o", working, "-ldl", "-lpthread"], check=True
            )
            fresh = path.with_name(f"{path.name}.{os.getpid()}")
            shutil.copyfile(working, fresh)
            fresh.replace(path)
    return path


def run_child(
    call: str, *, preload: bool = True, timeout: float = 300
) -> subprocess.CompletedProcess[str]:
    """Run ``module.function(...)`` of the tests folder in a process of its own, by default under the shim."""
    module = call.partition(".")[0]
    program = f"import sys; sys.path.insert(0, {str(TESTS)!r}); import {module}; {call}"
    env = dict(os.environ, PYTHONFAULTHANDLER="1")
    if preload:
        env["LD_PRELOAD"] = str(shim_path())
    return subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
        env=env,
    )


def tell(line: str) -> None:
    """Print to whoever runs this child."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


class Shim:
    """In a child: the plan of failures, and the record."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL(None)
        self._library.shim_watch.argtypes = [ctypes.c_char_p]
        self._library.shim_fail.argtypes = [
            ctypes.c_char_p, ctypes.c_long, ctypes.c_long, ctypes.c_int
        ]  # fmt: skip
        self._library.shim_calls.restype = ctypes.c_long
        self._library.shim_fired.restype = ctypes.c_long
        self._library.shim_note.argtypes = [
            ctypes.c_char, ctypes.c_uint64, ctypes.c_char_p, ctypes.c_size_t
        ]  # fmt: skip

    def watch(self, path: str | os.PathLike[str] | None) -> None:
        """Count calls on files whose path begins so, from now on and from 0; None: no longer."""
        self._library.shim_watch(os.fsencode(path) if path is not None else b"")

    def fail(self, call: str, number: int, *, error: int = errno.EIO, ever: bool = False) -> None:
        """Let the call of this number (from 1) fail, or all from it on."""
        assert call in CALLS
        last = EVER if ever else number
        self._library.shim_fail(call.encode(), number, last, error)

    @property
    def fired(self) -> int:
        """Calls that were made to fail."""
        return int(self._library.shim_fired())

    def calls(self, call: str) -> int:
        """Calls of a kind since `watch`."""
        return int(self._library.shim_calls(call.encode()))

    @contextmanager
    def recording(self, path: str | os.PathLike[str]) -> Iterator[None]:
        """Record what reaches the disk."""
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        self._library.shim_record(fd)
        try:
            yield
        finally:
            self._library.shim_record(-1)
            os.close(fd)

    def note(self, kind: str, data: bytes, inode: int = 0) -> None:
        """Put a note of the test's among the recorded events."""
        self._library.shim_note(kind.encode(), inode, data, len(data))
