"""Queue files of a length or a name that the setting does not make, after an exit that was not clean.

A simulated power cut in the middle of a recovery left a store whose only queue file had its first entry and no more: 20 bytes of
320. Every open refused it, because another ``mapped_file_size_consume_queue`` could look so, although the log had all messages.
Files that were too long, or whose names no file can have, had the same end: one of a thousand, and the open refused the store.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

import rmqcore
from rmqcore.config import MessageStoreConfig
from rmqcore.disk.paths import StorePaths
from rmqcore.engine.recovery.preview import preview_recovery
from rmqcore.errors import StoreFormatError
from rmqcore.testing.crash_check import TINY, Acked, check_directory, drain, put

FILE_SIZE = TINY["mapped_file_size_consume_queue"]
CODE = {**TINY, "mapped_file_size_consume_queue": 2 * FILE_SIZE}


def crashed(folder: Path, messages: int, queues: int = 1) -> tuple[Path, list[Acked]]:
    """A store as it runs."""
    with rmqcore.open(folder / "store", services=False, **TINY) as store:
        found = [put(store, number, topics=1, queues=queues) for number in range(messages)]
        drain(store)
        root = Path(shutil.copytree(folder / "store", folder / "crashed"))
    return root, [one for one in found if one is not None]


def queue_files(root: Path) -> list[Path]:
    return sorted(path for path in (root / "consumequeue").rglob("*") if path.is_file())


def contents(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in queue_files(root)}


def is_healed(root: Path, acked: list[Acked], whole: dict[str, bytes]) -> None:
    """An open gives everything back, a second one changes nothing."""
    assert (root / "abort").exists()
    preview_recovery(StorePaths(root), MessageStoreConfig(**TINY))
    check_directory(root, acked)
    assert contents(root) == whole


# ---- short ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("entries", [1, 2, 7, 12])
def test_the_only_file_ends_in_an_entry(tmp_path: Path, entries: int) -> None:
    root, acked = crashed(tmp_path, 12)
    whole = contents(root)
    os.truncate(queue_files(root)[0], 20 * entries)
    is_healed(root, acked, whole)


def test_the_only_file_has_no_entry(tmp_path: Path) -> None:
    root, acked = crashed(tmp_path, 12)
    whole = contents(root)
    queue_files(root)[0].write_bytes(bytes(60))
    is_healed(root, acked, whole)


def test_the_only_file_that_is_not_empty(tmp_path: Path) -> None:
    root, acked = crashed(tmp_path, 40)
    whole = contents(root)
    for file, size in zip(queue_files(root), (0, 100, 7), strict=True):
        os.truncate(file, size)
    is_healed(root, acked, whole)


def test_the_only_file_is_not_the_first(tmp_path: Path) -> None:
    """The cleaner took what was before it."""
    config = {**TINY, "mapped_file_size_commit_log": 1024}
    with rmqcore.open(tmp_path / "store", services=False, **config) as store:
        acked = [one for n in range(40) if (one := put(store, n, topics=1, queues=1)) is not None]
        drain(store)
        root = Path(shutil.copytree(tmp_path / "store", tmp_path / "copy"))
    begin = next(one.phy_offset for one in acked if one.queue_offset == 32)
    for path in (root / "commitlog").iterdir():
        if int(path.name) + 1024 <= begin:
            path.unlink()
    *older, last = queue_files(root)
    for path in older:
        path.unlink()
    os.truncate(last, 40)
    for _ in range(2):
        with rmqcore.open(root, services=False, **config) as store:
            for one in acked[33:]:
                (found,) = store.get("T0", 0, one.queue_offset, 1).messages
                assert found.phy_offset == one.phy_offset
            assert store.max_offset("T0", 0) == 40


@pytest.mark.parametrize(("messages", "queues"), [(5, 1), (5, 2), (33, 1), (70, 2)])
def test_another_setting_is_refused(tmp_path: Path, messages: int, queues: int) -> None:
    """What a queue file of another setting shows: room behind its entries, others of its length, or their names."""
    root, _ = crashed(tmp_path, messages, queues)
    before = contents(root)
    for factor in (2, 3):
        with pytest.raises(StoreFormatError):
            rmqcore.open(
                root,
                services=False,
                **{**TINY, "mapped_file_size_consume_queue": factor * FILE_SIZE},
            )
    with pytest.raises(StoreFormatError):
        rmqcore.open(
            root, services=False, **{**TINY, "mapped_file_size_consume_queue": FILE_SIZE // 2}
        )
    assert contents(root) == before


def test_full_files_of_another_setting_are_refused(tmp_path: Path) -> None:
    """Each of two queues has one file, and it is full: no power cut cuts two at one length."""
    root, _ = crashed(tmp_path, 32, 2)
    assert [path.name for path in queue_files(root)] == [f"{0:020}"] * 2
    with pytest.raises(StoreFormatError):
        rmqcore.open(root, services=False, **CODE)


def test_the_only_file_of_a_closed_store_is_refused(tmp_path: Path) -> None:
    """A clean exit cuts no file."""
    root, _ = crashed(tmp_path, 12)
    os.truncate(queue_files(root)[0], 20)
    (root / "abort").unlink()
    with pytest.raises(StoreFormatError):
        rmqcore.open(root, services=False, **TINY)


# ---- long -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("more", [1, 19, 20, 320, 321, 5000])
@pytest.mark.parametrize("number", [0, 1, 2])
def test_a_file_that_is_too_long(tmp_path: Path, number: int, more: int) -> None:
    root, acked = crashed(tmp_path, 40)
    whole = contents(root)
    with queue_files(root)[number].open("ab") as file:
        file.write(b"\1" * more)
    is_healed(root, acked, whole)


def test_the_only_file_is_too_long_by_half_an_entry(tmp_path: Path) -> None:
    root, acked = crashed(tmp_path, 12)
    whole = contents(root)
    with queue_files(root)[0].open("ab") as file:
        file.write(b"\1" * 10)
    is_healed(root, acked, whole)


def test_long_and_short_at_once(tmp_path: Path) -> None:
    root, acked = crashed(tmp_path, 40)
    whole = contents(root)
    first, second, _ = queue_files(root)
    os.truncate(first, 400)
    os.truncate(second, 100)
    is_healed(root, acked, whole)


def test_most_files_are_longer(tmp_path: Path) -> None:
    root, _ = crashed(tmp_path, 70)
    files = queue_files(root)
    for file in files[1:]:
        os.truncate(file, 2 * FILE_SIZE)
    before = contents(root)
    with pytest.raises(StoreFormatError):
        rmqcore.open(root, services=False, **TINY)
    assert contents(root) == before


# ---- names ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("start", [1, 20, 100, 330, 10**18 + 20])
@pytest.mark.parametrize("renamed", [True, False], ids=["renamed", "copied"])
@pytest.mark.parametrize("number", [0, 1, 2])
def test_a_name_that_no_file_can_have(
    tmp_path: Path, number: int, renamed: bool, start: int
) -> None:
    root, acked = crashed(tmp_path, 40)
    whole = contents(root)
    file = queue_files(root)[number]
    stray = file.with_name(f"{start:020}")
    shutil.copyfile(file, stray)
    if renamed:
        file.unlink()
    is_healed(root, acked, whole)


@pytest.mark.parametrize("size", [0, 7, 100, 400])
def test_a_name_and_a_length(tmp_path: Path, size: int) -> None:
    root, acked = crashed(tmp_path, 40)
    whole = contents(root)
    stray = queue_files(root)[1].with_name(f"{60:020}")
    stray.write_bytes(b"\1" * size)
    is_healed(root, acked, whole)


def test_an_open_that_ends_before_strays_are_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They go once the entries that they may have held are on disk."""
    from rmqcore.engine.queues.queue_places import QueuePlaces

    root, acked = crashed(tmp_path, 40)
    whole = contents(root)
    file = queue_files(root)[1]
    stray = file.rename(file.with_name(f"{60:020}"))

    def killed(*_: object, **__: object) -> None:
        raise InterruptedError

    for method in ("write", "settle", "sync"):
        with monkeypatch.context() as patched:
            patched.setattr(QueuePlaces, method, killed)
            with pytest.raises(InterruptedError):
                rmqcore.open(root, services=False, **TINY)
        assert stray.exists()
    is_healed(root, acked, whole)


def test_after_a_clean_exit_a_name_is_refused(tmp_path: Path) -> None:
    root, _ = crashed(tmp_path, 40)
    file = queue_files(root)[1]
    file.rename(file.with_name(f"{60:020}"))
    (root / "abort").unlink()
    with pytest.raises(StoreFormatError, match="expected a multiple of 320"):
        rmqcore.open(root, services=False, **TINY)
