"""A bit that flipped in a QUEUEOFFSET, which has no checksum.

One flipped bit in the last record of a queue asked for eight million entries: the open wrote fillers up to it until the disk was
full. An end counts only where the log has room for the messages before it.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from support.doses import dose
from support.stores.index_batches import quick_folder

import rmqcore
from rmqcore import Message

CONFIG: dict[str, Any] = {
    "mapped_file_size_commit_log": 4096,
    "mapped_file_size_consume_queue": 200,
    "message_index_enable": False,
}
QUEUE_OFFSET_POS = 20
Place = tuple[int, int]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[int, Place]]:
    """A store that was not closed, and queue id and queue offset of each message by its CommitLog offset.

    Queue 1 has messages in the first and the last file alone, queue 2 one message at all.
    """
    base = tmp_path_factory.mktemp("made")
    places = {}
    with rmqcore.open(base / "open", services=False, **CONFIG) as store:
        for number in range(90):
            queue_id = {0: 1, 3: 1, 40: 2, 88: 1}.get(number, 0)
            put = store.put(Message("T", b"b" * 80, queue_id))
            places[put.phy_offset] = queue_id, put.queue_offset
        while store.dispatch_once():
            pass
        store.flush()
        shutil.copytree(base / "open", base / "crashed")
    return base / "crashed", places


def contents(root: Path) -> dict[Path, bytes]:
    folders = root / "commitlog", root / "consumequeue"
    return {path: path.read_bytes() for one in folders for path in one.rglob("*") if path.is_file()}


def flip(root: Path, phy_offset: int, bit: int) -> None:
    """Flip a bit of a record's queue offset; bit 0 is the lowest."""
    with (root / "commitlog" / f"{phy_offset - phy_offset % 4096:020}").open("r+b") as file:
        pos = phy_offset % 4096 + QUEUE_OFFSET_POS + 7 - bit // 8
        file.seek(pos)
        (old,) = file.read(1)
        file.seek(pos)
        file.write(bytes([old ^ 1 << bit % 8]))


LOST = {"whole": (), "one": ("1",), "all": ("0", "1", "2")}
STRIDE = dose("RMQCORE_QUEUE_OFFSET_STRIDE", test=3, verify=1, night=1)
"""Through the records of a case; each case begins at another one, so that all of them have their turn."""
CASES = [
    (bit, lost, (number + bit_number) % 2 == 0)
    for bit_number, bit in enumerate([5, 23, 40, 62])
    for number, lost in enumerate(LOST)
]
"""Each bit with each loss, and after a crash half of both: the end of the store decides about the scan, not about the offset.

Without the case of bit 62, queue 1 lost and a clean exit: nothing that is left shows there that the queue was.
"""


@pytest.mark.parametrize(
    ("bit", "lost", "abort"),
    CASES,
    ids=[
        f"{bit}-{lost}-after a {'crash' if abort else 'clean exit'}" for bit, lost, abort in CASES
    ],
)
def test_each_record(
    made: tuple[Path, dict[int, Place]],
    bit: int,
    lost: str,
    abort: bool,
) -> None:
    source, places = made
    chosen = [at for at, place in places.items() if place[0] or at % 4096 < 400 or place[1] > 82]
    assert max(places) in chosen
    for phy_offset in chosen[CASES.index((bit, lost, abort)) % STRIDE :: STRIDE]:
        with quick_folder() as name:
            root = shutil.copytree(source, Path(name) / "store")
            flip(root, phy_offset, bit)
            for queue_id in LOST[lost]:
                shutil.rmtree(root / "consumequeue" / "T" / queue_id)
            if not abort:
                (root / "abort").unlink()
            check(root, places, phy_offset)


def test_the_only_record_of_a_log(tmp_path: Path) -> None:
    """Its entry points at CommitLog offset 0, as a place without an entry seems to: the entry was taken away, and came back."""
    with rmqcore.open(tmp_path, services=False, **CONFIG) as store:
        store.put(Message("T", b"body"))
    flip(tmp_path, 0, 56)
    for _ in range(2):
        with rmqcore.open(tmp_path, services=False, **CONFIG) as store:
            assert (store.max_offset("T", 0), store.recovery.truncated_entries) == (1, 0)


def check(root: Path, places: dict[int, Place], damaged: int) -> None:
    """Open: the other messages are at their places, and nothing grew. Open again: nothing changes."""
    with rmqcore.open(root, services=False, **CONFIG) as store:
        for phy_offset, (queue_id, queue_offset) in places.items():
            if phy_offset != damaged:
                found = store.get("T", queue_id, queue_offset, 1).messages
                assert [view.phy_offset for view in found] == [phy_offset], (damaged, phy_offset)
    before = contents(root)
    assert len(before) < 60
    with rmqcore.open(root, services=False, **CONFIG):
        assert contents(root).keys() == before.keys()
    assert contents(root) == before
