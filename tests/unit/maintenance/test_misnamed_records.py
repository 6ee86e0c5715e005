"""One bit of a record's place flipped, so that it names a place that no record has: each tool that compares reports it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from support.stores.flipped_record import SIZES, flipped

import rmqcore
from rmqcore import Message
from rmqcore.cli import main

FIELDS = {
    "topic": (None, 0x20),
    "queue id": (15, 0x04),
    "queue offset": (27, 0x40),
    "high byte of the queue offset": (24, 0x40),
    "transaction type": (39, 0x04),
}
WHICH = {"first": 0, "in the middle": 4, "last": -1}
WORDS = {
    "fsck": ["fsck", "STORE"],
    "recover": ["recover", "STORE"],
    "recover --deep": ["recover", "STORE", "--deep"],
    "salvage": ["salvage", "STORE", "OUT"],
    "rebuild": ["rebuild", "STORE", "--out", "OUT"],
}


@pytest.mark.parametrize(("position", "mask"), FIELDS.values(), ids=FIELDS)
@pytest.mark.parametrize("which", WHICH.values(), ids=WHICH)
@pytest.mark.parametrize("words", WORDS.values(), ids=WORDS)
def test_it_is_named_with_exit_code_2(
    words: list[str], which: int, position: int | None, mask: int, tmp_path: Path, capsys: Any
) -> None:
    """Salvage and rebuild ended with 0 if the place was free, recover unless the record was the queue's last."""
    store = tmp_path / "store"
    hurt = flipped(store, position, mask, which)
    capsys.readouterr()
    places = {"STORE": str(store), "OUT": str(tmp_path / "out")}
    assert main([places.get(word, word) for word in words]) == 2
    out = capsys.readouterr().out
    if words[0] == "fsck":
        assert f'"phy_offset": {hurt.phy_offset}' in out
    else:
        (one,) = json.loads(out)["misnamed"]
        assert (one["topic"], one["queue_id"]) == ("Orders", 0)
        assert (one["queue_offset"], one["phy_offset"]) == (hurt.queue_offset, hurt.phy_offset)


@pytest.mark.parametrize(("position", "mask"), FIELDS.values(), ids=FIELDS)
@pytest.mark.parametrize("which", WHICH.values(), ids=WHICH)
def test_an_open_serves_the_message_where_consumers_know_it(
    which: int, position: int | None, mask: int, tmp_path: Path
) -> None:
    """The open wrote a second entry at the place that the record names, and said nothing."""
    hurt = flipped(tmp_path, position, mask, which)
    with rmqcore.open(tmp_path, services=False, **SIZES) as store:
        report = store.recovery
        assert (report.exit_code, report.healed_entries) == (2, 0)
        assert [one.phy_offset for one in report.misnamed] == [hurt.phy_offset]
        assert str(report.misnamed[0]) in str(report)
        places = [(one.topic, one.queue_id, one.max_offset) for one in store.queues()]
        assert places == [("Bills", 0, 10), ("Bills", 1, 10), ("Orders", 0, 10), ("Orders", 1, 10)]
        with store.get("Orders", 0, hurt.queue_offset, 1) as got:
            assert [view.phy_offset for view in got.messages] == [hurt.phy_offset]


def test_after_a_crash_nothing_in_the_middle_counts_as_taken_away(
    tmp_path: Path, capsys: Any
) -> None:
    flipped(tmp_path, *FIELDS["queue id"], WHICH["in the middle"])
    (tmp_path / "abort").touch()
    capsys.readouterr()
    assert main(["recover", str(tmp_path)]) == 2
    plan = json.loads(capsys.readouterr().out)
    assert (len(plan["misnamed"]), plan["lost_entries"]) == (1, 0)
    assert main(["recover", str(tmp_path), "--apply"]) == 2


@pytest.mark.parametrize(("position", "mask"), FIELDS.values(), ids=FIELDS)
@pytest.mark.parametrize("which", [0, 4], ids=["first", "in the middle"])
@pytest.mark.parametrize("recover", ["normal", "deep"])
def test_after_a_crash_a_message_in_the_middle_is_served_once(
    recover: Any, which: int, position: int | None, mask: int, tmp_path: Path
) -> None:
    """The record got a second entry, at the place that it names."""
    hurt = flipped(tmp_path, position, mask, which)
    want = [("Bills", 0, 10), ("Bills", 1, 10), ("Orders", 0, 10), ("Orders", 1, 10)]
    for _ in range(2):
        (tmp_path / "abort").touch()
        with rmqcore.open(tmp_path, services=False, recover=recover, **SIZES) as store:
            report = store.recovery
            assert (report.exit_code, report.healed_entries, report.filled_entries) == (2, 0, 0)
            assert [one.phy_offset for one in report.misnamed] == [hurt.phy_offset]
            places = [(one.topic, one.queue_id, one.max_offset) for one in store.queues()]
            assert places == want
            with store.get("Orders", 0, hurt.queue_offset, 1) as got:
                assert [view.phy_offset for view in got.messages] == [hurt.phy_offset]


def test_people_read_it_in_the_reports(tmp_path: Path, capsys: Any) -> None:
    store = tmp_path / "store"
    hurt = flipped(store, *FIELDS["queue id"], WHICH["last"])
    sentence = "whose record names Orders 4: its TOPIC or QUEUEID is damaged"
    report = rmqcore.salvage(store, tmp_path / "salvaged")
    assert sentence in str(report.misnamed[0])
    assert report.misnamed[0].phy_offset == hurt.phy_offset
    built = rmqcore.rebuild(store, tmp_path / "rebuilt")
    assert built.misnamed == report.misnamed


def test_a_salvaged_store_has_nothing_to_report(tmp_path: Path) -> None:
    flipped(tmp_path / "store", *FIELDS["transaction type"], WHICH["last"])
    rmqcore.salvage(tmp_path / "store", tmp_path / "once")
    again = rmqcore.salvage(tmp_path / "once", tmp_path / "twice")
    assert (again.exit_code, again.misnamed) == (0, [])


def test_a_deleted_topic_is_no_damage(tmp_path: Path) -> None:
    """RocketMQ deletes the files of a topic's queues, and leaves its records in the log."""
    with rmqcore.open(tmp_path / "store", services=False, **SIZES) as store:
        for topic in ("Kept", "Gone") * 5:
            store.put(Message(topic, b"x" * 300)).raise_for_status()
        while store.dispatch_behind_bytes:
            store.dispatch_once()
    shutil.rmtree(tmp_path / "store" / "consumequeue" / "Gone")
    assert rmqcore.rebuild(tmp_path / "store", tmp_path / "rebuilt").misnamed == []
    assert rmqcore.salvage(tmp_path / "store", tmp_path / "salvaged").misnamed == []
    with rmqcore.open(tmp_path / "store", services=False, **SIZES) as store:
        assert store.recovery.misnamed == ()
