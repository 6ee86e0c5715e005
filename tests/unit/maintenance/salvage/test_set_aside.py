"""Two records that ask for one place of a queue: one of them has it, the other stays in the log, and the report says so."""

from __future__ import annotations

import shutil
import sys
from dataclasses import replace
from pathlib import Path
from types import FrameType

import pytest
from support.oracle import records as oracle
from support.stores.built_store import BuiltStore

import rmqcore
from rmqcore.maintenance.salvage import queue_claims
from rmqcore.maintenance.salvage.salvage import salvage
from rmqcore.offline.fsck import fsck


@pytest.fixture
def built(tmp_path: Path) -> BuiltStore:
    return BuiltStore(tmp_path / "store")


def check(
    built: BuiltStore, out: Path, served: list[oracle.Record], aside: list[oracle.Record]
) -> None:
    """What the queue serves, and that the others are found by message id and by key, with all that they say."""
    assert fsck(out).findings == []
    reader = rmqcore.read(out)
    for record in served:
        got = reader.get("T", 0, record.queue_offset, 1)
        assert [view.phy_offset for view in got.messages] == [record.phy_offset]
    assert sum(
        queue.max_offset - queue.min_offset for queue in reader.queues() if queue.topic == "T"
    ) >= len(served)
    for record in aside:
        view = reader.lookup(record.phy_offset)
        assert view is not None
        assert view.crc_ok()
        assert (view.body, view.queue_offset) == (record.body, record.queue_offset)
        found = reader.query("T", view.properties["UNIQ_KEY"], 10)
        assert [one.phy_offset for one in found] == [record.phy_offset]
    assert len(list(reader.messages())) == len(built.records)


@pytest.mark.parametrize("prop_crc", [False, True])
@pytest.mark.parametrize("with_queues", [False, True])
def test_a_topic_that_was_deleted_and_made_again(
    built: BuiltStore, tmp_path: Path, with_queues: bool, prop_crc: bool
) -> None:
    old = [built.put(prop_crc=prop_crc) for _ in range(30)]
    built.queues.clear()
    new = [built.put(prop_crc=prop_crc) for _ in range(20)]
    root = built.write()
    if not with_queues:
        shutil.rmtree(root / "consumequeue")
    report = salvage(root, tmp_path / "out")
    assert [(one.first_queue_offset, one.last_queue_offset) for one in report.set_aside] == [
        (0, 29)
    ]
    assert report.set_aside_messages == 30
    assert report.exit_code == 2
    assert (report.lost, report.missing) == ([], [])
    check(built, tmp_path / "out", new, old)


def test_the_queue_knows_better_than_the_numbers(built: BuiltStore, tmp_path: Path) -> None:
    """The first messages of the topic that was made again are lost, so that it does not begin at 0."""
    old = [built.put() for _ in range(30)]
    built.queues.clear()
    new = [built.put() for _ in range(20)]
    root = built.write()
    lost = new[0]
    built.log[lost.phy_offset : lost.phy_offset + 30] = bytes(30)
    built.write_log()
    report = salvage(root, tmp_path / "out")
    assert report.set_aside_messages == 29  # all of the old ones but that of the place that is lost
    got = rmqcore.read(tmp_path / "out").get("T", 0, 1, 1)
    assert [view.phy_offset for view in got.messages] == [new[1].phy_offset]
    assert fsck(tmp_path / "out").findings == []
    del old


def test_stale_records_behind_the_end_of_a_log_that_was_cut(
    built: BuiltStore, tmp_path: Path
) -> None:
    """The log was cut at record 20, and written anew from there; what lay behind the new end is still there."""
    first = [built.put() for _ in range(20)]
    again = [built.put(body=b"new") for _ in range(10)]
    stale = [built.put(queue_offset=25 + number, body=b"old") for number in range(10)]
    built.queues["T", 0] = {
        record.queue_offset: (record.phy_offset, record.msg_size or 0, record.tags_code)
        for record in first + again
    }
    report = salvage(built.write(), tmp_path / "out")
    assert [(one.first_queue_offset, one.last_queue_offset) for one in report.set_aside] == [
        (25, 29)
    ]
    check(built, tmp_path / "out", first + again + stale[5:], stale[:5])


@pytest.mark.parametrize("queue_offset", [36, 0, 1 << 40, -5, (1 << 63) - 1])
@pytest.mark.parametrize("with_queues", [False, True])
@pytest.mark.parametrize("at", [0, 50, 99])
def test_a_number_that_damage_changed(
    built: BuiltStore, tmp_path: Path, queue_offset: int, with_queues: bool, at: int
) -> None:
    for _ in range(100):
        built.put()
    if queue_offset == at:
        return
    root = built.write()
    changed = built.records[at]
    pos = changed.phy_offset + 20
    built.log[pos : pos + 8] = queue_offset.to_bytes(8, "big", signed=True)
    built.write_log()
    if not with_queues:
        shutil.rmtree(root / "consumequeue")
    report = salvage(root, tmp_path / "out")
    one = replace(changed, queue_offset=queue_offset)
    others = [record for record in built.records if record is not changed]
    assert report.lost == []
    if at == 0 and queue_offset == 36:
        return  # the queue may as well begin there: it is told below
    assert report.set_aside_messages == 1
    missing = [(gap.first_queue_offset, gap.last_queue_offset) for gap in report.missing]
    assert missing == ([(at, at)] if at == 50 else [])
    check(built, tmp_path / "out", others, [one])


@pytest.mark.parametrize(
    ("topic", "queue_id"), [("T", -3), ("a/b", 0), ("..", 0), (b"\xff\xfe", 0), ("", 0)]
)
def test_what_names_no_queue(
    built: BuiltStore, tmp_path: Path, topic: str | bytes, queue_id: int
) -> None:
    served = [built.put() for _ in range(10)]
    odd = built.put(topic, queue_id)
    built.queues.pop((oracle.text_of(odd.topic), queue_id))
    report = salvage(built.write(), tmp_path / "out")
    assert [(one.queue_id, one.why) for one in report.set_aside] == [
        (queue_id, "its topic or queue id is invalid")
    ]
    for record in served:
        got = rmqcore.read(tmp_path / "out").get("T", 0, record.queue_offset, 1)
        assert [view.phy_offset for view in got.messages] == [record.phy_offset]
    assert [one for one in fsck(tmp_path / "out").findings if one.kind != "topic_utf8"] == []


def test_more_runs_than_are_remembered(
    built: BuiltStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue_claims, "MOST_RUNS", 3)
    for number in range(12):
        built.put(f"T{number % 6}")
    assert salvage(built.write(), tmp_path / "out").missing_complete is False


@pytest.mark.large
def test_very_many_records_that_ask_for_places_of_others(built: BuiltStore, tmp_path: Path) -> None:
    """The work grows with the records, not with their square: a log of 2 MB took 40 s to salvage, and one of 20 MB an hour.

    Its queue offsets are the even numbers, and then the odd ones: each record is a run of its own, between two others.
    """
    count = 3000
    records = [
        built.put(queue_offset=number)
        for number in (*range(0, 2 * count, 2), *range(1, 2 * count, 2))
    ]
    root = built.write()
    shutil.rmtree(root / "consumequeue")
    steps = 0

    def count_step(frame: FrameType, event: str, arg: object) -> None:
        nonlocal steps
        steps += event == "call"

    sys.setprofile(count_step)
    try:
        report = salvage(root, tmp_path / "out")
    finally:
        sys.setprofile(None)
    assert report.set_aside_messages == count - 1  # the last has a place behind all others
    assert steps < 400 * len(records), steps
