"""An open that ends the log at an offset: what lies behind goes to ``cut/``, sound or not; queues and index follow the log."""

from __future__ import annotations

import random
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from support.doses import dose

import rmqcore
from rmqcore import Message, MessageStoreConfig
from rmqcore.disk.checkpoint import CheckpointFile
from rmqcore.disk.inside.folder import Folder
from rmqcore.engine.queues.consume_queues import ConsumeQueues
from rmqcore.engine.recovery import cut as recovery_cut
from rmqcore.engine.recovery.thoroughness import RecoverMode
from rmqcore.engine.store.store import MessageStore
from rmqcore.offline.fsck import fsck
from rmqcore.opening import open_by_mode

SIZE = 16 << 10
CONFIG: dict[str, Any] = {
    "mapped_file_size_commit_log": SIZE,
    "mapped_file_size_consume_queue": 20 * 8,
    "max_index_num": 60,
    "max_hash_slot_num": 16,
}
COUNT, ROOM = 160, 16 * SIZE
Bytes = npt.NDArray[np.uint8]


def filled(root: Path, count: int = COUNT) -> list[int]:
    """Fill some files and close; return where the records begin."""
    rng = random.Random(7)
    begins = []
    with rmqcore.open(root, services=False, **CONFIG) as store:
        for number in range(count):
            topic, size = f"T{number % 3 if number < 100 else 9}", rng.choice([0, 100, 900])
            message = Message(topic, rng.randbytes(size), number % 2, keys=[f"k{number}"])
            begins.append(store.put(message).phy_offset)
        drain(store)
        begins.append(store.max_phy_offset)
    return begins


def drain(store: MessageStore) -> None:
    while store.dispatch_once():
        pass


def cut_open(root: Path, ends_at: int) -> MessageStore:
    return open_by_mode(root, MessageStoreConfig(**CONFIG), RecoverMode(ends_at=ends_at))


def log_bytes(root: Path) -> Bytes:
    """The log, each byte at its CommitLog offset; zeros where there is none."""
    return laid_out({int(one.name): one for one in (root / "commitlog").iterdir()})


def held_bytes(root: Path) -> Bytes:
    """The same, with what was cut."""
    names = list((root / "cut").iterdir()) if (root / "cut").is_dir() else []
    names = [one for one in names if not one.name.startswith(".")]
    kept = laid_out({int(one.name.partition(".")[0]): one for one in names})
    return np.where(kept == 0, log_bytes(root), kept)


def laid_out(files: dict[int, Path]) -> Bytes:
    found = np.zeros(ROOM, np.uint8)
    for begin, path in files.items():
        data = np.fromfile(path, np.uint8)
        found[begin : begin + len(data)] = data
    return found


def is_sound(root: Path, ends_at: int, begins: list[int]) -> None:
    """Look whether the store ends there, with queues and index that are the log's."""
    assert fsck(root).exit_code == 0, str(fsck(root))
    with rmqcore.open(root, services=False, **CONFIG) as store:
        drain(store)
        assert store.max_phy_offset == ends_at
        for number in range(COUNT):
            found = store.query(f"T{number % 3 if number < 100 else 9}", f"k{number}", 9)
            assert len(found.messages) == (begins[number] < ends_at), number
        put = store.put(Message("T1", b"next", 0))
        assert put.phy_offset >= ends_at
    assert fsck(root).exit_code == 0, str(fsck(root))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[int]]:
    root = tmp_path_factory.mktemp("ends_at") / "store"
    return root, filled(root)


def copied(made: tuple[Path, list[int]], to: Path) -> tuple[Path, list[int]]:
    root, begins = made
    shutil.copytree(root, to)
    return to, begins


@pytest.mark.parametrize("record", [1, 2, 40, 41, 99, 100, 101, 130, 159, 160])
def test_a_log_is_cut_behind_a_record(
    made: tuple[Path, list[int]], tmp_path: Path, record: int
) -> None:
    root, begins = copied(made, tmp_path / "store")
    before, ends_at = log_bytes(root), begins[record]
    with cut_open(root, ends_at) as store:
        report = store.recovery
        drain(store)
    end = report.end_phy_offset
    blank = end < ends_at  # a file ends before the record: its BLANK comes again
    assert blank == (ends_at % SIZE == 0)
    assert np.array_equal(held_bytes(root), before)
    assert np.array_equal(log_bytes(root)[:end], before[:end])
    assert report.cut_bytes >= begins[-1] - ends_at - 2 * SIZE
    is_sound(root, end, begins)


def test_every_file_boundary(made: tuple[Path, list[int]], tmp_path: Path) -> None:
    """The end is the begin of a file: the BLANK before it is no data, and the files behind it go."""
    begins = made[1]
    for number, ends_at in enumerate(one for one in begins[1:-1] if one % SIZE == 0):
        root, _ = copied(made, tmp_path / str(number))
        with cut_open(root, ends_at) as store:
            drain(store)
            end = store.max_phy_offset
        assert end < ends_at
        is_sound(root, end, begins)


@pytest.mark.parametrize("wrong", [1, 17, -1])
def test_no_record_ends_there(made: tuple[Path, list[int]], tmp_path: Path, wrong: int) -> None:
    root, begins = copied(made, tmp_path / "store")
    before = log_bytes(root)
    with pytest.raises(ValueError, match="expected the end of a record: the one there ends at"):
        cut_open(root, begins[50] + wrong)
    assert np.array_equal(log_bytes(root), before)
    assert not (root / "cut").exists()
    with rmqcore.open(root, services=False, **CONFIG) as store:
        assert store.max_phy_offset == begins[-1]


def test_an_end_before_the_log(made: tuple[Path, list[int]], tmp_path: Path) -> None:
    root, _ = copied(made, tmp_path / "store")
    with pytest.raises(ValueError, match="but the log starts at 0"):
        cut_open(root, 0)
    with pytest.raises(ValueError, match="but the log starts at 0"):
        open_by_mode(
            tmp_path / "none", MessageStoreConfig(**CONFIG), RecoverMode(ends_at=7), create=True
        )


class Killed(BaseException):
    pass


STEPS = (
    (recovery_cut, "sync_directory"),
    (recovery_cut, "sync_data"),
    (recovery_cut, "unlink"),
    (recovery_cut, "write_all"),
    (Folder, "sync"),
    (Folder, "move"),
    (Folder, "take"),
    (ConsumeQueues, "settle"),
    (ConsumeQueues, "sync_places"),
    (ConsumeQueues, "flush"),
    (CheckpointFile, "flush"),
)


@pytest.mark.parametrize("with_option", [False, True])
@pytest.mark.parametrize("after", [False, True])
def test_killed_at_each_step(
    made: tuple[Path, list[int]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    with_option: bool,
    after: bool,
) -> None:
    """Before and behind each write and sync: the next open finds a sound store, and each byte is in the log or in ``cut/``."""
    begins, record = made[1], 60
    ends_at = begins[record]
    before = log_bytes(made[0])
    for steps in range(1, 1000, dose("RMQCORE_CUT_STRIDE", test=3, verify=1, night=1)):
        root, _ = copied(made, tmp_path / str(steps))
        left = steps

        def step() -> None:
            nonlocal left
            left -= 1
            if left == 0:
                raise Killed

        with monkeypatch.context() as patch:
            for owner, name in STEPS:
                before_it = getattr(owner, name)

                def stepping(*arguments: Any, do: Any = before_it, **named: Any) -> Any:
                    if after:
                        done = do(*arguments, **named)
                        step()
                        return done
                    step()
                    return do(*arguments, **named)

                patch.setattr(owner, name, stepping)
            with suppress(Killed):
                cut_open(root, ends_at).close()
        if left > 0:
            assert steps > 15
            break
        assert np.array_equal(held_bytes(root), before), steps
        again = (
            cut_open(root, ends_at) if with_option else rmqcore.open(root, services=False, **CONFIG)
        )
        with again as store:
            drain(store)
            end = store.max_phy_offset
        assert ends_at <= end <= (ends_at if with_option else begins[-1])
        assert np.array_equal(held_bytes(root), before), steps
        is_sound(root, end, begins)
        shutil.rmtree(root)
