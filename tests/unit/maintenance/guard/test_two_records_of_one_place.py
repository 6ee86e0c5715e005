"""Two records ask for one place of a queue: what a repair takes out of the queue is named, before and after it."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from support.oracle.records import Record
from support.stores.built_store import QUEUE_ENTRIES, BuiltStore

import rmqcore
from rmqcore.cli import main
from rmqcore.config import MessageStoreConfig
from rmqcore.disk.paths import StorePaths
from rmqcore.engine.recovery.preview import preview_recovery
from rmqcore.engine.recovery.thoroughness import RecoverMode
from rmqcore.errors import KnowsLessError
from rmqcore.maintenance.guard.recovery import approved, recovery_losses
from rmqcore.opening import open_by_mode

CONFIG = MessageStoreConfig(
    mapped_file_size_commit_log=4096,
    mapped_file_size_consume_queue=20 * QUEUE_ENTRIES,
    max_hash_slot_num=16,
    max_index_num=64,
    message_index_enable=False,
)
LIGHT = "%LMQ%light"


def given_again(root: Path, topic: str = "T") -> tuple[Path, list[Record]]:
    """As Java left it: 8 and 9 never dispatched, 10 to 13 at places 8 to 11, and after a restart 12 and 13 given again.

    Answers the store, and the two messages that are served at places 10 and 11, and whose own places others have.
    """
    store = BuiltStore(root)
    records = [store.put(topic, queue_offset=number) for number in range(14)]
    records += [store.put(topic, queue_offset=number) for number in range(12, 18)]
    served = records[:8] + records[10:]
    store.queues[topic, 0] = {
        place: (record.phy_offset, record.msg_size or 0, record.tags_code)
        for place, record in enumerate(served)
    }
    store.write()
    shutil.rmtree(root / "index")
    return root, records[12:14]


def doctor_opinion(root: Path) -> tuple[int, list[int | None]]:
    """Exit code, and the first messages of the ranges that are in no queue: it said nothing without ``--thorough``."""
    report = rmqcore.doctor(root, config=CONFIG)
    found = [one for one in report.diagnoses if one.name == "place_taken"]
    return report.exit_code, [piece.phy_offset for one in found for piece in one.evidence]


def fsck_opinion(root: Path) -> tuple[int, set[str]]:
    report = rmqcore.fsck(root)
    about = {
        finding.severity
        for finding in report.findings
        if finding.kind == "cq_missing" and finding.field == "phy_offset"
    }
    return report.exit_code, about


@pytest.mark.parametrize("deep", [False, True])
def test_the_plan_and_the_report_name_them(tmp_path: Path, deep: bool) -> None:
    """Both said that nothing is lost; the two messages were in no queue afterwards."""
    root, lost = given_again(tmp_path / "store")
    paths = StorePaths(root)
    assert fsck_opinion(root) == (2, {"error"})
    assert doctor_opinion(root) == (2, [lost[0].phy_offset])
    plan, _ = preview_recovery(paths, CONFIG, RecoverMode(deep))
    assert (plan.loses_something, plan.aside.count, plan.aside.displaced) == (True, 2, 2)
    (one,) = plan.aside.records
    assert (one.topic, one.queue_id, one.first_queue_offset, one.last_queue_offset) == (
        "T",
        0,
        12,
        13,
    )
    assert [one.first_phy_offset, one.last_phy_offset] == [record.phy_offset for record in lost]
    assert plan.as_dict()["set_aside_messages"] == plan.as_dict()["displaced_messages"] == 2
    assert recovery_losses(paths, plan).count == 2
    with rmqcore.open(root, CONFIG, services=False, recover="deep" if deep else "normal") as store:
        assert store.recovery.aside.records == plan.aside.records
        assert store.recovery.exit_code == 2
        assert "2 messages are in no queue" in str(store.recovery)
    assert fsck_opinion(root) == (2, {"error"}), "before the repair and after it"
    assert doctor_opinion(root) == (2, [lost[0].phy_offset])
    again, _ = preview_recovery(paths, CONFIG, RecoverMode(deep=True))
    assert (again.aside.count, again.aside.displaced) == (2, 0)
    report = rmqcore.doctor(root, thorough=True)
    assert [one.name for one in report.diagnoses if "fsck" in one.name] == ["fsck_errors"]


def test_an_open_that_is_asked_for_approval_changes_nothing(tmp_path: Path) -> None:
    root, lost = given_again(tmp_path / "store")
    path = root / "consumequeue" / "T" / "0" / f"{160:020}"
    before = path.read_bytes()
    paths = StorePaths(root)
    for drop in (None, 0, 1, 3):
        with pytest.raises(KnowsLessError, match="2 entries would be lost") as caught:
            open_by_mode(root, CONFIG, RecoverMode(approve=approved(paths, drop)))
        assert caught.value.count == 2
        assert path.read_bytes() == before
        assert not (root / "abort").exists()
    open_by_mode(root, CONFIG, RecoverMode(approve=approved(paths, 2))).close()
    assert path.read_bytes() != before
    assert rmqcore.read(root).lookup(lost[0].phy_offset) is not None


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root, _ = given_again(tmp_path / "store")
    conf = tmp_path / "broker.conf"
    conf.write_text("mappedFileSizeConsumeQueue=160\nmessageIndexEnable=false\n")
    words = [str(root), "--config", str(conf), "--no-progress"]
    assert main(["recover", *words]) == 2
    assert '"lost_entries": 2' in capsys.readouterr().out
    assert main(["recover", *words, "--apply"]) == 2
    assert "--drop 2" in capsys.readouterr().err
    assert main(["recover", *words, "--apply", "--drop", "2"]) == 2
    assert '"set_aside_messages": 2' in capsys.readouterr().out
    assert main(["recover", *words, "--deep", "--apply"]) == 2, "they are in no queue, as before"


def test_a_topic_that_was_made_again_loses_nothing(tmp_path: Path) -> None:
    store = BuiltStore(tmp_path / "store")
    for _ in range(9):
        store.put()
    store.queues["T", 0].clear()
    for _ in range(12):
        store.put()
    root = store.write()
    shutil.rmtree(root / "index")
    store.change_entry("T", 0, 3, (0, 0, 0))
    plan, _ = preview_recovery(StorePaths(root), CONFIG, RecoverMode(deep=True))
    assert plan.differing_entries > 1
    assert plan.aside.count == 0
    with rmqcore.open(root, CONFIG, services=False, recover="deep") as opened:
        assert opened.recovery.aside.count == 0
    assert rmqcore.fsck(root).exit_code == 0


def test_an_earlier_record_that_has_the_place(tmp_path: Path) -> None:
    """As a rebuild leaves it: fsck called it an error then, and a warning where the later record has the place."""
    store = BuiltStore(tmp_path / "store")
    records = [store.put() for _ in range(4)]
    store.put(queue_offset=3)
    entry = records[3].phy_offset, records[3].msg_size or 0, records[3].tags_code
    assert fsck_opinion(store.write())[1] == {"error"}
    store.change_entry("T", 0, 3, entry)
    assert fsck_opinion(store.root)[1] == {"error"}


def test_a_light_queue(tmp_path: Path) -> None:
    store = BuiltStore(tmp_path / "store")
    light: dict[int, Any] = store.queues[LIGHT, 0]
    for number, place in enumerate([0, 1, 2, 2, 3]):
        further = {"INNER_MULTI_DISPATCH": LIGHT, "INNER_MULTI_QUEUE_OFFSET": str(place)}
        record = store.put(properties=further)
        light[number] = record.phy_offset, record.msg_size or 0, record.tags_code
    root = store.write()
    shutil.rmtree(root / "index")
    config = CONFIG.changed(enable_lmq=True, enable_multi_dispatch=True)
    plan, _ = preview_recovery(StorePaths(root), config, RecoverMode(deep=True))
    assert [(one.topic, one.first_queue_offset) for one in plan.aside.records] == [(LIGHT, 2)]


def test_a_queue_that_is_one_place_behind_is_no_damaged_record(tmp_path: Path) -> None:
    """Record 8 was never dispatched, and 9 lies at its place: both get their own, and no bit flipped in 9."""
    store = BuiltStore(tmp_path / "store")
    records = [store.put("T", queue_offset=number) for number in range(10)]
    served = records[:8] + records[9:]
    store.queues["T", 0] = {
        place: (record.phy_offset, record.msg_size or 0, record.tags_code)
        for place, record in enumerate(served)
    }
    root = store.write()
    shutil.rmtree(root / "index")
    plan, _ = preview_recovery(StorePaths(root), CONFIG, RecoverMode(deep=True))
    assert plan.findings.misnamed == []
    with rmqcore.open(root, CONFIG, services=False, recover="deep") as opened:
        assert opened.max_offset("T", 0) == 10
        with opened.get("T", 0, 8) as got:
            assert [view.phy_offset for view in got.messages] == [
                record.phy_offset for record in records[8:]
            ]
