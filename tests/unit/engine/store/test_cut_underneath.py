"""A log file that another program cuts while a store is open: what docs/durability.md says of it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

import rmqcore
from rmqcore import Message
from rmqcore.errors import StoreFormatError

SMALL: dict[str, Any] = {"mapped_file_size_commit_log": 1 << 16, "services": False}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    with rmqcore.open(tmp_path, **SMALL) as store:
        for _ in range(400):
            store.put(Message("t", b"x" * 500)).raise_for_status()
        store.wait_dispatched()
    return tmp_path


def test_a_file_that_was_not_read_yet_is_an_error_with_both_sizes(root: Path) -> None:
    oldest = root / "commitlog" / ("0" * 20)
    with rmqcore.open(root, **SMALL) as store:
        os.truncate(oldest, 5000)
        with pytest.raises(StoreFormatError, match=f"{oldest}: file size is 5000, expected 65536"):
            store.lookup(0)
        with pytest.raises(StoreFormatError, match="file size is 5000"):
            store.get("t", 0, 0)
        store.put(Message("t", b"")).raise_for_status()
        assert store.get("t", 0, 390).messages[0].body == b"x" * 500, "newer files answer"
