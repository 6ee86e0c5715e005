"""Queue offsets that leap: 21, then 25, 26, 27, and no room in the log for the messages between.

A broker's recovery can give a queue its entries twice; its next message goes on behind them. Where such a queue was made anew
from the log all messages behind the leap had no entries, and the next put took their queue offsets.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from support.stores.built_store import BuiltStore

import rmqcore
from rmqcore import Message
from rmqcore.disk.paths import StorePaths
from rmqcore.maintenance.rebuild.rebuild import rebuild
from rmqcore.offline.fsck import fsck

PLACES = 8
CONFIG: dict[str, Any] = {
    "mapped_file_size_commit_log": 4096,
    "mapped_file_size_consume_queue": 20 * PLACES,
    "message_index_enable": False,
}
LEAP = (0, 1, 2, 7, 8, 9)


def made(root: Path, offsets: tuple[int, ...]) -> BuiltStore:
    store = BuiltStore(root)
    for queue_offset in offsets:
        store.put("T", 0, queue_offset=queue_offset)
    store.write(abort=True)
    for part in ("index", "consumequeue"):
        shutil.rmtree(root / part)
    return store


@pytest.mark.parametrize("kept", [0, 1])
@pytest.mark.parametrize("abort", [True, False], ids=["after a crash", "after a clean exit"])
def test_recovery_gives_all_their_places(tmp_path: Path, abort: bool, kept: int) -> None:
    made(tmp_path, LEAP)
    if kept:  # the queue has the entries before the leap
        with rmqcore.open(tmp_path, services=False, **CONFIG):
            pass
        file = tmp_path / "consumequeue" / "T" / "0" / f"{0:020}"
        file.write_bytes(file.read_bytes()[:60].ljust(20 * PLACES, b"\0"))
        (tmp_path / "consumequeue" / "T" / "0" / f"{20 * PLACES:020}").unlink()
        (tmp_path / "abort").write_bytes(b"1")
    if not abort:
        (tmp_path / "abort").unlink()
    for _ in range(2):
        with rmqcore.open(tmp_path, services=False, **CONFIG) as store:
            assert store.max_offset("T", 0) == LEAP[-1] + 1
            for queue_offset in LEAP:
                (view,) = store.get("T", 0, queue_offset, 1).messages
                assert view.queue_offset == queue_offset
    with rmqcore.open(tmp_path, services=False, **CONFIG) as store:
        assert store.put(Message("T", b"next")).queue_offset == LEAP[-1] + 1
    assert [one for one in fsck(tmp_path).findings if one.kind == "cq_missing"] == []


@pytest.mark.parametrize(
    "offsets", [(0, 5, 6, 7), (7, 12, 13), (1007, 1012, 1013, 1014), (0, 2, 9, 10)], ids=str
)
@pytest.mark.parametrize("abort", [True, False], ids=["after a crash", "after a clean exit"])
def test_a_leap_behind_the_first_record(
    tmp_path: Path, abort: bool, offsets: tuple[int, ...]
) -> None:
    """The log may have let the older messages go. The first record's number was taken for damaged, and it had no entry."""
    made(tmp_path, offsets)
    if not abort:
        (tmp_path / "abort").unlink()
    for _ in range(2):
        with rmqcore.open(tmp_path, services=False, **CONFIG) as store:
            assert store.max_offset("T", 0) == offsets[-1] + 1
            for queue_offset in offsets:
                (view,) = store.get("T", 0, queue_offset, 1).messages
                assert view.queue_offset == queue_offset


@pytest.mark.parametrize(
    ("offsets", "end"),
    [((0, 1, 2, 7), 3), ((0, 1, 2, 7, 3, 4), 5), ((0, 1, 2, 20, 21, 22), 3)],
    ids=["one alone", "one among others", "farther than a file of places"],
)
def test_what_is_a_damaged_number(tmp_path: Path, offsets: tuple[int, ...], end: int) -> None:
    made(tmp_path, offsets)
    for _ in range(2):
        with rmqcore.open(tmp_path, services=False, **CONFIG) as store:
            assert store.max_offset("T", 0) == end


def test_a_rebuild_makes_the_same(tmp_path: Path) -> None:
    made(tmp_path / "store", LEAP)
    rebuild(
        StorePaths(tmp_path / "store"),
        tmp_path / "out",
        config=rmqcore.MessageStoreConfig(**CONFIG),
    )
    with rmqcore.open(tmp_path / "store", services=False, **CONFIG):
        pass
    one, other = (
        {p.name: p.read_bytes() for p in (root / "consumequeue/T/0").iterdir()}
        for root in (tmp_path / "store", tmp_path / "out")
    )
    assert one == other
