"""Queues of batches (queue.type=BatchCQ): they were in no answer, and nothing said that they were not checked."""

from __future__ import annotations

import shutil
import struct
from pathlib import Path

import pytest
from support.stores.archives import unpack

import rmqcore
from rmqcore import codec
from rmqcore.cli import main
from rmqcore.offline.fsck import fsck
from rmqcore.vocabulary.status import GetMessageStatus

ARCHIVE = Path(__file__).parents[3] / "conformance" / "batch-queues.tar.xz"
"""A small store of RocketMQ 5.5.0: BatchT has the queues 0 (61 messages in 9 records) and 1 (94 messages)."""
TOPIC, UNIT = "BatchT", 46


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return unpack(ARCHIVE, tmp_path) / "batchcq"


def queue_file(root: Path, queue_id: int = 0) -> Path:
    return root / "batchconsumequeue" / TOPIC / str(queue_id) / f"{0:020}"


def change(root: Path, entry: int, form: str, at: int, value: int) -> None:
    with queue_file(root).open("r+b") as file:
        file.seek(entry * UNIT + at)
        file.write(struct.pack(form, value))


def test_topics_and_bounds(root: Path) -> None:
    reader = rmqcore.read(root)
    assert TOPIC in reader.topics()
    bounds = {
        queue.queue_id: (queue.min_offset, queue.max_offset, queue.file_count)
        for queue in reader.queues()
        if queue.topic == TOPIC
    }
    assert bounds == {0: (0, 61, 1), 1: (0, 94, 1)}
    assert reader.info().topic_count == len(reader.topics())
    assert reader.info().queue_count == len(reader.queues())


def test_a_walk_meets_every_record_once(root: Path) -> None:
    reader = rmqcore.read(root)
    found, queue_offset = [], 0
    while (got := reader.get(TOPIC, 0, queue_offset)).status is GetMessageStatus.FOUND:
        found += [view.phy_offset for view in got]
        queue_offset = got.next_begin_offset
    assert (got.status, queue_offset) == (GetMessageStatus.OFFSET_OVERFLOW_ONE, 61)
    records = reader.messages(topics=[TOPIC], queue_ids=[0])
    assert found == [view.phy_offset for view in records]


@pytest.mark.parametrize("queue_offset", range(61))
def test_a_get_inside_a_batch_gives_the_whole_batch(root: Path, queue_offset: int) -> None:
    got = rmqcore.read(root).get(TOPIC, 0, queue_offset, 1)
    (view,) = got
    count = int(view.properties.get("INNER_NUM", "1"))
    assert view.queue_offset <= queue_offset < view.queue_offset + count == got.next_begin_offset
    if count > 1:
        assert len(codec.decode_batch(view.body)) == count


def test_a_get_counts_messages_and_not_records(root: Path) -> None:
    """The first record has 6 messages, the second one: a seventh fits, an eighth does not."""
    reader = rmqcore.read(root)
    assert [len(reader.get(TOPIC, 0, 0, most)) for most in (1, 6, 7)] == [1, 1, 2]


def test_the_store_is_sound(root: Path) -> None:
    report = fsck(root)
    records = len(list(rmqcore.read(root).messages(topics=[TOPIC])))
    assert (report.exit_code, report.totals) == (0, {})
    assert report.counts["cq_entries"] > records > 0
    assert [one.name for one in rmqcore.doctor(root).diagnoses] == ["store_kind"]


@pytest.mark.parametrize(
    ("at", "form", "value", "field"),
    [
        (28, ">q", 3, "base_offset"),
        (36, ">h", 7, "batch_size"),
        (36, ">h", -1, "batch_size"),
        (8, ">i", 5, "msg_size"),
        (0, ">q", 17, "phy_offset"),
        (20, ">q", 1, "store_ms"),
    ],
)
def test_an_entry_that_lies_is_a_finding(
    root: Path, at: int, form: str, value: int, field: str
) -> None:
    change(root, 1, form, at, value)
    report = fsck(root)
    (finding,) = [one for one in report.findings if one.kind == "cq_entry"]
    assert (finding.path, finding.field) == (f"batchconsumequeue/{TOPIC}/0", field)
    assert report.exit_code == 2
    assert report.totals["cq_missing"] == {"error": 1}
    for queue_offset in range(-1, 63):
        rmqcore.read(root).get(TOPIC, 0, queue_offset)


def test_entries_in_another_order(root: Path) -> None:
    data = bytearray(queue_file(root).read_bytes())
    data[UNIT : 2 * UNIT], data[2 * UNIT : 3 * UNIT] = (
        data[2 * UNIT : 3 * UNIT],
        data[UNIT : 2 * UNIT],
    )
    queue_file(root).write_bytes(data)
    report = fsck(root)
    (finding,) = [one for one in report.findings if one.kind == "cq_entry"]
    assert finding.field == "base_offset"


def test_half_an_entry(root: Path) -> None:
    with queue_file(root).open("r+b") as file:
        file.truncate(8 * UNIT + 20)
    reader = rmqcore.read(root)
    bounds = {queue.queue_id: queue.max_offset for queue in reader.queues() if queue.topic == TOPIC}
    last = list(reader.messages(topics=[TOPIC], queue_ids=[0]))[-1]
    assert bounds[0] == last.queue_offset
    report = fsck(root)
    assert set(report.totals) == {"cq_file_size", "cq_missing"}
    assert report.exit_code == 2


def test_a_queue_that_is_gone(root: Path) -> None:
    shutil.rmtree(root / "batchconsumequeue" / TOPIC / "0")
    report = fsck(root)
    assert (report.exit_code, report.totals) == (2, {"cq_missing": {"error": 9}})


def test_batch_topics_alone_are_not_missing_queues(root: Path) -> None:
    shutil.rmtree(root / "consumequeue")
    (root / "consumequeue").mkdir()
    names = {one.name for one in rmqcore.doctor(root).diagnoses}
    assert "queues_missing" not in names


@pytest.mark.parametrize("harm", ["file is missing", "entry is zeroed", "all are missing"])
def test_a_comparison_of_two_stores_has_them(harm: str, root: Path, tmp_path: Path) -> None:
    """`diff` compared the other queues alone, and found two such stores equal."""
    other = Path(shutil.copytree(root, tmp_path / "other"))
    assert rmqcore.diff(root, other).exit_code == 0
    if harm == "file is missing":
        queue_file(other).unlink()
    elif harm == "entry is zeroed":
        change(other, 2, ">q", 0, 0)
    else:
        shutil.rmtree(other / "batchconsumequeue")
    report = rmqcore.diff(root, other)
    assert report.exit_code == 2
    assert {(one.topic, one.queue_id) for one in report.queues} >= {(TOPIC, 0)}


@pytest.mark.parametrize("harm", ["file is missing", "entry is zeroed"])
def test_salvage_reports_what_it_copied_unsound(
    harm: str, root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It copied the damaged queues, and ended with exit code 0; fsck found the new store unsound."""
    assert rmqcore.salvage(root, tmp_path / "before").exit_code == 0
    if harm == "file is missing":
        queue_file(root).unlink()
    else:
        change(root, 2, ">i", 8, 0)
    report = rmqcore.salvage(root, tmp_path / "out")
    assert report.exit_code == 2
    assert all(
        one.path.startswith(f"batchconsumequeue/{TOPIC}/0") for one in report.batch_queue_problems
    )
    assert report.batch_queue_problems
    assert main(["salvage", str(root), str(tmp_path / "again"), "--json"]) == 2
    assert f"batchconsumequeue/{TOPIC}/0" in capsys.readouterr().err
