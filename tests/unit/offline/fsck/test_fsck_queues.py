"""Queues that do not fit the log, and all that looks odd in a queue and is ordinary."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
from support.oracle import records as oracle
from support.stores.built_store import (
    COMMIT,
    FILLER,
    INNER_BATCH,
    PREPARED,
    QUEUE_ENTRIES,
    ROLLBACK,
    BuiltStore,
    file_name,
)

from rmqcore import MessageStoreConfig
from rmqcore.offline.fsck import FsckReport, fsck
from rmqcore.offline.fsck.findings import Finding


@pytest.fixture
def built(tmp_path: Path) -> BuiltStore:
    return BuiltStore(tmp_path / "store")


@pytest.fixture
def broken(built: BuiltStore) -> BuiltStore:
    """A store to be broken: 60 records, T/0 and T/1 with 20 each, Other/0 and Other/1 with 10 each."""
    built.fill().write()
    return built


def only(report: FsckReport, kind: str) -> Finding:
    """The only finding of a kind."""
    (found,) = [finding for finding in report.findings if finding.kind == kind]
    return found


def severities(report: FsckReport) -> dict[str, str]:
    return {kind: " ".join(sorted(counts)) for kind, counts in report.totals.items()}


# ---- entries that do not fit ------------------------------------------------------------------------


@pytest.mark.parametrize("field", ["phy_offset", "msg_size", "tags_code"])
def test_a_field_of_an_entry(broken: BuiltStore, field: str) -> None:
    right = broken.queues["T", 1][7]
    at = ("phy_offset", "msg_size", "tags_code").index(field)
    wrong = tuple(value + (index == at) for index, value in enumerate(right))
    broken.change_entry("T", 1, 7, (wrong[0], wrong[1], wrong[2]))
    report = fsck(broken.root)
    found = only(report, "cq_entry")
    assert severities(report) == {"cq_entry": "error"}
    assert (found.field, found.expected, found.found) == (field, right[at], right[at] + 1)
    assert (found.path, found.phy_offset) == ("consumequeue/T/1", right[0])
    assert report.exit_code == 2


def test_an_entry_of_another_queue(broken: BuiltStore) -> None:
    broken.change_entry("T", 1, 7, broken.queues["Other", 0][3])
    report = fsck(broken.root)
    assert severities(report) == {"cq_entry": "error"}
    assert "a record of Other queue 0 offset 3" in only(report, "cq_entry").message
    assert report.would_be_lost["unreachable"]["queues"] == [
        {"topic": "T", "queue_id": 1, "records": 1}
    ]


def test_two_entries_swapped(broken: BuiltStore) -> None:
    entries = broken.queues["T", 0]
    broken.change_entry("T", 0, 3, entries[4])
    broken.change_entry("T", 0, 4, entries[3])
    report = fsck(broken.root)
    assert report.totals == {"cq_entry": {"error": 2}}
    assert report.would_be_lost["unreachable"]["records"] == 2


def test_an_entry_that_points_past_the_log(broken: BuiltStore) -> None:
    end = len(broken.log)
    broken.change_entry("T", 0, 20, (end, 100, 0))
    broken.change_entry("T", 0, 21, (1 << 40, 100, 0))
    report = fsck(broken.root)
    assert report.totals == {"cq_beyond": {"error": 2}}
    assert only(report, "cq_beyond").expected == f"less than {end}"
    # A store in use has the same finding: nothing was written there meanwhile.
    (broken.root / "abort").touch()
    assert fsck(broken.root).totals == {"cq_beyond": {"error": 2}, "abort": {"info": 1}}


def test_an_entry_too_many_that_leads_to_a_record(broken: BuiltStore) -> None:
    broken.change_entry("T", 0, 20, broken.queues["T", 0][5])
    report = fsck(broken.root)
    found = only(report, "cq_entry")
    assert (found.field, found.expected, found.found) == ("queue_offset", "5", "20")


def test_an_entry_into_the_middle_of_a_record(broken: BuiltStore) -> None:
    broken.change_entry("T", 0, 20, (broken.records[3].phy_offset + 10, 100, 0))
    assert only(fsck(broken.root), "cq_entry").expected == "the start of a record"


def test_bytes_behind_a_queues_end_are_no_entries(broken: BuiltStore) -> None:
    # Nothing overwrites these bytes with zeros when Java's recovery cuts a queue.
    broken.change_entry("T", 0, 20, (-1, 5, 5))
    broken.change_entry("T", 0, 22, (5, 5, 5))
    report = fsck(broken.root)
    assert severities(report) == {"cq_entry": "warning"}
    assert report.exit_code == 0


def test_a_wrong_entry_of_a_record_whose_queue_offset_is_damaged(broken: BuiltStore) -> None:
    record = next(record for record in broken.records if record.queue_offset == 5)
    for wrong in (1 << 62, 0, 3, -1):
        broken.change_log(record.phy_offset + 20, wrong.to_bytes(8, "big", signed=True))
        report = fsck(broken.root)
        assert report.totals["cq_entry"]["error"] >= 1
        assert report.exit_code == 2


# ---- records without an entry -----------------------------------------------------------------------


def test_an_entry_wiped_out(broken: BuiltStore) -> None:
    broken.change_entry("T", 0, 7, (0, 0, 0))
    broken.change_entry("T", 0, 8, (0, 0, 0))
    report = fsck(broken.root)
    assert report.totals == {"cq_missing": {"error": 2}}
    assert "7 to 8" in only(report, "cq_missing").message
    assert report.would_be_lost["unreachable"]["records"] == 2


def test_a_filler_in_the_place_of_an_entry(broken: BuiltStore) -> None:
    broken.change_entry("T", 0, 0, FILLER)
    assert only(fsck(broken.root), "cq_missing").found == "filler"


def test_a_queues_end_is_lag_only_after_an_unclean_exit(broken: BuiltStore) -> None:
    # The last record of all is of T/1: dispatch had not come to it.
    last = broken.records[-1]
    broken.change_entry("T", 1, last.queue_offset, (0, 0, 0))
    report = fsck(broken.root)
    assert (severities(report), report.exit_code) == ({"cq_missing": "error"}, 2)
    (broken.root / "abort").touch()
    report = fsck(broken.root)
    assert (severities(report), report.exit_code) == ({"cq_missing": "info", "abort": "info"}, 0)
    # An older record: later messages have entries in other queues. A start dispatches it again.
    broken.change_entry("Other", 1, 9, (0, 0, 0))
    report = fsck(broken.root)
    assert report.totals["cq_missing"] == {"info": 1, "warning": 1}
    assert report.would_be_lost["unreachable"]["records"] == 0


def test_a_queue_file_missing_in_the_middle(broken: BuiltStore) -> None:
    path, _ = broken.queue_file("T", 0, QUEUE_ENTRIES)
    path.unlink()
    report = fsck(broken.root)
    assert severities(report) == {"cq_hole": "error"}
    assert only(report, "cq_hole").path == f"consumequeue/T/0/{path.name}"
    assert report.would_be_lost["unreachable"]["records"] == QUEUE_ENTRIES


def test_the_first_and_the_last_queue_file_missing(broken: BuiltStore) -> None:
    broken.queue_file("T", 0, 0)[0].unlink()
    broken.queue_file("T", 1, 19)[0].unlink()
    report = fsck(broken.root)
    assert report.totals == {"cq_missing": {"error": QUEUE_ENTRIES + 4}}


def test_a_deleted_topic_leaves_its_records(broken: BuiltStore) -> None:
    shutil.rmtree(broken.root / "consumequeue" / "Other")
    report = fsck(broken.root)
    assert severities(report) == {"cq_missing": "warning"}
    assert report.exit_code == 0
    # All queues at once are no deleted topic.
    shutil.rmtree(broken.root / "consumequeue")
    report = fsck(broken.root)
    assert (severities(report), report.exit_code) == ({"cq_missing": "error"}, 2)


@pytest.mark.parametrize("left", ["renamed queues", "a file", "a topic of the broker"])
def test_a_topic_of_which_something_is_left_was_not_deleted(broken: BuiltStore, left: str) -> None:
    """Each was taken for a deleted topic, with exit code 0."""
    folder = broken.root / "consumequeue" / "Other"
    if left == "renamed queues":
        for queue in list(folder.iterdir()):
            queue.rename(queue.with_name(f"{queue.name}.bak"))
    else:
        shutil.rmtree(folder)
    if left == "a file":
        folder.write_bytes(b"x")
    if left == "a topic of the broker":
        (broken.root / "config").mkdir()
        table = {"topicConfigTable": {"Other": {"topicName": "Other"}}}
        (broken.root / "config" / "topics.json").write_text(json.dumps(table))
    report = fsck(broken.root)
    assert report.totals["cq_missing"] == {"error": 20}
    assert report.exit_code == 2


def test_an_empty_directory_of_a_deleted_topic(broken: BuiltStore) -> None:
    folder = broken.root / "consumequeue" / "Other"
    shutil.rmtree(folder)
    folder.mkdir()
    assert fsck(broken.root).exit_code == 0


def test_a_topic_deleted_and_made_again_begins_at_0(built: BuiltStore) -> None:
    """Topic deletion destroys the queues and leaves the log; the next message of the topic has queue offset 0 again."""
    built.fill(60)
    del built.queues["T", 0]
    built.fill(30)
    report = fsck(built.write())
    assert severities(report) == {"cq_missing": "warning"}
    assert report.exit_code == 0
    # 20 messages of the first life: entries of the second life shadow the first few, the rest have no entry.
    assert report.totals["cq_missing"]["warning"] == 20
    assert report.would_be_lost["unreachable"]["records"] == 20
    # The second life is checked like any other queue.
    built.change_entry("T", 0, 9, (0, 0, 0))
    assert fsck(built.root).exit_code == 2


# ---- what is ordinary -------------------------------------------------------------------------------


def test_transactions_and_inner_batches(built: BuiltStore) -> None:
    built.fill(10)
    built.put(sys_flag=PREPARED)
    built.put(sys_flag=ROLLBACK)
    built.put(sys_flag=COMMIT)
    built.put(sys_flag=INNER_BATCH | 0x40)
    built.put(sys_flag=0)
    assert fsck(built.write()).findings == []


def test_an_entry_for_a_prepared_record_is_wrong(built: BuiltStore) -> None:
    built.fill(10)
    record = built.put(sys_flag=PREPARED)
    built.queues["T", 0][max(built.queues["T", 0]) + 1] = (
        record.phy_offset,
        record.msg_size or 0,
        record.tags_code,
    )
    assert severities(fsck(built.write())) == {"cq_entry": "error"}


def test_fillers_in_the_first_file_only(built: BuiltStore) -> None:
    for number in range(20):
        built.put(queue_offset=5 + number)
    root = built.write()
    assert fsck(root).findings == []
    built.change_entry("T", 0, 25, FILLER)
    assert "is a filler" in only(fsck(root), "cq_entry").message


def test_fillers_for_messages_that_the_log_lacks(built: BuiltStore) -> None:
    """Dispatch fills their places in any file of a queue; where the log has the message a filler is an error."""
    for number in range(60):
        built.put(queue_offset=number if number < 30 else number + 12)
    root = built.write()
    for number in range(30, 42):
        built.change_entry("T", 0, number, FILLER)
    assert fsck(root).findings == []
    built.change_entry("T", 0, 43, FILLER)
    assert only(fsck(root), "cq_missing").found == "filler"


def test_expired_entries(broken: BuiltStore) -> None:
    broken.fill(60).write()
    (broken.root / "commitlog" / file_name(0)).unlink()
    assert fsck(broken.root).findings == []
    # Queues all of whose messages have expired.
    for path in sorted((broken.root / "commitlog").iterdir())[:-1]:
        path.unlink()
    assert fsck(broken.root).findings == []


def test_delayed_messages_and_the_brokers_own_levels(built: BuiltStore) -> None:
    built.fill(5)
    for level in (1, 3, 18, 99):
        built.put("SCHEDULE_TOPIC_XXXX", level - 1, properties={"DELAY": str(level)})
    assert fsck(built.write()).findings == []
    other = MessageStoreConfig(message_delay_level="7s 9s 11s")
    assert fsck(built.root, config=other).totals == {"cq_entry": {"error": 4}}
    record = built.records[5]
    size = record.msg_size or 0
    built.change_entry(
        "SCHEDULE_TOPIC_XXXX", 0, 0, (record.phy_offset, size, record.store_timestamp_ms + 7000)
    )
    report = fsck(built.root)
    assert (severities(report), report.exit_code) == ({"cq_entry": "warning"}, 0)
    assert fsck(built.root, config=other).totals == {"cq_entry": {"error": 3}}
    # No level delivers before the message was stored.
    built.change_entry(
        "SCHEDULE_TOPIC_XXXX", 0, 0, (record.phy_offset, size, record.store_timestamp_ms - 1)
    )
    assert fsck(built.root).exit_code == 2


def test_addresses_in_the_queue_ext(broken: BuiltStore) -> None:
    phy_offset, size, _ = broken.queues["T", 0][4]
    broken.change_entry("T", 0, 4, (phy_offset, size, -(1 << 63) + 40))
    assert severities(fsck(broken.root)) == {"cq_entry": "error"}
    (broken.root / "consumequeue_ext").mkdir()
    assert fsck(broken.root).findings == []
    broken.change_entry("T", 0, 4, (phy_offset, size + 1, -(1 << 63) + 40))
    assert severities(fsck(broken.root)) == {"cq_entry": "error"}


def test_light_queues(built: BuiltStore) -> None:
    names = "%LMQ%a,%LMQ%b,plain"
    for number in range(12):
        offsets = f"{number},{number},"
        record = built.put(
            properties={"INNER_MULTI_DISPATCH": names, "INNER_MULTI_QUEUE_OFFSET": offsets}
        )
        entry = (record.phy_offset, record.msg_size or 0, record.tags_code)
        for name in names.split(","):
            built.queues[name, 0][number] = entry
    root = built.write()
    assert fsck(root).findings == []
    built.change_entry("%LMQ%a", 0, 3, built.queues["%LMQ%a", 0][4])
    report = fsck(root)
    found = only(report, "cq_entry")
    assert (found.path, found.field, found.severity) == ("consumequeue/%LMQ%a/0", "topic", "error")


def test_many_queues_and_negative_queue_ids(built: BuiltStore) -> None:
    for number in range(200):
        built.put(f"T{number % 50}", number % 4)
    built.put("T", -1, queue_offset=0)
    built.queues.pop(("T", -1))
    report = fsck(built.write())
    # A broker has no such queue either: the name of its directory is no queue id.
    assert report.totals == {"cq_missing": {"warning": 1}}
    assert report.counts["cq_entries"] == 201


# ---- files ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [100, 159, 161, 180])
def test_a_queue_file_of_another_size(broken: BuiltStore, size: int) -> None:
    path, _ = broken.queue_file("T", 1, 8)
    path.write_bytes(path.read_bytes()[:size].ljust(size, b"\0"))
    report = fsck(broken.root)
    assert only(report, "cq_file_size").found == size
    assert set(report.totals) - {"cq_missing"} == {"cq_file_size"}
    # Entries that the file has no room for are gone.
    assert report.would_be_lost["unreachable"]["records"] == max(0, 8 - size // 20)


def test_an_empty_last_file_is_deleted_by_a_start(broken: BuiltStore) -> None:
    (broken.root / "consumequeue" / "T" / "0" / file_name(480)).touch()
    report = fsck(broken.root)
    assert (severities(report), report.exit_code) == ({"cq_file_size": "info"}, 0)


@pytest.mark.parametrize("name", ["x", "123", file_name(170), "9" * 20])
def test_names_in_a_queue(broken: BuiltStore, name: str) -> None:
    (broken.root / "consumequeue" / "T" / "0" / name).write_bytes(bytes(160))
    report = fsck(broken.root)
    assert only(report, "file_name").path == f"consumequeue/T/0/{name}"
    assert report.exit_code == 2


def test_a_directory_that_is_no_queue_id(broken: BuiltStore) -> None:
    (broken.root / "consumequeue" / "T" / "tmp").mkdir()
    report = fsck(broken.root)
    assert (severities(report), report.exit_code) == ({"file_name": "warning"}, 0)


def test_a_queue_file_that_cannot_be_read(
    broken: BuiltStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.preadv
    target = broken.queue_file("T", 0, 8)[0]

    def preadv(fd: int, buffers: list[memoryview], pos: int) -> int:
        if os.readlink(f"/proc/self/fd/{fd}") == str(target):
            raise OSError(5, "Input/output error")
        return real(fd, buffers, pos)

    monkeypatch.setattr(os, "preadv", preadv)
    report = fsck(broken.root)
    assert "Input/output error" in only(report, "unreadable").message
    assert report.exit_code == 2


def test_all_entries_of_a_queue_wrong_are_counted(built: BuiltStore) -> None:
    for _ in range(100):
        built.put()
    root = built.write()
    for place in range(100):
        phy_offset, size, tags_code = built.queues["T", 0][place]
        built.change_entry("T", 0, place, (phy_offset, size, tags_code + 1))
    report = fsck(root, max_findings=10)
    assert report.totals == {"cq_entry": {"error": 100}}
    assert len(report.findings) == 10


def test_the_oracle_agrees_on_entries(broken: BuiltStore) -> None:
    path, pos = broken.queue_file("T", 0, 3)
    assert oracle.unpack_cq(path.read_bytes())[pos // 20] == broken.queues["T", 0][3]
