"""The abort file."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rmqcore.disk.abort import AbortFile


def test_there_while_open(tmp_path: Path) -> None:
    abort = AbortFile(tmp_path / "abort")
    assert not abort.exists
    abort.create()
    assert abort.exists
    assert abort.path.read_text() == str(os.getpid())
    abort.create()
    assert sorted(os.listdir(tmp_path)) == ["abort"]
    abort.remove()
    assert not abort.exists
    abort.remove()


def test_javas_counts_whatever_it_holds(tmp_path: Path) -> None:
    (tmp_path / "abort").write_bytes(b"")
    assert AbortFile(tmp_path / "abort").exists


def test_a_directory_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        AbortFile(tmp_path / "none" / "abort").create()
