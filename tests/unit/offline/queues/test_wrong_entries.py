"""A get whose queue leads to other messages than the log has: the exit code was 0, with messages missing or of another queue."""

from __future__ import annotations

import json
import os
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import rmqcore
from rmqcore import Message
from rmqcore.cli import main

LOG_FILE = 16 << 10
SIZES: dict[str, Any] = {
    "mapped_file_size_commit_log": LOG_FILE,
    "mapped_file_size_consume_queue": 400,
    "max_hash_slot_num": 100,
    "max_index_num": 400,
}
ENTRY = struct.Struct(">qiq")
GET = ["--topic", "T", "--queue", "0", "--offset", "0"]
Harm = Callable[[Path], object]


def fill(root: Path, *, body: int = 900) -> Path:
    """Queues 0 and 1 of two topics, each with 30 entries in two files; the log has several files."""
    with rmqcore.open(root, services=False, **SIZES) as store:
        for number in range(120):
            topic = "T" if number % 2 else "U"
            store.put(Message(topic, b"x" * body, number // 2 % 2)).raise_for_status()
        while store.dispatch_behind_bytes:
            store.dispatch_once()
    return root


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return fill(tmp_path / "store")


def queue(root: Path, topic: str = "T", queue_id: int = 0) -> Path:
    return root / "consumequeue" / topic / str(queue_id)


def change_entry(path: Path, number: int, **fields: int) -> None:
    data = bytearray(path.read_bytes())
    entry = dict(
        zip(
            ("phy_offset", "msg_size", "tags_code"),
            ENTRY.unpack_from(data, 20 * number),
            strict=True,
        )
    )
    ENTRY.pack_into(data, 20 * number, *{**entry, **fields}.values())
    path.write_bytes(data)


# ---- no record --------------------------------------------------------------------------------------


def a_hole_in_the_log(root: Path) -> None:
    (root / "commitlog" / f"{LOG_FILE:020}").unlink()


def zeros_in_the_log(root: Path) -> None:
    with (root / "commitlog" / f"{0:020}").open("r+b") as file:
        file.seek(2000)
        file.write(bytes(8000))


def a_short_file_of_the_log(root: Path) -> None:
    os.truncate(root / "commitlog" / f"{0:020}", 5000)


def no_record_in_the_log(root: Path) -> None:
    for path in (root / "commitlog").iterdir():
        path.write_bytes(b"\x5a" * path.stat().st_size)


def a_size_that_lies(root: Path) -> None:
    change_entry(queue(root) / f"{0:020}", 3, msg_size=91)


def another_place_of_the_log(root: Path) -> None:
    change_entry(queue(root) / f"{0:020}", 3, phy_offset=7)


def a_negative_place(root: Path) -> None:
    change_entry(queue(root) / f"{0:020}", 3, phy_offset=-5)


def the_other_byte_order(root: Path) -> None:
    for path in queue(root).iterdir():
        entries = ENTRY.iter_unpack(path.read_bytes())
        path.write_bytes(b"".join(struct.pack("<qiq", *entry) for entry in entries))


def queues_of_another_store(root: Path) -> None:
    other = fill(root.with_name("other"), body=1000)
    shutil.rmtree(root / "consumequeue")
    (other / "consumequeue").rename(root / "consumequeue")


# ---- the record of another place --------------------------------------------------------------------


def another_queue_of_the_topic(root: Path) -> None:
    shutil.rmtree(queue(root))
    queue(root, queue_id=1).rename(queue(root))


def a_file_of_another_topic(root: Path) -> None:
    shutil.copy(queue(root, "U") / f"{0:020}", queue(root) / f"{0:020}")


def two_entries_swapped(root: Path) -> None:
    path = queue(root) / f"{0:020}"
    data = path.read_bytes()
    path.write_bytes(data[20:40] + data[:20] + data[40:])


# ---- no file ----------------------------------------------------------------------------------------


def files_of_no_bytes(root: Path) -> None:
    for path in queue(root).iterdir():
        os.truncate(path, 0)


def files_of_other_names(root: Path) -> None:
    for path in list(queue(root).iterdir()):
        path.rename(path.with_name(f"{path.name}.bak"))


def names_of_19_digits(root: Path) -> None:
    for path in list(queue(root).iterdir()):
        path.rename(path.with_name(path.name[1:]))


def zeros_in_the_queue(root: Path) -> None:
    with (queue(root) / f"{400:020}").open("r+b") as file:
        file.write(bytes(100))


HARMS: list[Harm] = [
    zeros_in_the_queue,
    a_hole_in_the_log,
    zeros_in_the_log,
    a_short_file_of_the_log,
    no_record_in_the_log,
    a_size_that_lies,
    another_place_of_the_log,
    a_negative_place,
    the_other_byte_order,
    queues_of_another_store,
    another_queue_of_the_topic,
    a_file_of_another_topic,
    two_entries_swapped,
    files_of_no_bytes,
    files_of_other_names,
    names_of_19_digits,
]


@pytest.mark.parametrize("harm", HARMS, ids=lambda harm: harm.__name__)
def test_the_exit_code_is_2(root: Path, harm: Harm, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["get", str(root), *GET, "--json"]) == 0
    capsys.readouterr()
    harm(root)
    first = 20 if harm is zeros_in_the_queue else 0
    assert main(["get", str(root), *GET[:-1], str(first), "--json"]) == 2
    out, err = capsys.readouterr()
    found = json.loads(out)["damage"]
    assert {one["kind"] for one in found} <= {"queue_entry", "log_missing"}
    assert "in consumequeue/T/0" in err
    reader = rmqcore.read(root)
    reader.get("T", 0, first)
    assert [one.as_dict() for one in reader.damage] == found


def test_a_range_for_each_run_of_entries(root: Path) -> None:
    another_queue_of_the_topic(root)
    a_size_that_lies(root)
    reader = rmqcore.read(root)
    assert len(reader.get("T", 0, 0)) == 19
    assert [(one.field, one.found) for one in reader.damage] == [
        ("what the log has for queue offsets 0 to 2", "T 1 at queue offset 0"),
        ("what the log has for queue offset 3", "missing"),
        ("what the log has for queue offsets 4 to 19", "T 1 at queue offset 4"),
    ]


def test_a_queue_file_that_is_missing(root: Path) -> None:
    with rmqcore.open(root, services=False, **SIZES) as store:
        for _ in range(30):
            store.put(Message("T", b"more", 0)).raise_for_status()
        while store.dispatch_behind_bytes:
            store.dispatch_once()
    (queue(root) / f"{400:020}").unlink()
    reader = rmqcore.read(root)
    reader.get("T", 0, 20)
    (found,) = reader.damage
    assert (found.kind, found.found) == ("queue_entry", "missing")
    assert "before queue offset 40" in found.field


def test_what_the_cleaner_deleted_is_no_damage(root: Path) -> None:
    (root / "commitlog" / f"{0:020}").unlink()
    reader = rmqcore.read(root)
    first = reader.get("T", 0, 0).next_begin_offset
    assert first > 0
    assert reader.get("T", 0, first).messages
    assert reader.damage == []


def test_a_light_queue_is_no_other_place(tmp_path: Path) -> None:
    with rmqcore.open(
        tmp_path, services=False, enable_lmq=True, enable_multi_dispatch=True, **SIZES
    ) as store:
        properties = {"INNER_MULTI_DISPATCH": "%LMQ%a,%LMQ%b"}
        for _ in range(3):
            store.put(Message("T", b"x", properties=properties)).raise_for_status()
        while store.dispatch_behind_bytes:
            store.dispatch_once()
    reader = rmqcore.read(tmp_path)
    assert len(reader.get("%LMQ%b", 0, 0)) == 3
    assert reader.damage == []


# ---- no queue ---------------------------------------------------------------------------------------


def test_a_queue_that_the_store_does_not_have(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    queue(root, queue_id=1).rename(queue(root, queue_id=1).with_name("one"))
    words = ["get", str(root), "--topic", "T", "--queue", "1", "--offset", "0"]
    assert main(words) == 2
    assert "the entry of queue offset 0 is missing" in capsys.readouterr().err
    words[5] = "2"
    assert main(words) == 1
    assert f"{root} has no queue 2 of topic 'T'; its queues: 0" in capsys.readouterr().err


def test_a_queue_that_only_the_broker_knows_has_no_message(root: Path) -> None:
    (root / "config").mkdir()
    table = {"topicConfigTable": {"T": {"topicName": "T", "readQueueNums": 4, "writeQueueNums": 4}}}
    (root / "config" / "topics.json").write_text(json.dumps(table))
    for queue_id, code in ((3, 0), (4, 1)):
        words = ["get", str(root), "--topic", "T", "--queue", str(queue_id), "--offset", "0"]
        assert main(words) == code
