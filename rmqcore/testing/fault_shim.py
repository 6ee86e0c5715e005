"""The preloaded shim (shim/calls.c, shim/record.c): compiled once, driven by ctypes inside a child that a fault may kill."""

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

SOURCES = Path(__file__).parent / "shim"
CALLS = (
    "msync",
    "fsync",
    "pwrite",
    "write",
    "fallocate",
    "ftruncate",
    "mmap",
    "madvise",
    "open",
    "rename",
    "unlink",
    "mkdir",
    "rmdir",
    "lock",
    "pread",
    "read",
    "stat",
    "opendir",
)
"""Kinds of calls that can be made to fail; "any" counts all of them."""
EVER = 1 << 40


def why_not() -> str | None:
    """Return why the shim cannot run here; None if it can."""
    if sys.platform != "linux":
        return "only Linux's ld.so preloads it"
    if shutil.which("cc") is None:
        return "there is no C compiler named cc"
    return None


@functools.cache
def shim_path() -> Path:
    """Compile the shim; the same source is compiled once for all runs of a user.

    Raises
    ------
    subprocess.CalledProcessError
        The compiler refuses the source.
    FileNotFoundError
        The compiler is missing.
    """
    compiler = shutil.which("cc")
    if compiler is None:
        raise FileNotFoundError(errno.ENOENT, "no C compiler of this name", "cc")
    files = sorted(SOURCES.glob("*.[ch]"))
    digest = hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:16]
    path = Path(tempfile.gettempdir()) / f"rmqcore-shim-{os.getuid()}-{digest}.so"
    if not path.exists():
        with tempfile.TemporaryDirectory() as folder:
            working = Path(folder) / "shim.so"
            flags = ["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-O1", "-shared", "-fPIC"]
            sources = [file for file in files if file.suffix == ".c"]
            command: list[str | Path] = [
                compiler,
                *flags,
                *sources,
                "-o",
                working,
                "-ldl",
                "-lpthread",
            ]
            subprocess.run(command, check=True)
            fresh = path.with_name(f"{path.name}.{os.getpid()}")
            shutil.copyfile(working, fresh)
            fresh.replace(path)
    return path


def run_child(
    call: str, *, preload: bool = True, timeout: float = 300, package: str = "rmqcore.testing"
) -> subprocess.CompletedProcess[str]:
    """Run ``module.function(...)`` of a package in a process of its own, by default under the shim."""
    module = call.partition(".")[0]
    program = f"from {package} import {module}; {call}"
    paths = os.pathsep.join(
        path for path in sys.path if path
    )  # the child finds the same modules as this process
    env = dict(os.environ, PYTHONFAULTHANDLER="1", PYTHONPATH=paths)
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
    """Print a line for the parent process."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


class Shim:
    """The plan of failures and the record, inside a child."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL(None)
        self._library.shim_watch.argtypes = [ctypes.c_char_p]
        self._library.shim_fail.argtypes = [
            ctypes.c_char_p,
            ctypes.c_long,
            ctypes.c_long,
            ctypes.c_int,
        ]
        self._library.shim_calls.restype = ctypes.c_long
        self._library.shim_fired.restype = ctypes.c_long
        self._library.shim_fired_name.restype = ctypes.c_char_p
        self._library.shim_note.argtypes = [ctypes.c_char, ctypes.c_char_p, ctypes.c_size_t]

    def watch(self, path: str | os.PathLike[str] | None) -> None:
        """Count calls on files whose path starts with `path`, from 0 on; None: stop counting."""
        self._library.shim_watch(os.fsencode(path) if path is not None else b"")

    def fail(self, call: str, number: int, *, error: int = errno.EIO, ever: bool = False) -> None:
        """Make the call of this number (from 1) fail, or all calls from it on."""
        assert call in (*CALLS, "any")
        last = EVER if ever else number
        self._library.shim_fail(call.encode(), number, last, error)

    @property
    def fired(self) -> int:
        """Number of calls that were made to fail."""
        return int(self._library.shim_fired())

    @property
    def fired_name(self) -> str:
        """The kind of the last call that failed."""
        name: bytes = self._library.shim_fired_name()
        return name.decode()

    def calls(self, call: str) -> int:
        """Return the number of calls of a kind since `watch`."""
        return int(self._library.shim_calls(call.encode()))

    @contextmanager
    def recording(self, path: str | os.PathLike[str]) -> Iterator[None]:
        """Record everything that changes the watched files."""
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        self._library.shim_record(fd)
        try:
            yield
        finally:
            self._library.shim_record(-1)
            os.close(fd)

    def note(self, kind: str, data: bytes) -> None:
        """Add a note to the recorded events."""
        self._library.shim_note(kind.encode(), data, len(data))
