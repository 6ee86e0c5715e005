"""Queue files of which a power cut left the name and not the length, or an interrupted copy a part.

A simulated cut left ``consumequeue/T0/0`` with two files of no bytes: a sync of the folder had put their names there. The next
open refused the store: "file size is 0, expected 320 as configured". Where it was the newest file, a recovery wrote its entries
and left it shorter than all others, and the open after that one refused.

Of files that were not empty but short every open refused the store, although the log had all their messages.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import rmqcore
from rmqcore.config import MessageStoreConfig
from rmqcore.disk.paths import StorePaths
from rmqcore.engine.queues.queue_places import QueuePlaces
from rmqcore.engine.recovery.preview import preview_recovery
from rmqcore.errors import StoreFormatError
from rmqcore.testing.crash_check import TINY, Acked, check_directory, drain, put


def crashed(folder: Path) -> tuple[Path, list[Acked]]:
    """A store of one queue with three files, as it runs."""
    with rmqcore.open(folder / "store", services=False, **TINY) as store:
        acked = [one for n in range(40) if (one := put(store, n, topics=1, queues=1)) is not None]
        drain(store)
        root = Path(shutil.copytree(folder / "store", folder / "crashed"))
    return root, acked


@pytest.mark.parametrize("lost", [[0], [1], [2], [0, 1], [1, 2], [0, 1, 2]], ids=str)
def test_files_without_a_length_are_made_again(tmp_path: Path, lost: list[int]) -> None:
    root, acked = crashed(tmp_path)
    files = sorted((root / "consumequeue" / "T0" / "0").iterdir())
    assert len(files) == 3
    for number in lost:
        os.truncate(files[number], 0)
    check_directory(root, acked)
    assert [file.stat().st_size for file in files] == [320] * 3


def test_files_without_a_length_stay_where_others_have_another_than_configured(
    tmp_path: Path,
) -> None:
    root, _ = crashed(tmp_path)
    files = sorted((root / "consumequeue" / "T0" / "0").iterdir())
    os.truncate(files[1], 0)
    with pytest.raises(StoreFormatError):
        rmqcore.open(root, services=False, **{**TINY, "mapped_file_size_consume_queue": 640})
    assert [file.stat().st_size for file in files] == [320, 0, 320]


def test_no_file_has_its_length(tmp_path: Path) -> None:
    """A power cut in a recovery that made all queue files anew left a first entry of one, and the next open refused the store.

    Files of several lengths are not what another setting makes.
    """
    root, acked = crashed(tmp_path)
    files = sorted((root / "consumequeue" / "T0" / "0").iterdir())
    for file, size in zip(files, (20, 60, 40), strict=True):
        os.truncate(file, size)
    check_directory(root, acked)
    assert [file.stat().st_size for file in files] == [320] * 3


def closed(folder: Path) -> tuple[Path, list[Acked]]:
    """The same store, closed."""
    root, acked = crashed(folder)
    shutil.rmtree(root)
    return Path(shutil.copytree(folder / "store", root)), acked


MADE = pytest.mark.parametrize("made", [crashed, closed])
Made = Callable[[Path], tuple[Path, list[Acked]]]


@MADE
@pytest.mark.parametrize("size", [0, 1, 20, 159, 160, 300, 319])
@pytest.mark.parametrize("lost", [[0], [1], [2], [0, 1], [0, 2], [1, 2]], ids=str)
def test_files_that_lost_their_ends_are_made_whole(
    tmp_path: Path, made: Made, lost: list[int], size: int
) -> None:
    root, acked = made(tmp_path)
    files = sorted((root / "consumequeue" / "T0" / "0").iterdir())
    whole = [file.read_bytes() for file in files]
    for number in lost:
        os.truncate(files[number], size)
    check_directory(root, acked)
    assert [file.read_bytes() for file in files] == whole


@MADE
def test_messages_that_recovery_would_not_compare(tmp_path: Path, made: Made) -> None:
    """Nothing in a last file that is short says that it held more, and what it held is older than recover_check_bytes."""
    config = {**TINY, "recover_check_bytes": 0}
    with rmqcore.open(tmp_path / "store", services=False, **config) as store:
        for number in range(5):
            put(store, number, topics=1, queues=1)
        for number in range(200):
            store.put(rmqcore.Message("Other", b"x" * 300, queue_id=number % 3))
        drain(store)
        root = Path(shutil.copytree(tmp_path / "store", tmp_path / "copy"))
    if made is closed:
        shutil.rmtree(root)
        shutil.copytree(tmp_path / "store", root)
    (file,) = (root / "consumequeue" / "T0" / "0").iterdir()
    whole = file.read_bytes()
    os.truncate(file, 45)
    with rmqcore.open(root, services=False, **config) as store:
        assert store.max_offset("T0", 0) == 5
        assert store.recovery.healed_entries == 3
    assert file.read_bytes() == whole


@MADE
def test_an_open_that_ends_before_the_lengths_are_back(
    tmp_path: Path, made: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that has its length again shows no loss any more, so it gets that last."""
    root, acked = made(tmp_path)
    files = sorted((root / "consumequeue" / "T0" / "0").iterdir())
    whole = [file.read_bytes() for file in files]
    os.truncate(files[2], 25)

    def killed(*_: object, **__: object) -> None:
        raise InterruptedError

    for method in ("write", "settle", "sync"):
        with monkeypatch.context() as patched:
            patched.setattr(QueuePlaces, method, killed)
            with pytest.raises(InterruptedError):
                rmqcore.open(root, services=False, **TINY)
        assert files[2].stat().st_size < 320
    check_directory(root, acked)
    assert [file.read_bytes() for file in files] == whole


@pytest.mark.parametrize("clean", [False, True], ids=["crashed", "closed"])
def test_messages_that_the_log_does_not_have(tmp_path: Path, clean: bool) -> None:
    """The cleaner took the first files of the log: what the queue's first file lost cannot come back, and nothing else goes."""
    config = {**TINY, "mapped_file_size_commit_log": 1024}
    with rmqcore.open(tmp_path / "store", services=False, **config) as store:
        acked = [one for n in range(40) if (one := put(store, n, topics=1, queues=1)) is not None]
        drain(store)
        root = Path(shutil.copytree(tmp_path / "store", tmp_path / "copy"))
    if clean:
        shutil.rmtree(root)
        shutil.copytree(tmp_path / "store", root)
    for path in sorted((root / "commitlog").iterdir())[:3]:
        path.unlink()
    kept = [one for one in acked if one.phy_offset >= 3 * 1024]
    files = sorted((root / "consumequeue" / "T0" / "0").iterdir())
    os.truncate(files[0], 25)
    for _ in range(2):
        with rmqcore.open(root, services=False, **config) as store:
            assert 0 < kept[0].queue_offset < 16
            assert store.min_offset("T0", 0) == kept[0].queue_offset
            assert store.max_offset("T0", 0) == 40
            for one in kept:
                (found,) = store.get("T0", 0, one.queue_offset, 1).messages
                assert found.phy_offset == one.phy_offset
    assert [file.stat().st_size for file in files] == [320] * 3


def test_the_plan_of_a_recovery_reads_short_files(tmp_path: Path) -> None:
    root, _ = crashed(tmp_path)
    files = sorted((root / "consumequeue" / "T0" / "0").iterdir())
    os.truncate(files[1], 25)
    before = {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}
    plan, _ = preview_recovery(StorePaths(root), MessageStoreConfig(**TINY))
    assert plan.differing_entries == 15
    assert {path: path.read_bytes() for path in root.rglob("*") if path.is_file()} == before
