"""A get from a queue that lost its first, its last or all entries answered that no message is there, exit code 0."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import rmqcore
from rmqcore import Message
from rmqcore.cli import main
from rmqcore.offline.queues import uncovered

SIZES: dict[str, Any] = {
    "mapped_file_size_commit_log": 16 << 10,
    "mapped_file_size_consume_queue": 400,
    "max_hash_slot_num": 100,
    "max_index_num": 400,
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    place = tmp_path / "store"
    with rmqcore.open(place, services=False, **SIZES) as store:
        for number in range(150):
            store.put(Message("AB"[number % 2], b"x" * 300, number // 2 % 2)).raise_for_status()
        while store.dispatch_once():
            pass
    table = {topic: {"topicName": topic, "writeQueueNums": 3} for topic in "AB"}
    (place / "config").mkdir()
    (place / "config" / "topics.json").write_text(json.dumps({"topicConfigTable": table}))
    return place


def get(root: Path, offset: int, queue: int = 0) -> int:
    words = ["--topic", "A", "--queue", str(queue), "--offset", str(offset), "--body", "none"]
    return main(["get", str(root), *words])


def queue_file(root: Path, number: int) -> Path:
    return root / "consumequeue" / "A" / "0" / f"{number * 400:020}"


def first_file(root: Path) -> None:
    queue_file(root, 0).unlink()


def last_file(root: Path) -> None:
    queue_file(root, 1).unlink()


def queue(root: Path) -> None:
    shutil.rmtree(root / "consumequeue" / "A" / "0")


def topic(root: Path) -> None:
    shutil.rmtree(root / "consumequeue" / "A")


def name_with_a_space(root: Path) -> None:
    (root / "consumequeue" / "A" / "0").rename(root / "consumequeue" / "A" / "0 ")


def name_in_lower_case(root: Path) -> None:
    (root / "consumequeue" / "A").rename(root / "consumequeue" / "a")


HARMS: dict[Callable[[Path], None], tuple[int, int]] = {
    first_file: (0, 0),
    last_file: (20, 20),
    queue: (0, 0),
    topic: (0, 0),
    name_with_a_space: (0, 0),
    name_in_lower_case: (0, 0),
}
"""What is lost, and the queue offset that is asked for with that of the message without an entry."""


@pytest.mark.parametrize("harm", HARMS, ids=lambda harm: harm.__name__)
def test_the_message_is_named(
    root: Path, harm: Callable[[Path], None], capsys: pytest.CaptureFixture[str]
) -> None:
    asked, lost = HARMS[harm]
    assert get(root, asked) == 0
    harm(root)
    capsys.readouterr()
    assert get(root, asked) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert f"the entry of queue offset {lost} is missing" in err
    reader = rmqcore.read(root)
    reader.get("A", 0, asked)
    (damage,) = reader.damage
    view = reader.message_at(damage.start_phy_offset)
    assert view is not None
    assert (view.topic, view.queue_id, view.queue_offset) == ("A", 0, lost)


def test_sound_answers(root: Path) -> None:
    """The ends of a queue, one that never had a message, and messages that have expired."""
    for offset in (0, 37, 38, 39, 1000):
        assert get(root, offset) == 0
    assert get(root, 0, queue=2) == 0
    min((root / "commitlog").iterdir()).unlink()
    assert get(root, 0) == 0


def test_a_broker_that_has_not_come_so_far(root: Path) -> None:
    (root / "abort").touch()
    last_file(root)
    assert get(root, 20) == 0


def test_a_deleted_topic_stays_deleted(root: Path) -> None:
    topic(root)
    (root / "config" / "topics.json").unlink()
    assert get(root, 0) == 1


def test_only_a_part_of_the_log_is_searched(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uncovered, "SEARCH_BYTES", 1)
    last_file(root)
    assert get(root, 20) == 0
