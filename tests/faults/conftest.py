"""A folder in memory where the system has one: these tests sync some thousand times, and they do not test the disk."""

from __future__ import annotations

import os
import random
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


class Rand(random.Random):
    """Shows its seed when a test fails; RMQCORE_SEED repeats it."""

    def __init__(self, start: int) -> None:
        super().__init__(start)
        self.start = start

    def __repr__(self) -> str:
        return f"<RMQCORE_SEED={self.start}>"


@pytest.fixture
def rng() -> random.Random:
    """A generator of choices: the same for the same commit, others with RMQCORE_SEED, as every night."""
    return Rand(int(os.environ.get("RMQCORE_SEED", "7")))
