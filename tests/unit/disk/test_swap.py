"""Rebuilt folders take their places; a swap that is killed anywhere leaves the old folder or the new folder."""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path

import pytest

from rmqcore.disk.inside.folder import Folder
from rmqcore.disk.paths import StorePaths
from rmqcore.disk.swap import finish_swaps, swap_in

PARTS = ("consumequeue", "index")


@pytest.fixture
def store(tmp_path: Path) -> StorePaths:
    for folder, text in ((tmp_path / "store", "old"), (tmp_path / "store" / "built", "new")):
        for part in PARTS:
            (folder / part / "T").mkdir(parents=True)
            (folder / part / "T" / "file").write_text(text)
    return StorePaths(tmp_path / "store")


def text(store: StorePaths, part: str) -> str:
    return (store.root / part / "T" / "file").read_text()


def test_both(store: StorePaths) -> None:
    swap_in(store, store.root / "built", PARTS)
    assert [text(store, part) for part in PARTS] == ["new", "new"]
    assert sorted(path.name for path in store.root.iterdir()) == ["built", *PARTS]
    assert finish_swaps(store) == []


def test_one_and_a_part_that_was_not_there(store: StorePaths) -> None:
    (store.root / "index" / "T" / "file").unlink()
    (store.root / "index" / "T").rmdir()
    (store.root / "index").rmdir()
    swap_in(store, store.root / "built", ["index"])
    assert [text(store, part) for part in PARTS] == ["old", "new"]


@pytest.mark.parametrize("steps", range(1, 10))
def test_killed_between_any_two_steps(
    store: StorePaths, monkeypatch: pytest.MonkeyPatch, steps: int
) -> None:
    left = steps

    class Killed(BaseException):
        pass

    def count() -> None:
        nonlocal left
        left -= 1
        if left == 0:
            raise Killed

    move, remove = Folder.move, Folder.remove

    def moving(self: Folder, place: str, target: str, to: Folder | None = None) -> None:
        count()
        move(self, place, target, to)

    def removing(self: Folder, place: str) -> None:
        count()
        remove(self, place)

    with monkeypatch.context() as patch, suppress(Killed):
        patch.setattr(Folder, "move", moving)
        patch.setattr(Folder, "remove", removing)
        swap_in(store, store.root / "built", PARTS)
    before = {part: (store.root / part).exists() for part in PARTS}
    back = finish_swaps(store)
    assert back == [part for part in PARTS if not before[part]]
    for part in PARTS:
        assert text(store, part) == ("old" if part in back else text(store, part))
        assert text(store, part) in ("old", "new")
    assert {path.name for path in store.root.iterdir()} == {"built", *PARTS}
    assert finish_swaps(store) == []
    assert all(text(store, part) in ("old", "new") for part in PARTS)


def test_what_has_a_successor_never_comes_back(store: StorePaths) -> None:
    """Somebody deletes consumequeue/ to have it made anew: an old folder that a killed swap left must not take its place."""
    (store.root / "consumequeue").rename(store.root / "consumequeue.old-000001")
    (store.root / "built" / "consumequeue").rename(store.root / "consumequeue")
    assert finish_swaps(store) == []
    assert text(store, "consumequeue") == "new"
    shutil.rmtree(store.root / "consumequeue")
    assert finish_swaps(store) == []
    assert not (store.root / "consumequeue").exists()


def test_a_folder_of_the_operator_is_not_deleted(store: StorePaths) -> None:
    """It went with the next open: any name that begins so was taken for what a rebuild had left."""
    mine = ["consumequeue.old-copy", "index.trash-", "consumequeue.trash-2026", "index.old-12345"]
    for name in mine:
        (store.root / name).mkdir()
    assert finish_swaps(store) == []
    assert all((store.root / name).is_dir() for name in mine)
    shutil.rmtree(store.root / "index")
    assert finish_swaps(store) == []


def kept(store: StorePaths) -> list[str]:
    return sorted(path.name for path in store.root.iterdir() if ".ke" in path.name)


def test_old_folders_that_are_kept(store: StorePaths) -> None:
    assert swap_in(store, store.root / "built", PARTS, keep=True) == [
        "consumequeue.kept-000001",
        "index.kept-000001",
    ]
    assert [text(store, part) for part in PARTS] == ["new", "new"]
    for name in kept(store):
        assert (store.root / name / "T" / "file").read_text() == "old"
    shutil.rmtree(store.root / "index")
    assert finish_swaps(store) == [], "what is kept does not come back by itself"
    assert kept(store) == ["consumequeue.kept-000001", "index.kept-000001"]


@pytest.mark.parametrize("steps", range(1, 8))
def test_killed_while_old_folders_are_kept(
    store: StorePaths, monkeypatch: pytest.MonkeyPatch, steps: int
) -> None:
    left = steps

    class Killed(BaseException):
        pass

    move = Folder.move

    def moving(self: Folder, place: str, target: str, to: Folder | None = None) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            raise Killed
        move(self, place, target, to)

    with monkeypatch.context() as patch, suppress(Killed):
        patch.setattr(Folder, "move", moving)
        swap_in(store, store.root / "built", PARTS, keep=True)
    finish_swaps(store)
    for part in PARTS:
        texts = [text(store, part)]
        texts += [
            (store.root / name / "T" / "file").read_text()
            for name in kept(store)
            if name.startswith(f"{part}.kept-")
        ]
        assert texts in (["old"], ["new", "old"]), "the old folder is never deleted"
