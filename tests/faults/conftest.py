"""A folder in memory where the system has one: these tests sync some thousand times, and they do not test the disk."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

SHARED_MEMORY = Path("/dev/shm")


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A folder for stores that are synced many times."""
    if not SHARED_MEMORY.is_dir():
        yield tmp_path
        return
    made = Path(tempfile.mkdtemp(prefix="rmqcore-", dir=SHARED_MEMORY))
    yield made
    shutil.rmtree(made)
