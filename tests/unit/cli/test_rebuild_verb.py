"""``rmqcore rebuild``: beside the store, and in its place."""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path

import pytest
from conftest import StoreCopy
from support.cli.cli_runs import Run, in_terminal

from rmqcore.disk.inside.folder import Folder
from rmqcore.disk.locks.lock import StoreLock
from rmqcore.maintenance.rebuild.queue_builder import QueueBuilder
from rmqcore.offline.fsck import fsck


def tree(root: Path, *parts: str) -> dict[str, bytes]:
    folders = [root / part for part in parts] or [root]
    files = sorted(path for folder in folders for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(root)): path.read_bytes() for path in files}


def test_beside_the_store(rmqcore: Run, store_copy: StoreCopy, tmp_path: Path) -> None:
    store = store_copy("basic")
    before = tree(store)
    done = rmqcore("rebuild", store, "--out", tmp_path / "out", "--json")
    assert done.code == 0
    assert (done.object["records"], done.object["applied"]) == (2000, False)
    assert tree(tmp_path / "out", "consumequeue") == tree(store, "consumequeue")
    assert tree(store) == before
    done = rmqcore("rebuild", store, "--out", tmp_path / "out")
    assert done.code == 1
    assert "is not empty" in done.err


def test_in_the_store_by_default_again_and_again(rmqcore: Run, store_copy: StoreCopy) -> None:
    store = store_copy("delay")
    before = tree(store)
    for _ in range(2):
        assert rmqcore("rebuild", store).code == 0
        assert tree(store / "rebuilt", "consumequeue") == tree(store, "consumequeue")
    assert {
        name: data for name, data in tree(store).items() if not name.startswith("rebuilt")
    } == before


def test_a_size_that_no_file_tells(rmqcore: Run, store_copy: StoreCopy, tmp_path: Path) -> None:
    store = store_copy("ipv6")
    shutil.rmtree(store / "consumequeue")
    done = rmqcore("rebuild", store, "--cq", "--out", tmp_path / "out")
    assert done.code == 0
    assert "6000000 bytes" in done.err and "--config" in done.err
    assert "slots" not in done.err
    assert {len(data) for data in tree(tmp_path / "out").values()} == {6_000_000}


@pytest.mark.parametrize("part", ["cq", "index"])
def test_one_of_the_two(rmqcore: Run, store_copy: StoreCopy, tmp_path: Path, part: str) -> None:
    done = rmqcore("rebuild", store_copy("ipv6"), f"--{part}", "--out", tmp_path / "out")
    assert done.code == 0
    assert os.listdir(tmp_path / "out") == ["consumequeue" if part == "cq" else "index"]


@pytest.mark.parametrize("case", ["basic", "lmq", "transaction"])
def test_in_place_of_queues_that_are_gone(
    rmqcore: Run, golden: Path, store_copy: StoreCopy, tmp_path: Path, case: str
) -> None:
    store = store_copy(case)
    conf = tmp_path / "broker.conf"
    manifest = json.loads((golden / case / "manifest.json").read_text())["storeConfig"]
    names = ("mappedFileSizeConsumeQueue", "maxHashSlotNum", "maxIndexNum")
    conf.write_text("".join(f"{name}={manifest[name]}\n" for name in names))
    before = tree(store, "commitlog", "consumequeue")
    index = list(tree(store, "index").values())
    shutil.rmtree(store / "consumequeue")
    for path in (store / "index").iterdir():
        path.write_bytes(path.read_bytes()[:-5000] + bytes(5000))
    done = rmqcore("rebuild", store, "--apply", "--json", "--config", conf)
    assert (done.code, done.err) == (0, "")
    assert done.object["applied"]
    assert tree(store, "commitlog", "consumequeue") == before
    assert list(tree(store, "index").values()) == index
    assert not [name for name in os.listdir(store) if "old" in name or name == "rebuilt"]
    assert fsck(store).exit_code == 0
    assert rmqcore("recover", store).code == 0


def test_a_store_that_was_not_closed_is_recovered_first(
    rmqcore: Run, store_copy: StoreCopy
) -> None:
    store = store_copy("crash_torn", "input")
    before = tree(store)
    done = rmqcore("rebuild", store, "--apply")
    assert done.code == 2
    assert "recovering it first" in done.err
    assert tree(store) == before, "queues have entries of messages whose records are torn"
    (drop,) = re.findall(r"--drop (\d+)", done.err)
    assert rmqcore("rebuild", store, "--apply", "--drop", drop).code == 0
    assert fsck(store).exit_code == 0
    assert not (store / "abort").exists()


def test_a_store_in_use(rmqcore: Run, store_copy: StoreCopy, tmp_path: Path) -> None:
    store = store_copy("basic")
    before = tree(store)
    with StoreLock(store / "lock"):
        assert rmqcore("rebuild", store, "--apply").code == 1
        assert tree(store) == before
        assert rmqcore("rebuild", store, "--out", tmp_path / "out").code == 0


@pytest.mark.parametrize("words", [[], ["--apply"]])
def test_ctrl_c_leaves_the_store_as_it_was(
    rmqcore: Run, store_copy: StoreCopy, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    store = store_copy("basic")
    before = tree(store)

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(QueueBuilder, "add", interrupted)
    assert rmqcore("rebuild", store, *words).code == 130
    assert tree(store) == before
    assert not (store / "rebuilt").exists()


def test_ctrl_c_between_two_renames(
    rmqcore: Run, store_copy: StoreCopy, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = store_copy("basic")
    before = tree(store, "commitlog", "consumequeue", "index")
    move = Folder.move
    left = [1]

    def interrupted(self: Folder, place: str, target: str, to: Folder | None = None) -> None:
        if target == "consumequeue" and to is not None and self.path.name == "rebuilt":
            left[0] -= 1
            if left[0] == 0:
                raise KeyboardInterrupt
        move(self, place, target, to)

    monkeypatch.setattr(Folder, "move", interrupted)
    assert rmqcore("rebuild", store, "--apply").code == 130
    assert tree(store, "commitlog", "consumequeue", "index") == before
    assert rmqcore("rebuild", store, "--apply").code == 0


def test_a_damaged_log_is_told(rmqcore: Run, store_copy: StoreCopy, tmp_path: Path) -> None:
    store = store_copy("basic")
    path = store / "commitlog" / f"{0:020}"
    data = bytearray(path.read_bytes())
    data[5000:9000] = b"\x33" * 4000
    path.write_bytes(data)
    done = rmqcore("rebuild", store, "--out", tmp_path / "out", "--json")
    assert done.code == 2
    assert done.object["filled_entries"] > 0
    assert len(done.object["damage"]) == done.err.count("damaged: ")
    original = {name: len(data) for name, data in tree(store, "consumequeue").items()}
    assert {n: len(d) for n, d in tree(tmp_path / "out", "consumequeue").items()} == original


def test_for_people(store_copy: StoreCopy) -> None:
    store = store_copy("basic")
    code, text, _ = in_terminal("rebuild", store, "--apply")
    assert code == 0
    for word in ("2,000 records", "24 files", "4 files", "in the store"):
        assert word in text


def test_a_full_folder_gets_a_hint_that_can_be_followed(
    rmqcore: Run, golden: Path, tmp_path: Path
) -> None:
    """It suggested --overwrite, which none of these verbs has."""
    store = golden / "basic" / "store"
    full = tmp_path / "full"
    full.mkdir()
    (full / "mine").touch()
    asked: list[list[str | Path]] = [
        ["rebuild", store, "--out", full],
        ["salvage", store, full],
        ["backup", store, full],
    ]
    for words in asked:
        done = rmqcore(*words)
        assert done.code == 1
        assert f"Error: {full} is not empty" in done.err
        assert "a new or empty directory" in done.err
        assert "--overwrite" not in done.err
    assert [path.name for path in full.iterdir()] == ["mine"]
