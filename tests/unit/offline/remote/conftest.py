"""Stores behind URLs, and a temporary directory of the test's own in which nothing may be left."""

from __future__ import annotations

import gc
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.remote.memory_stores import MemoryStores, left_behind, memory_stores


@pytest.fixture
def memory() -> Iterator[MemoryStores]:
    with memory_stores() as found:
        yield found


@pytest.fixture(autouse=True)
def own_tmp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Here skeletons are made; at the end of each test nothing lies there any more."""
    folder = tmp_path / "tmp"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    yield folder
    gc.collect()  # a reader and its lookup hold each other
    assert left_behind() == []
