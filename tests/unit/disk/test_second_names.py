"""A file that has a second name, of a backup or a snapshot, is not written through the one in a store."""

from __future__ import annotations

import os
from pathlib import Path

from rmqcore.disk.second_names import give_own_bytes

SIZE = 1 << 20


def linked(tmp_path: Path) -> tuple[Path, Path]:
    """A file of a log, of two pieces and a hole, and its other name."""
    log = tmp_path / "store" / "commitlog"
    log.mkdir(parents=True)
    file, other = log / f"{0:020}", tmp_path / "other"
    file.write_bytes(b"first")
    os.truncate(file, SIZE)
    with file.open("r+b") as out:
        out.seek(SIZE - 4)
        out.write(b"last")
    file.chmod(0o640)
    os.utime(file, ns=(1, 2_000_000_001))
    os.link(file, other)
    return file, other


def test_the_copy_is_the_same_file_in_all_but_its_other_name(tmp_path: Path) -> None:
    file, other = linked(tmp_path)
    before = file.stat()
    give_own_bytes(file)
    after = file.stat()
    assert file.read_bytes() == other.read_bytes()
    assert (after.st_mode, after.st_mtime_ns, after.st_nlink) == (
        before.st_mode,
        before.st_mtime_ns,
        1,
    )
    assert other.stat().st_ino == before.st_ino
    assert after.st_blocks <= before.st_blocks
    assert sorted(path.name for path in tmp_path.rglob("*")) == [
        file.name,
        "commitlog",
        "other",
        "store",
    ]


def test_what_a_killed_attempt_left_goes(tmp_path: Path) -> None:
    file, other = linked(tmp_path)
    left = tmp_path / "store" / f".commitlog.{file.name}.tmp"
    left.write_bytes(b"half of it")
    give_own_bytes(file)
    assert not left.exists()
    assert file.read_bytes() == other.read_bytes()


def test_a_file_of_one_name_stays(tmp_path: Path) -> None:
    file, other = linked(tmp_path)
    other.unlink()
    inode = file.stat().st_ino
    give_own_bytes(file)
    assert file.stat().st_ino == inode
