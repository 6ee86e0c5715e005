"""Directories that mean harm: everything is done to each, and what is outside stays as it is.

A lock, a temporary file, a segment or a folder of a store that was a link led to the deletion, the truncation or the
overwriting of what it pointed at.
"""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path

import pytest
from support.doses import dose

from rmqcore.testing import harm, strangers
from rmqcore.testing.verdict import PromiseBrokenError

STORES = dose("RMQCORE_STRANGERS", test=24, verify=120, night=4000)
SEED = int(os.environ.get("RMQCORE_SEED", "13"))


@pytest.mark.parametrize("number", range(4))
def test_nothing_outside_is_touched(tmp_path: Path, number: int) -> None:
    counts = strangers.stranger_rounds(tmp_path / "base", SEED + number, STORES // 4)
    assert counts["stores"] == STORES // 4
    assert counts["refusals"] > 0


def test_the_judge_sees_what_was_touched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What an action writes outside, or leaves beside the store, or raises, or waits for."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file").write_text("precious")
    root = tmp_path / "case" / "store"
    root.mkdir(parents=True)

    def overwrite(root: Path, out: Path) -> None:
        (outside / "file").write_text("Precious")

    def beside(root: Path, out: Path) -> None:
        root.with_name("left").touch()

    def crash(root: Path, out: Path) -> None:
        raise OverflowError("far")

    def wait(root: Path, out: Path) -> None:
        os.mkfifo(root / "fifo")
        (root / "fifo").read_bytes()

    def fill(root: Path, out: Path) -> None:
        """Four times the limit: pages of the parent that the child gives back hide some of it."""
        bytearray(b"1") * (240 << 20)

    monkeypatch.setattr(strangers, "MOST_KIB", 60 << 10)
    expected = [
        (overwrite, "outside of the store .*file was"),
        (beside, "beside"),
        (crash, "far"),
        (wait, "did not end"),
        (fill, "KiB of memory were used"),
    ]
    for number, (action, message) in enumerate(expected):
        monkeypatch.setattr(strangers, "ACTIONS", {"it": action})
        monkeypatch.setattr(strangers, "LONGEST_S", 1 if action is wait else 120)
        scratch = tmp_path / f"scratch-{number}"
        scratch.mkdir()
        with pytest.raises(PromiseBrokenError, match=message):
            strangers.try_store(root, outside, scratch)


def test_what_the_parent_holds_is_not_the_childs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel counts what a fork inherits: in a test process of 700 MB each store took too much memory."""
    outside, root, scratch = (tmp_path / name for name in ("outside", "case/store", "scratch"))
    for folder in (outside, root, scratch):
        folder.mkdir(parents=True)
    monkeypatch.setattr(strangers, "ACTIONS", {"it": lambda root, out: None})
    monkeypatch.setattr(strangers, "MOST_KIB", 60 << 10)
    held = bytearray(b"1") * (64 << 20)
    assert strangers.try_store(root, outside, scratch) == 0
    assert len(held) == 64 << 20


def test_a_seed_does_the_same_harm(tmp_path: Path) -> None:
    told = []
    for _ in range(2):
        root, outside = tmp_path / "store", tmp_path / "outside"
        for folder in (root / "commitlog", root / "consumequeue" / "T" / "0", outside):
            folder.mkdir(parents=True, exist_ok=True)
        (root / "commitlog" / f"{0:020d}").write_bytes(bytes(100))
        told.append([harm.spoil(root, outside, random.Random(7)) for _ in range(3)])
        shutil.rmtree(root)
    assert told[0] == told[1]
    assert any(told[0])
