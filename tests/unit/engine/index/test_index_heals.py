"""Damage in ``index/`` heals when the store is opened: what the index holds is a function of the log."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.stores.index_batches import quick_folder
from support.stores.keyed_store import (
    CAPACITY,
    ENTRIES_POS,
    INDEX_FILE_SIZE,
    SETTINGS,
    KeyedStore,
    damage_at_random,
    flip,
    index_files,
    index_findings,
    overwrite,
)

import rmqcore
from rmqcore import Message

Damage = Callable[[Path], None]


@pytest.fixture(scope="module")
def crashed() -> Iterator[KeyedStore]:
    with quick_folder() as name:
        yield KeyedStore(Path(name), crashed=True)


@pytest.fixture(scope="module")
def closed() -> Iterator[KeyedStore]:
    with quick_folder() as name:
        yield KeyedStore(Path(name))


def in_file(number: int, change: Damage) -> Damage:
    """A change of one index file, counted as in a list."""
    return lambda root: change(index_files(root)[number])


def delete_all(root: Path) -> None:
    for path in index_files(root):
        path.unlink()


def delete_folder(root: Path) -> None:
    shutil.rmtree(root / "index")


def double(path: Path) -> None:
    path.with_name(f"{int(path.name) + 1:017d}").write_bytes(path.read_bytes())


def exchange(root: Path) -> None:
    one, other = index_files(root)[2:4]
    held = one.read_bytes(), other.read_bytes()
    one.write_bytes(held[1])
    other.write_bytes(held[0])


def shorten(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: INDEX_FILE_SIZE // 2])


def lengthen(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"junk" * 3)


def lengthen_by_entries(path: Path) -> None:
    """Then it looks like a file of another ``max_index_num``."""
    path.write_bytes(path.read_bytes() + bytes(60))


def cut_behind_the_entries(path: Path) -> None:
    """Then it looks like a full file of a smaller ``max_index_num``, if it was not full."""
    count = int.from_bytes(path.read_bytes()[36:40], "big")
    path.write_bytes(path.read_bytes()[: ENTRIES_POS + 20 * count])


def number_at(pos: int, size: int, value: int) -> Damage:
    return lambda path: overwrite(path, pos, value.to_bytes(size, "big", signed=True))


SHAPES: dict[str, Damage] = {
    "all files gone": delete_all,
    "folder gone": delete_folder,
    "two files exchanged": exchange,
    **{
        f"{what}, {which} file": in_file(number, change)
        for which, number in (("first", 0), ("middle", 4), ("last", -1))
        for what, change in {
            "gone": lambda path: path.unlink(),
            "short": shorten,
            "only a header": lambda path: path.write_bytes(path.read_bytes()[:40]),
            "without bytes": lambda path: path.write_bytes(b""),
            "long": lengthen,
            "long by entries": lengthen_by_entries,
            "without room": cut_behind_the_entries,
            "twice": double,
            "all zeros": lambda path: path.write_bytes(bytes(INDEX_FILE_SIZE)),
            "garbage": lambda path: path.write_bytes(random.Random(5).randbytes(INDEX_FILE_SIZE)),
            "header of zeros": lambda path: overwrite(path, 0, bytes(40)),
            "begin timestamp": number_at(0, 8, 5),
            "end timestamp": number_at(8, 8, 1 << 60),
            "begin phy offset": number_at(16, 8, 1),
            "end phy offset": number_at(24, 8, 3),
            "negative end phy offset": number_at(24, 8, -1),
            "slot count": number_at(32, 4, 1 << 20),
            "negative slot count": number_at(32, 4, -1),
            "index count": number_at(36, 4, 7),
            "index count past the file": number_at(36, 4, 1 << 30),
        }.items()
    },
}
INSIDE: dict[str, Damage] = {
    f"{what}, {which} file": in_file(number, change)
    for which, number in (("first", 0), ("middle", 4), ("last full", -2))
    for what, change in {
        "used slot": lambda path: flip(path, 8 * 43),
        "slots of zeros": lambda path: overwrite(path, 40, bytes(ENTRIES_POS - 40)),
        "entries of zeros": lambda path: overwrite(
            path, ENTRIES_POS, bytes(INDEX_FILE_SIZE - ENTRIES_POS)
        ),
        "some entries of zeros": lambda path: overwrite(path, ENTRIES_POS + 100, bytes(100)),
        "hash": number_at(ENTRIES_POS + 60, 4, 77),
        "phy offset": lambda path: flip(path, 8 * (ENTRIES_POS + 60 + 4) + 60),
        "phy offset by one": lambda path: flip(path, 8 * (ENTRIES_POS + 60 + 11)),
        "time": number_at(ENTRIES_POS + 60 + 12, 4, 1 << 20),
        "time of the second entry": lambda path: flip(path, 8 * (ENTRIES_POS + 40 + 15)),
        "previous entry": number_at(ENTRIES_POS + 180 + 16, 4, 8),
        "garbage among entries": lambda path: overwrite(
            path, ENTRIES_POS + 30, random.Random(3).randbytes(200)
        ),
        "hash slot count": lambda path: flip(path, 8 * 35),
    }.items()
}


@pytest.mark.parametrize("damage", [*SHAPES, *INSIDE])
def test_after_a_crash_nothing_stays_wrong(
    crashed: KeyedStore, tmp_path: Path, damage: str
) -> None:
    """A page of an index file was lost: queries did not find its messages, and no open ever looked."""
    root = shutil.copytree(crashed.folder / "image", tmp_path / "store")
    {**SHAPES, **INSIDE}[damage](root)
    crashed.check(root)


@pytest.mark.parametrize("damage", SHAPES)
def test_after_a_clean_exit_signs_of_shape_are_enough(
    closed: KeyedStore, tmp_path: Path, damage: str
) -> None:
    """An index file was deleted between close and open: its messages were never found again."""
    root = shutil.copytree(closed.folder / "image", tmp_path / "store")
    SHAPES[damage](root)
    closed.check(root)


@given(seed=st.integers(0, 1 << 32))
def test_random_damage_after_a_crash(crashed: KeyedStore, seed: int) -> None:
    with quick_folder() as name:
        root = shutil.copytree(crashed.folder / "image", Path(name) / "store")
        note = damage_at_random(root, seed)
        try:
            crashed.check(root)
        except Exception as error:
            error.add_note(note)
            raise


@pytest.mark.parametrize("exit_", ["crash", "clean"])
def test_a_sound_index_is_left_alone(
    crashed: KeyedStore, closed: KeyedStore, tmp_path: Path, exit_: str
) -> None:
    made = crashed if exit_ == "crash" else closed
    root = shutil.copytree(made.folder / "image", tmp_path / "store")
    before = {path.name: path.read_bytes() for path in index_files(root)}
    with made.open(root) as store:
        report = store.recovery.index
    assert report.damage is None
    # The file in use may not have been on disk at a crash.
    newest = index_files(root)[-1].name
    assert report.removed_files == ((max(before),) if exit_ == "crash" else ())
    assert (report.index_from is None) == (exit_ == "clean")
    after = {path.name: path.read_bytes() for path in index_files(root)}
    after.pop(newest)
    assert after.items() <= before.items()
    assert len(after) == len(before) - 1
    made.check(root)


def test_only_so_much_of_the_log_is_compared(tmp_path: Path) -> None:
    """What is older than the budget is looked at by its chains alone: a time that is wrong there is for a deep recovery."""
    made = KeyedStore(tmp_path, crashed=True, config={"recover_check_bytes": 2000})
    for number, damage, heals in (
        (0, "time, first file", False),
        (1, "some entries of zeros, first file", True),
        (2, "time, last full file", True),
    ):
        root = made.copy(f"copy{number}")
        INSIDE[damage](root)
        with made.open(root) as store:
            report = store.recovery.index
        assert (report.damage is not None) == heals
        assert (index_findings(root) == []) == heals
        assert heals or 1000 < report.compared_bytes < 4000


def test_files_with_no_budget_are_believed(tmp_path: Path) -> None:
    made = KeyedStore(tmp_path, crashed=True, config={"recover_check_bytes": 0})
    root = made.copy("copy")
    with made.open(root) as store:
        assert store.recovery.index.compared_bytes == 0
        made.ask(store)


def test_messages_without_keys_leave_no_sign(tmp_path: Path) -> None:
    """An index that is empty because no message has a key is not made anew at each open."""
    for _ in range(2):
        with rmqcore.open(tmp_path, services=False, **SETTINGS) as store:
            for number in range(50):
                store.put(Message("T", f"body {number}".encode()))
    with rmqcore.open(tmp_path, services=False, **SETTINGS) as store:
        assert store.recovery.index.index_from is None
    assert len(index_files(tmp_path)) == 1


def test_with_the_index_switched_off_nothing_is_compared(
    closed: KeyedStore, tmp_path: Path
) -> None:
    root = shutil.copytree(closed.folder / "image", tmp_path / "store")
    index_files(root)[3].unlink()
    before = index_files(root)
    with rmqcore.open(root, services=False, message_index_enable=False, **SETTINGS) as store:
        assert store.recovery.index.damage is None
    assert index_files(root) == before


@pytest.mark.parametrize("damage", [lengthen_by_entries, cut_behind_the_entries])
def test_the_only_file(tmp_path: Path, damage: Damage) -> None:
    """A file that had grown by whole entries was taken for one of another ``max_index_num`` by every open, also by a deep one."""
    made = KeyedStore(tmp_path, count=9)
    root = made.copy("copy")
    (file,) = index_files(root)
    damage(file)
    made.check(root, recover="deep")
    (file,) = index_files(root)
    assert file.stat().st_size == INDEX_FILE_SIZE


@pytest.mark.parametrize("recover", ["normal", "deep"])
@pytest.mark.parametrize("capacity", [CAPACITY - 7, CAPACITY + 7])
def test_files_of_another_setting_stay(
    closed: KeyedStore, tmp_path: Path, capacity: int, recover: str
) -> None:
    """What was written before the setting changed is no damage: neither the full files, nor the one that was not full."""
    root = shutil.copytree(closed.folder / "image", tmp_path / "store")
    config = {**SETTINGS, "max_index_num": capacity}
    for number in range(2):
        with rmqcore.open(root, services=False, **config) as store:
            assert store.recovery.index.damage is None
            for count in range(30):
                key = f"new{number}-{count}"
                store.put(Message("T", key.encode(), keys=[key]))
            store.wait_dispatched()
    before = {path.name: path.read_bytes() for path in index_files(root)}
    assert {len(data) for data in before.values()} == {
        INDEX_FILE_SIZE,
        INDEX_FILE_SIZE + 20 * (capacity - CAPACITY),
    }
    with rmqcore.open(root, services=False, recover=recover, **config) as store:
        assert store.recovery.index.damage is None
        closed.ask(store)
    assert {path.name: path.read_bytes() for path in index_files(root)} == before
