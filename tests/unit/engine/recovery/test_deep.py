"""A deep recovery: silent damage in old queue and index files, of which no exit tells, is found and healed."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.stores.index_batches import quick_folder
from support.stores.keyed_store import (
    ENTRIES_POS,
    KeyedStore,
    contents,
    damage_at_random,
    flip,
    index_files,
    index_findings,
    overwrite,
)

import rmqcore
from rmqcore.disk.paths import StorePaths
from rmqcore.engine.recovery.preview import preview_recovery
from rmqcore.engine.recovery.thoroughness import RecoverMode
from rmqcore.offline.fsck import fsck

INDEX = {
    "time": lambda path: overwrite(path, ENTRIES_POS + 60 + 12, b"\0\0\1\1"),
    "hash": lambda path: overwrite(path, ENTRIES_POS + 60, b"\0\0\0\7"),
    "slots of zeros": lambda path: overwrite(path, 40, bytes(ENTRIES_POS - 40)),
    "entries of zeros": lambda path: overwrite(path, ENTRIES_POS + 40, bytes(200)),
    "a bit of an offset": lambda path: flip(path, 8 * (ENTRIES_POS + 40 + 11)),
}


@pytest.fixture(scope="module")
def closed() -> Iterator[KeyedStore]:
    with quick_folder() as name:
        yield KeyedStore(Path(name))


@pytest.mark.parametrize("damage", INDEX)
def test_an_old_index_file(closed: KeyedStore, tmp_path: Path, damage: str) -> None:
    """A bit of an old index file rotted: fsck told of it, and nothing in the product could mend it but a new index."""
    root = shutil.copytree(closed.folder / "image", tmp_path / "store")
    INDEX[damage](index_files(root)[1])
    with closed.open(root) as store:
        assert store.recovery.index.damage is None
    assert index_findings(root) != []
    before = contents(root / "index")
    plan, index = preview_recovery(StorePaths(root), closed.settings, RecoverMode(deep=True))
    assert contents(root / "index") == before
    assert index.files == 1
    assert not plan.loses_something
    closed.check(root, recover="deep")


def test_both_at_once_in_the_plan_and_in_the_report(closed: KeyedStore, tmp_path: Path) -> None:
    root = shutil.copytree(closed.folder / "image", tmp_path / "store")
    INDEX["hash"](index_files(root)[2])
    calls: list[tuple[int, int]] = []
    _, planned = preview_recovery(
        StorePaths(root),
        closed.settings,
        RecoverMode(deep=True, progress=lambda done, total: calls.append((done, total))),
    )
    assert calls and all(0 <= done <= total for done, total in calls)
    with closed.open(root, recover="deep") as store:
        report = store.recovery.index
        assert report == planned
        assert report.files == 2
    assert fsck(root).findings == []


def test_a_deep_recovery_of_a_sound_store_changes_nothing(
    closed: KeyedStore, tmp_path: Path
) -> None:
    root = shutil.copytree(closed.folder / "image", tmp_path / "store")
    before = {part: tree(root / part) for part in ("commitlog", "consumequeue", "index")}
    with closed.open(root, recover="deep") as store:
        assert store.recovery.index.damage is None
        assert store.recovery.index.compared_bytes >= 0.9 * store.max_phy_offset
    assert {part: tree(root / part) for part in before} == before


def tree(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@given(seed=st.integers(0, 1 << 32))
def test_random_damage_after_a_clean_exit(closed: KeyedStore, seed: int) -> None:
    with quick_folder() as name:
        root = shutil.copytree(closed.folder / "image", Path(name) / "store")
        note = damage_at_random(root, seed)
        try:
            closed.check(root, recover="deep")
        except Exception as error:
            error.add_note(note)
            raise


@given(seed=st.integers(0, 1 << 32), calls=st.integers(1, 6))
def test_interrupted_and_begun_again(closed: KeyedStore, seed: int, calls: int) -> None:
    """Ctrl-C in the middle of a deep recovery: the next one goes on."""
    left = calls

    def interrupt(done: int, total: int) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            raise KeyboardInterrupt

    with quick_folder() as name:
        root = shutil.copytree(closed.folder / "image", Path(name) / "store")
        damage_at_random(root, seed)
        try:
            closed.open(root, recover="deep", progress=interrupt).close()
        except KeyboardInterrupt:
            assert left == 0
        closed.check(root, recover="deep")
        assert [str(finding) for finding in fsck(root).findings if finding.severity != "info"] == []


def test_another_word_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="recover: expected one of normal, deep, got 'shallow'"):
        rmqcore.open(tmp_path / "store", recover="shallow")
    assert not (tmp_path / "store").exists()
