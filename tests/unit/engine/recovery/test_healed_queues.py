"""Queue files that are missing or damaged, and the log that has everything: after an open each entry lies where it belongs."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.doses import dose
from support.stores.built_store import QUEUE_ENTRIES, BuiltStore
from support.stores.index_batches import quick_folder

import rmqcore
from rmqcore import Message
from rmqcore.offline.fsck import fsck


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """In memory where that is possible: each open syncs what it mends, and no test here cuts the power."""
    with quick_folder() as name:
        yield Path(name)


CONFIG: dict[str, Any] = {
    "mapped_file_size_commit_log": 1024,
    "mapped_file_size_consume_queue": 20 * QUEUE_ENTRIES,
    "message_index_enable": False,
}
Change = Callable[[random.Random, list[Path]], object]


def queue_files(root: Path) -> list[Path]:
    return sorted(path for path in (root / "consumequeue").rglob("0*") if path.is_file())


def contents(root: Path) -> dict[str, bytes]:
    folders = root / "commitlog", root / "consumequeue"
    files = [path for folder in folders for path in sorted(folder.rglob("*")) if path.is_file()]
    return {str(path.relative_to(root)): path.read_bytes() for path in files}


def built(root: Path, count: int, *, abort: bool) -> BuiltStore:
    store = BuiltStore(root, log_file_size=1024).fill(count)
    store.write(abort=abort)
    shutil.rmtree(root / "index")
    return store


def check_reachable(store: BuiltStore, root: Path) -> None:
    """Open, ask for every message, put one more, close: fsck finds nothing, and a second open changes nothing."""
    with rmqcore.open(root, services=False, **CONFIG) as opened:
        for (topic, queue_id), entries in store.queues.items():
            for queue_offset, (phy_offset, _, _) in entries.items():
                found = opened.get(topic, queue_id, queue_offset, 1).messages
                assert [(m.queue_offset, m.phy_offset) for m in found] == [
                    (queue_offset, phy_offset)
                ]
            assert opened.max_offset(topic, queue_id) == max(entries) + 1
            assert opened.min_offset(topic, queue_id) == 0
    assert [str(f) for f in fsck(root).findings if f.kind.startswith("cq")] == []
    before = contents(root)
    with rmqcore.open(root, services=False, **CONFIG) as opened:
        assert opened.recovery.differing_entries == 0
    assert contents(root) == before
    with rmqcore.open(root, services=False, **CONFIG) as opened:
        for (topic, queue_id), entries in store.queues.items():
            assert (
                opened.put(Message(topic, b"next", queue_id=queue_id)).queue_offset
                == max(entries) + 1
            )


@pytest.mark.parametrize("abort", [True, False], ids=["after a crash", "after a clean exit"])
@pytest.mark.parametrize("which", [0, 1, 2, -1])
def test_a_queue_file_that_is_gone(tmp_path: Path, abort: bool, which: int) -> None:
    """A file that was not the queue's newest was deleted: the message of queue offset 112 was served as 92.

    Recovery appended the messages that it dispatched again to the end that was left, and the next put went on from there.
    """
    store = built(tmp_path, 120, abort=abort)
    folder = tmp_path / "consumequeue" / "T" / "0"
    sorted(folder.iterdir())[which].unlink()
    check_reachable(store, tmp_path)


def delete(rng: random.Random, files: list[Path]) -> None:
    rng.choice(files).unlink()


def delete_queue(rng: random.Random, files: list[Path]) -> None:
    shutil.rmtree(rng.choice(files).parent)


def delete_all(rng: random.Random, files: list[Path]) -> None:
    shutil.rmtree(files[0].parents[2])


def zero(rng: random.Random, files: list[Path]) -> None:
    path = rng.choice(files)
    path.write_bytes(bytes(path.stat().st_size))


def zero_part(rng: random.Random, files: list[Path]) -> None:
    overwrite(rng, files, bytes)


def garbage(rng: random.Random, files: list[Path]) -> None:
    overwrite(rng, files, rng.randbytes)


def flip(rng: random.Random, files: list[Path]) -> None:
    path = rng.choice(files)
    data = bytearray(path.read_bytes())
    data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    path.write_bytes(data)


def overwrite(rng: random.Random, files: list[Path], make: Callable[[int], bytes]) -> None:
    path = rng.choice(files)
    data = bytearray(path.read_bytes())
    at = rng.randrange(len(data))
    size = rng.randint(1, len(data) - at)
    data[at : at + size] = make(size)
    path.write_bytes(data)


CHANGES: list[Change] = [delete, delete_queue, delete_all, zero, zero_part, garbage, flip]


@pytest.mark.parametrize(
    "seed", range(dose("RMQCORE_HEALED_QUEUES", test=20, verify=60, night=600))
)
def test_whatever_is_done_to_the_queues_of_a_crashed_store(tmp_path: Path, seed: int) -> None:
    """Of 200 stores with random damage 84 had errors of queues or index after a recovery, although the log had everything."""
    rng = random.Random(seed)
    store = built(tmp_path, rng.randint(1, 150), abort=True)
    for _ in range(rng.randint(1, 3)):
        files = queue_files(tmp_path)
        if files:
            rng.choice(CHANGES)(rng, files)
    if rng.random() < 0.3:
        (tmp_path / "checkpoint").write_bytes(
            rng.randbytes(4096) if rng.random() < 0.5 else bytes(4096)
        )
    check_reachable(store, tmp_path)


@pytest.mark.parametrize("count", [1, 5], ids=["the only entry", "the last of five"])
@pytest.mark.parametrize(
    "where", [-100, 0, 1 << 40], ids=["in the log", "at its end", "far behind it"]
)
@pytest.mark.parametrize("abort", [True, False], ids=["after a crash", "after a clean exit"])
def test_a_last_entry_that_points_at_the_newest_messages(
    tmp_path: Path, abort: bool, where: int, count: int
) -> None:
    """After a clean exit the entry was taken away, as if the log had lost its message: the next put gave its queue offset away.

    Where it had been the only one, its file went with it, and the open after that one brought both back.
    """
    store = BuiltStore(tmp_path, log_file_size=1024)
    for _ in range(count):
        store.put("Old")
    store.fill(60).write(abort=abort)
    shutil.rmtree(tmp_path / "index")
    end = store.records[-1].phy_offset + (store.records[-1].msg_size or 0)
    _, size, code = store.queues["Old", 0][count - 1]
    store.change_entry("Old", 0, count - 1, (end + where, size, code))
    check_reachable(store, tmp_path)


@pytest.mark.parametrize("how", ["a file is gone", "a file is zeros", "a file is noise"])
@pytest.mark.parametrize("abort", [True, False], ids=["after a crash", "after a clean exit"])
def test_entries_whose_messages_are_lost_stay(tmp_path: Path, abort: bool, how: str) -> None:
    """They went where that part of the log was compared, which the damage of other queues decides: a second open changed a queue.

    As in Java they stay, and no message gets the queue offset of one that is lost.
    """
    store = BuiltStore(tmp_path, log_file_size=1024)
    for _ in range(5):
        store.fill(3)
        store.put("Old")
    store.fill(40).write(abort=abort)
    shutil.rmtree(tmp_path / "index")
    phy_offset = store.queues["Old", 0][4][0]
    path = tmp_path / "commitlog" / f"{phy_offset // 1024 * 1024:020}"
    if how == "a file is gone":
        path.unlink()
    else:
        path.write_bytes(bytes(1024) if "zeros" in how else random.Random(1).randbytes(1024))
    old = tmp_path / "consumequeue" / "Old" / "0" / f"{0:020}"
    before = old.read_bytes()
    for mode in ("normal", "normal", "deep", "normal"):
        with rmqcore.open(tmp_path, services=False, recover=mode, **CONFIG) as opened:
            assert opened.max_offset("Old", 0) == 5
        assert old.read_bytes() == before
    with rmqcore.open(tmp_path, services=False, **CONFIG) as opened:
        assert opened.put(Message("Old", b"next", queue_id=0)).queue_offset == 5


@pytest.mark.parametrize("abort", [True, False], ids=["after a crash", "after a clean exit"])
def test_a_checkpoint_of_noise(tmp_path: Path, abort: bool) -> None:
    """A time before 1970 for the index stayed in the checkpoint: it does not lead the index, but no clock says it."""
    built(tmp_path, 60, abort=abort)
    (tmp_path / "checkpoint").write_bytes(b"\xff" * 48 + bytes(4048))
    with rmqcore.open(tmp_path, services=False, **CONFIG):
        pass
    assert [str(f) for f in fsck(tmp_path).findings if f.kind == "checkpoint"] == []


@pytest.mark.parametrize("abort", [True, False], ids=["after a crash", "after a clean exit"])
@pytest.mark.parametrize("size", [0, 1, 160])
@pytest.mark.parametrize(("count", "start"), [(10, 8), (6, 8), (6, 16), (20, 16)])
def test_the_first_file_is_gone_and_the_next_has_no_entry(
    tmp_path: Path, abort: bool, size: int, count: int, start: int
) -> None:
    """The queue ended where the empty file begins, at 16 instead of 10, and the next message got that queue offset."""
    store = BuiltStore(tmp_path, log_file_size=1024)
    for _ in range(count):
        store.put("Old")
    store.fill(30).write(abort=abort)
    shutil.rmtree(tmp_path / "index")
    folder = tmp_path / "consumequeue" / "Old" / "0"
    for path in folder.iterdir():
        path.unlink()
    (folder / f"{20 * start:020}").write_bytes(bytes(size))
    check_reachable(store, tmp_path)


@pytest.mark.parametrize("abort", [True, False], ids=["after a crash", "after a clean exit"])
def test_entries_of_messages_before_the_log(tmp_path: Path, abort: bool) -> None:
    """Each open wrote a filler over one more: an entry whose size is wrong overlaps the next, and the log has neither message."""
    store = built(tmp_path, 150, abort=abort)
    for number in range(12):
        (tmp_path / "commitlog" / f"{1024 * number:020}").unlink()
    entries = store.queues["T", 0]
    assert entries[18][0] < 12 * 1024 < entries[max(entries)][0]
    phy_offset, _, code = entries[7]
    store.change_entry("T", 0, 7, (phy_offset, 12 * 1024, code))
    store.change_entry("T", 0, 12, (1 << 40, 100, 0))
    seen = []
    for _ in range(4):
        with rmqcore.open(tmp_path, services=False, **CONFIG):
            pass
        seen.append(contents(tmp_path))
    assert seen[0] == seen[1] == seen[2] == seen[3]
    data = b"".join(
        path.read_bytes() for path in sorted((tmp_path / "consumequeue" / "T" / "0").iterdir())
    )
    for queue_offset, (begin, _, _) in entries.items():
        if queue_offset != 12:
            assert int.from_bytes(data[20 * queue_offset : 20 * queue_offset + 8], "big") == begin


@pytest.mark.parametrize("high", [0x08, 0x40, 0x7F, 0x80])
@pytest.mark.parametrize("abort", [True, False], ids=["after a crash", "after a clean exit"])
def test_a_queue_offset_at_which_no_file_can_be(tmp_path: Path, abort: bool, high: int) -> None:
    """A bit of QUEUEOFFSET flipped in a queue's last record: the open ended with a ValueError, of a file's name."""
    store = built(tmp_path, 60, abort=abort)
    place = "T", 1
    (phy_offset, _, _) = store.queues[place][max(store.queues[place])]
    store.change_log(phy_offset + 20, bytes([high]))
    before = contents(tmp_path)
    for _ in range(2):
        with rmqcore.open(tmp_path, services=False, **CONFIG) as opened:
            assert opened.max_offset(*place) == max(store.queues[place]) + 1
    assert contents(tmp_path) == before
