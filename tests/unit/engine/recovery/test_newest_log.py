"""After a clean exit the newest part of the log is compared with the queues; where it shows anything, all that a scan goes over.

All of it was compared, which made the open of a closed store with 600 MB in its last file take 1.4 times as long.
"""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import Any

import pytest

import rmqcore
from rmqcore import Message
from rmqcore.engine.recovery import plan
from rmqcore.engine.recovery.report import RecoveryReport
from rmqcore.errors import CommitLogMissingError
from rmqcore.offline.fsck import fsck
from rmqcore.testing.recovery_check import check_again

ENTRY, COUNT = 20, 400
CONFIG: dict[str, Any] = {
    "mapped_file_size_commit_log": 32768,
    "mapped_file_size_consume_queue": ENTRY * 100,
    "max_hash_slot_num": 100,
    "max_index_num": 2000,
}
NEWEST = 8192


@pytest.fixture(autouse=True)
def little(monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches of few records, and little of the log is the newest part."""
    monkeypatch.setattr(plan, "CLEAN_BYTES", NEWEST)
    monkeypatch.setattr(plan, "batch_rows", lambda _count: 8)


@pytest.fixture
def closed(tmp_path: Path) -> Path:
    root = tmp_path / "store"
    with rmqcore.open(root, services=False, **CONFIG) as store:
        for number in range(COUNT):
            store.put(Message(f"T{number % 2}", b"x" * 100, 0, keys=f"k{number}"))
        store.put(Message("Rare", b"x" * 100, 0))
        for number in range(80):
            store.put(Message(f"T{number % 2}", b"x" * 100, 0))
        while store.dispatch_once():
            pass
    return root


def reopened(root: Path, **settings: Any) -> RecoveryReport:
    with rmqcore.open(root, services=False, **CONFIG, **settings) as store:
        while store.dispatch_once():
            pass
        return store.recovery


def break_entry(root: Path, topic: str, queue_offset: int) -> None:
    """Another size in an entry."""
    pos = queue_offset * ENTRY
    start = pos - pos % CONFIG["mapped_file_size_consume_queue"]
    with (root / "consumequeue" / topic / "0" / f"{start:020d}").open("r+b") as file:
        file.seek(pos - start + 8)
        file.write(b"\0\0\0\7")


def end_of(root: Path, topic: str) -> int:
    with rmqcore.read(root) as reader:
        return next(queue.max_offset for queue in reader.queues() if queue.topic == topic)


def test_a_sound_store_is_looked_at_in_part(closed: Path) -> None:
    report = reopened(closed)
    log = report.end_phy_offset - report.start_phy_offset
    assert NEWEST - 4096 < report.compared_bytes <= NEWEST < log
    assert report.compared_from == report.end_phy_offset - report.compared_bytes
    assert report.differing_entries == 0


def test_all_is_compared_where_the_newest_part_shows_damage(closed: Path) -> None:
    """The older entry, which no look at the newest part shows, is made right too."""
    old, new = end_of(closed, "T0") - 60, end_of(closed, "T0") - 2
    break_entry(closed, "T0", old)
    before = reopened(closed)
    assert before.differing_entries == 0
    break_entry(closed, "T0", new)
    report = reopened(closed)
    assert report.differing_entries == 2
    assert report.compared_bytes == report.end_phy_offset - report.start_phy_offset
    assert [found for found in fsck(closed).findings if found.severity == "error"] == []


@pytest.mark.parametrize("topic", ["T0", "T1"])
def test_a_queue_that_is_gone_comes_back_whole(closed: Path, topic: str) -> None:
    end = end_of(closed, topic)
    shutil.rmtree(closed / "consumequeue" / topic)
    reopened(closed)
    assert end_of(closed, topic) == end
    assert [found for found in fsck(closed).findings if found.severity == "error"] == []


def test_a_log_that_lost_its_end(closed: Path) -> None:
    """All that is left lies before the newest part."""
    with rmqcore.read(closed) as reader:
        last = max(file.file_from_offset for file in reader.log_files())
        records = [m.phy_offset for m in reader.messages() if m.phy_offset < last]
    (closed / "commitlog" / f"{last:020d}").unlink()
    cut = records[-60]
    start = cut - cut % CONFIG["mapped_file_size_commit_log"]
    with (closed / "commitlog" / f"{start:020d}").open("r+b") as file:
        file.seek(cut - start)
        file.write(bytes(CONFIG["mapped_file_size_commit_log"] - (cut - start)))
    break_entry(closed, "T1", 150)
    with pytest.raises(CommitLogMissingError, match="3 consume queues have entries"):
        reopened(closed)
    report = reopened(closed, recover_without_commit_log=True)
    assert report.distrust
    assert report.compared_bytes == report.end_phy_offset
    check_again(closed, CONFIG)
    assert [found for found in fsck(closed).findings if found.severity == "error"] == []


def test_any_damage_and_one_open_does_all(closed: Path, tmp_path: Path) -> None:
    rng = random.Random(5)
    for _ in range(20):
        root = tmp_path / "damaged"
        shutil.copytree(closed, root)
        for _ in range(rng.randrange(1, 4)):
            topic = rng.choice(["T0", "T1", "Rare"])
            break_entry(root, topic, rng.randrange(end_of(root, topic)))
        reopened(root)
        check_again(root, CONFIG)
        shutil.rmtree(root)
