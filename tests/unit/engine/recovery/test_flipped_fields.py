"""One bit flipped in a store that was closed: an open serves what Java serves (tests/interop/test_flipped_fields.py)."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import rmqcore
from rmqcore import Message, MessageView

FILE_SIZE = 16 << 10
SIZES: dict[str, Any] = {
    "mapped_file_size_commit_log": FILE_SIZE,
    "mapped_file_size_consume_queue": 400,
    "max_hash_slot_num": 100,
    "max_index_num": 400,
}
PHYSICALOFFSET = range(28, 36)
QUEUES = (("Orders", 0), ("Payments", 0))


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("closed") / "store"
    with rmqcore.open(root, services=False, **SIZES) as store:
        for number in range(120):
            topic, body = QUEUES[number % 2][0], b"%03d" % number * 60
            store.put(Message(topic, body, keys=[f"k{number}"])).raise_for_status()
        dispatch(store)
    return root


def dispatch(store: rmqcore.MessageStore) -> None:
    while store.dispatch_behind_bytes:
        store.dispatch_once()


def served(store: rmqcore.MessageStore) -> Iterator[MessageView]:
    for topic, queue_id in QUEUES:
        at = store.min_offset(topic, queue_id)
        while at < store.max_offset(topic, queue_id):
            with store.get(topic, queue_id, at, 32) as got:
                yield from got.messages
                at = got.next_begin_offset


def flip(root: Path, at: int, *, mask: int = 1) -> None:
    path = root / "commitlog" / f"{at - at % FILE_SIZE:020}"
    data = bytearray(path.read_bytes())
    data[at % FILE_SIZE] ^= mask
    path.write_bytes(data)


def views_of(root: Path) -> list[MessageView]:
    return list(rmqcore.read(root).messages())


@pytest.mark.parametrize("which", [-1, -3, -40], ids=["last", "newest file", "older file"])
@pytest.mark.parametrize("byte", [PHYSICALOFFSET[0], PHYSICALOFFSET[-2]])
def test_a_flipped_phy_offset_drops_no_other_message(
    closed: Path, tmp_path: Path, which: int, byte: int
) -> None:
    """The log was cut there: all messages behind it were gone."""
    root = Path(shutil.copytree(closed, tmp_path / "store"))
    views = views_of(root)
    hurt = views[which]
    flip(root, hurt.phy_offset + byte)
    with rmqcore.open(root, services=False, **SIZES) as store:
        report = store.recovery
        assert (report.cut_bytes, report.truncated_entries, report.distrust) == (0, 0, "")
        assert store.max_phy_offset == views[-1].phy_offset + views[-1].msg_size
        assert len(list(served(store))) == len(views) - 1
        assert store.max_offset(*QUEUES[0]) == store.max_offset(*QUEUES[1]) == 60
        put = store.put(Message("Orders", b"new"))
        put.raise_for_status()
        assert put.queue_offset == 60
        dispatch(store)
        passed_over = report.passed_over
    newest = views[-1].phy_offset - views[-1].phy_offset % FILE_SIZE
    if hurt.phy_offset >= newest:  # an open of a closed store does not read older files
        assert passed_over == ((hurt.phy_offset, hurt.phy_offset + hurt.msg_size),)
    with rmqcore.open(root, services=False, **SIZES) as store:
        assert store.recovery.cut_bytes == 0
        assert len(list(served(store))) == len(views)


def test_what_was_put_behind_it_survives_a_crash(closed: Path, tmp_path: Path) -> None:
    """The recovery after a crash begins before the record: what was acknowledged since is not cut with it."""
    root = Path(shutil.copytree(closed, tmp_path / "store"))
    hurt = views_of(root)[-3]
    flip(root, hurt.phy_offset + 30)
    live = tmp_path / "live"
    with rmqcore.open(root, services=False, **SIZES) as store:
        for number in range(5):
            store.put(Message("Orders", b"new%d" % number)).raise_for_status()
        store.flush()
        shutil.copytree(root, live)
    with rmqcore.open(live, services=False, **SIZES) as store:
        assert not store.recovery.clean_exit
        assert store.recovery.cut_bytes == 0
        dispatch(store)
        assert sum(bytes(view.body).startswith(b"new") for view in served(store)) == 5
        assert len(list(served(store))) == 120 - 1 + 5


def test_the_queues_are_made_again_around_it(closed: Path, tmp_path: Path) -> None:
    root = Path(shutil.copytree(closed, tmp_path / "store"))
    flip(root, views_of(root)[70].phy_offset + 34)
    shutil.rmtree(root / "consumequeue")
    shutil.rmtree(root / "index")
    with rmqcore.open(root, services=False, **SIZES) as store:
        dispatch(store)
        assert store.recovery.cut_bytes == 0
        assert len(list(served(store))) == 119
        assert len(store.query("Orders", "k118").messages) == 1


def test_a_queue_far_behind_and_damage_that_java_does_not_read(
    closed: Path, tmp_path: Path
) -> None:
    """One queue ends in the first file, so the scan begins there: the damage on the way ended the log, and ten files went."""
    root = tmp_path / "store"
    with rmqcore.open(root, services=False, **{**SIZES, "commit_log_recover_max_num": 2}) as store:
        for number in range(400):
            store.put(Message("Orders", b"%03d" % number * 60)).raise_for_status()
        dispatch(store)
    views = views_of(root)
    hurt = next(view for view in views if view.phy_offset > 2 * FILE_SIZE)
    flip(root, hurt.phy_offset + 4)
    queue = sorted((root / "consumequeue" / "Orders" / "0").iterdir())
    for path in queue[1:]:
        path.unlink()
    (root / "abort").touch()
    (root / "checkpoint").unlink()
    with rmqcore.open(root, services=False, **{**SIZES, "commit_log_recover_max_num": 2}) as store:
        dispatch(store)
        assert store.recovery.cut_bytes == 0
        bodies = {bytes(view.body) for view in served(store)}
        assert len(bodies) == 399
