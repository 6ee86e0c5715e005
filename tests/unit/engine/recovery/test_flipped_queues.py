"""One bit of the topic or queue id of a queue's last record flipped: the queue keeps its end, and everything reports it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.stores.flipped_record import SIZES, flipped

import rmqcore
from rmqcore import Message
from rmqcore.cli import main
from rmqcore.vocabulary.status import GetMessageStatus

QUEUEID = 12
FLIPS = {
    "topic": (None, 0x01),
    "topic is not UTF-8": (None, 0x80),
    "queue id of a queue": (QUEUEID + 3, 0x01),
    "large queue id": (QUEUEID, 0x40),
    "negative queue id": (QUEUEID, 0x80),
}


@pytest.mark.parametrize(("position", "mask"), FLIPS.values(), ids=FLIPS)
def test_the_queue_keeps_its_end_over_many_opens(
    position: int | None, mask: int, tmp_path: Path
) -> None:
    """The queue ended at 9: the next message got an offset that consumers had passed, and a group at 10 never saw it."""
    hurt = flipped(tmp_path, position, mask)
    for _ in range(2):
        with rmqcore.open(tmp_path, services=False, **SIZES) as store:
            report = store.recovery
            assert (report.truncated_entries, report.healed_entries, report.exit_code) == (0, 0, 2)
            (one,) = report.misnamed
            assert (one.topic, one.queue_id, one.queue_offset) == ("Orders", 0, 9)
            assert one.phy_offset == hurt.phy_offset
            assert str(one) in str(report)
            assert report.keeps_misnamed
            assert store.max_offset("Orders", 0) == 10
            with store.get("Orders", 0, 9) as got:
                assert got.status == GetMessageStatus.FOUND
                assert [view.body for view in got.messages] == [b"x" * 300]
    with rmqcore.open(tmp_path, services=False, **SIZES) as store:
        assert store.put(Message("Orders", b"new", 0)).queue_offset == 10


@pytest.mark.parametrize(("position", "mask"), FLIPS.values(), ids=FLIPS)
@pytest.mark.parametrize("words", [["recover"], ["recover", "--deep"], ["fsck"], ["doctor"]])
def test_everything_that_looks_reports_it(
    words: list[str], position: int | None, mask: int, tmp_path: Path, capsys: Any
) -> None:
    """`doctor` said that the store is healthy, and `recover` that nothing is lost."""
    hurt = flipped(tmp_path, position, mask)
    assert main([words[0], str(tmp_path), *words[1:]]) == 2
    assert str(hurt.phy_offset) in capsys.readouterr().out


def test_after_a_crash_the_plan_says_what_goes(tmp_path: Path, capsys: Any) -> None:
    """The plan said that nothing is lost, and `recover --apply` took an entry away without being asked to."""
    flipped(tmp_path, *FLIPS["topic"])
    (tmp_path / "abort").touch()
    assert main(["recover", str(tmp_path)]) == 2
    assert '"lost_entries": 1' in capsys.readouterr().out
    assert main(["recover", str(tmp_path), "--apply"]) == 2
    assert "Orders 0 would end at 9 instead of 10" in capsys.readouterr().err
    assert main(["recover", str(tmp_path), "--apply", "--drop", "1"]) == 2


def test_stale_entries_are_still_taken_away(tmp_path: Path) -> None:
    """An entry that leads to a record with an entry of its own is none of the queue."""
    with rmqcore.open(tmp_path, services=False, **SIZES) as store:
        for topic in ("Orders", "Bills"):
            for _ in range(3):
                store.put(Message(topic, b"x" * 300)).raise_for_status()
        while store.dispatch_behind_bytes:
            store.dispatch_once()
    bills = (tmp_path / "consumequeue" / "Bills" / "0" / f"{0:020}").read_bytes()
    with (tmp_path / "consumequeue" / "Orders" / "0" / f"{0:020}").open("r+b") as file:
        file.seek(60)
        file.write(bills[40:60])
    with rmqcore.open(tmp_path, services=False, **SIZES) as store:
        assert store.recovery.misnamed == ()
        assert store.max_offset("Orders", 0) == 3
