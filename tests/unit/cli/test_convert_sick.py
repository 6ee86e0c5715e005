"""`convert` of a store whose database cannot be read: an error with its name, and nothing is left of the new store."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.cli.cli_runs import Run
from support.stores.rocksdb_halves import HALVES
from support.stores.rocksdb_queues import in_rocksdb

import rmqcore as package
from rmqcore import Message
from rmqcore.maintenance.convert import queue_files


@pytest.fixture
def root(tmp_path: Path) -> Path:
    place = tmp_path / "stores" / "store"
    sizes: dict[str, Any] = {
        "mapped_file_size_commit_log": 1 << 16,
        "mapped_file_size_consume_queue": 400,
    }
    with package.open(place, max_hash_slot_num=50, max_index_num=200, **sizes) as store:
        for number in range(100):
            store.put(Message("T", b"%d" % number * 40, number % 2, keys="k")).raise_for_status()
        store.wait_dispatched()
    in_rocksdb(place)
    return place


def contents(folder: Path) -> dict[str, object]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        if path.is_file() and not path.is_symlink()
        else os.lstat(path).st_mode
        for path in sorted(folder.rglob("*"))
    }


def a_link_in_its_place(place: Path) -> None:
    place.rename(place.parent.parent / "elsewhere")
    place.symlink_to(place.parent.parent / "elsewhere")


def no_files(place: Path) -> None:
    for path in place.iterdir():
        path.unlink()


@pytest.mark.parametrize("made", [False, True], ids=["OUT is new", "OUT is empty"])
@pytest.mark.parametrize("harm", [*HALVES, a_link_in_its_place, no_files])
def test_half_a_database(
    rmqcore: Run, root: Path, tmp_path: Path, harm: Callable[[Path], None], made: bool
) -> None:
    harm(root / "consumequeue")
    out = tmp_path / "stores" / "out"
    if made:
        out.mkdir()
    before = contents(tmp_path)
    done = rmqcore("convert", root, out)
    assert done.code in (1, 2), done.err
    assert "consumequeue" in done.err or "no queue database" in done.err
    assert done.out == b""
    assert contents(tmp_path) == before


def test_a_disk_that_fills(
    rmqcore: Run, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = 0

    def write(fd: int, data: bytes, pos: int) -> None:
        nonlocal written
        written += 1
        if written > 1:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        os.pwrite(fd, data, pos)

    monkeypatch.setattr(queue_files, "write_all", write)
    before = contents(tmp_path)
    done = rmqcore("convert", root, tmp_path / "out")
    assert (done.code, done.out) == (1, b"")
    assert "No space left on device" in done.err
    assert contents(tmp_path) == before


def test_where_out_must_not_be(rmqcore: Run, root: Path, tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine").touch()
    (tmp_path / "file").touch()
    (tmp_path / "leads to the store").symlink_to(root)
    (tmp_path / "leads nowhere").symlink_to(tmp_path / "nothing")
    before = contents(tmp_path)
    for out in (
        root,
        root / "out",
        root / "consumequeue",
        tmp_path / "full",
        tmp_path / "file",
        tmp_path / "leads to the store" / "out",
        tmp_path / "leads nowhere",
        root.parent,
    ):
        done = rmqcore("convert", root, out)
        assert (done.code, done.out) in ((1, b""), (64, b"")), out
        assert done.err
        assert contents(tmp_path) == before, out


def test_a_database_of_another_store(rmqcore: Run, root: Path, tmp_path: Path) -> None:
    """Its entries lead to no record, or to those of other queues."""
    other = tmp_path / "stores" / "other"
    with package.open(other, mapped_file_size_commit_log=1 << 16) as store:
        for number in range(150):
            store.put(Message("Other", b"%d" % number * 30, number % 3)).raise_for_status()
        store.wait_dispatched()
    in_rocksdb(other)
    shutil.rmtree(root / "consumequeue")
    shutil.copytree(other / "consumequeue", root / "consumequeue")
    done = rmqcore("convert", root, tmp_path / "out")
    assert done.code == 2
    assert "fsck finds damage in OUT (" in done.err
    assert "cq_entry" in done.err
    done = rmqcore("convert", root, tmp_path / "unchecked", "--no-check", "--json")
    assert (done.code, done.object["fsck"]) == (0, None)
