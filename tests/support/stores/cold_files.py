"""Files that the system's cache does not hold."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable
from pathlib import Path

import pytest


def make_cold(root: Path) -> None:
    """Put all files under a directory, which nobody has open, out of the cache; a test on a disk of memory is skipped."""
    kind = subprocess.run(["stat", "-f", "-c", "%T", root], capture_output=True, check=True)
    if kind.stdout.strip() in {b"tmpfs", b"ramfs"}:
        pytest.skip("this file system is memory: no file of it is ever cold")
    for path in _files(root):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(descriptor)


def _files(root: Path) -> Iterable[Path]:
    return [path for path in root.rglob("*") if path.is_file()]
