"""Bytes behind the end of the log are found, kept aside, and taken out."""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from pathlib import Path

import pytest

from rmqcore._native.files.mapped_file import MappedFile
from rmqcore.disk.data_extents import used_end
from rmqcore.disk.inside.folder import Folder
from rmqcore.engine.recovery import cut as recovery_cut
from rmqcore.engine.recovery.cut import LogCut, find_cut, take_out

SIZE = 64 * 1024
END = SIZE + 1000


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Five files of which the second holds the end: data behind it there and in the third and fifth."""
    folder = tmp_path / "commitlog"
    folder.mkdir()
    content = {
        0: b"a" * SIZE,
        SIZE: b"b" * 1000 + b"cut" + bytes(5000) + b"too",
        2 * SIZE: bytes(70) + b"later",
        3 * SIZE: b"",
        4 * SIZE: bytes(SIZE - 1) + b"!",
    }
    for start, data in content.items():
        path = folder / f"{start:020}"
        path.write_bytes(data)
        os.truncate(path, SIZE)
    return folder


def find(log: Path, end: int = END, *, blank: bool = False) -> LogCut:
    files = [MappedFile(str(path), SIZE, int(path.name)) for path in sorted(log.iterdir())]
    return find_cut(files, SIZE, end, ends_in_blank=blank)


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def test_what_lies_behind(log: Path) -> None:
    before = contents(log)
    cut = find(log)
    assert cut.tail is not None
    assert (cut.tail.phy_offset, cut.tail.size) == (END, 5006)
    assert [(part.phy_offset, part.size) for part in cut.later] == [
        (2 * SIZE, 75),
        (4 * SIZE, SIZE),
    ]
    assert [Path(path).name for path in cut.unused] == [f"{3 * SIZE:020}"]
    assert cut.cut_bytes == 5006 + 75 + SIZE
    assert contents(log) == before


def test_nothing_is_lost(log: Path, tmp_path: Path) -> None:
    before = contents(log)
    kept = take_out(find(log), tmp_path / "cut")
    assert sorted(contents(log)) == [f"{0:020}", f"{SIZE:020}"]
    assert contents(log)[f"{0:020}"] == before[f"{0:020}"]
    assert contents(log)[f"{SIZE:020}"] == b"b" * 1000 + bytes(SIZE - 1000)
    aside = contents(tmp_path / "cut")
    assert aside == {
        f"{END:020}": before[f"{SIZE:020}"][1000:6006],
        f"{2 * SIZE:020}": before[f"{2 * SIZE:020}"],
        f"{4 * SIZE:020}": before[f"{4 * SIZE:020}"],
    }
    assert sorted(kept) == sorted(str(path) for path in (tmp_path / "cut").iterdir())


def test_a_second_time_finds_nothing(log: Path, tmp_path: Path) -> None:
    take_out(find(log), tmp_path / "cut")
    again = find(log)
    assert again == LogCut(None, (), ())
    assert again.cut_bytes == 0
    before = contents(tmp_path / "cut")
    assert take_out(again, tmp_path / "cut") == ()
    assert contents(tmp_path / "cut") == before


@pytest.mark.parametrize("steps", range(1, 12))
def test_killed_between_any_two_steps(
    log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, steps: int
) -> None:
    """Each sync is a place where the process may die; the next attempt ends with the same files."""
    whole = {**contents(log)}
    left = steps

    class Killed(BaseException):
        pass

    def step(*_: object) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            raise Killed

    with monkeypatch.context() as patch:
        for owner, name in (
            (recovery_cut, "sync_directory"),
            (recovery_cut, "sync_data"),
            (Folder, "sync"),
            (Folder, "move"),
        ):
            before = getattr(owner, name)

            def stepping(*arguments: object, do: object = before) -> None:
                step()
                do(*arguments)  # type: ignore[operator]

            patch.setattr(owner, name, stepping)
        with suppress(Killed):
            take_out(find(log), tmp_path / "cut")
    take_out(find(log), tmp_path / "cut")
    assert sorted(contents(log)) == [f"{0:020}", f"{SIZE:020}"]
    assert contents(log)[f"{SIZE:020}"] == b"b" * 1000 + bytes(SIZE - 1000)
    aside = contents(tmp_path / "cut")
    assert aside[f"{END:020}"] == whole[f"{SIZE:020}"][1000:6006]
    for name in (f"{2 * SIZE:020}", f"{4 * SIZE:020}"):
        assert aside[name] == whole[name]
    assert len(aside) == 3


def test_an_earlier_cut_at_the_same_place_is_kept(log: Path, tmp_path: Path) -> None:
    folder = tmp_path / "cut"
    folder.mkdir()
    for name in (f"{END:020}", f"{2 * SIZE:020}"):
        (folder / name).write_bytes(b"earlier")
    take_out(find(log), folder)
    assert (folder / f"{END:020}").read_bytes() == b"earlier"
    assert (folder / f"{END:020}.1").stat().st_size == 5006
    assert (folder / f"{2 * SIZE:020}.1").stat().st_size == SIZE


def test_the_log_on_another_file_system(
    log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = contents(log)

    def take(self: Folder, path: str, place: str) -> None:
        raise OSError(errno.EXDEV, "Invalid cross-device link")

    monkeypatch.setattr(Folder, "take", take)
    take_out(find(log), tmp_path / "cut")
    assert sorted(contents(log)) == [f"{0:020}", f"{SIZE:020}"]
    aside = contents(tmp_path / "cut")
    assert aside[f"{2 * SIZE:020}"] == whole[f"{2 * SIZE:020}"][:75]
    assert aside[f"{4 * SIZE:020}"] == whole[f"{4 * SIZE:020}"]


def test_a_full_disk_leaves_the_log_as_it_is(
    log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = contents(log)

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(recovery_cut, "write_all", full)
    with pytest.raises(OSError, match="No space"):
        take_out(find(log), tmp_path / "cut")
    assert contents(log) == before


def test_a_blank_at_the_end_is_no_data(tmp_path: Path) -> None:
    path = tmp_path / f"{0:020}"
    path.write_bytes(b"r" * 100 + b"BLANKhdr" + bytes(SIZE - 108))
    files = [MappedFile(str(path), SIZE, 0)]
    assert find_cut(files, SIZE, 100, ends_in_blank=True).cut_bytes == 0
    assert find_cut(files, SIZE, 100, ends_in_blank=False).cut_bytes == 8
    path.write_bytes(b"r" * 100 + b"BLANKhdr" + b"\0" * 20 + b"stale" + bytes(SIZE - 133))
    assert find_cut(files, SIZE, 100, ends_in_blank=True).cut_bytes == 33


def test_the_end_of_the_log_is_the_end_of_a_file(log: Path) -> None:
    cut = find(log, 2 * SIZE)
    assert cut.tail is not None and cut.tail.phy_offset == 2 * SIZE
    assert find(log, 5 * SIZE) == LogCut(None, (), ())


@pytest.mark.parametrize("data_at", [0, 1, 4095, 4096, 9_999_999, None])
def test_the_last_byte_in_use_of_a_sparse_file(tmp_path: Path, data_at: int | None) -> None:
    path = tmp_path / "file"
    with path.open("wb") as file:
        file.truncate(10_000_000)
        if data_at is not None:
            file.seek(data_at)
            file.write(b"x")
    wanted = 0 if data_at is None else data_at + 1
    assert used_end(str(path), 0, 10_000_000) == wanted
    assert used_end(str(path), 5000, 10_000_000) == max(5000, wanted)
    assert used_end(str(path), 0, 4096) == (wanted if wanted <= 4096 else 0)
