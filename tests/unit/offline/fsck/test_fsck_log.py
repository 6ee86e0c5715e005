"""Damage in the log, one kind of damage in each store."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.oracle import records as oracle
from support.stores.built_store import BuiltStore

import rmqcore
from rmqcore.disk.paths import StorePaths
from rmqcore.engine.recovery.preview import preview_recovery
from rmqcore.maintenance.doctor.doctor import doctor
from rmqcore.offline.fsck import FsckReport, fsck, log_pass
from rmqcore.offline.fsck.findings import Finding


@pytest.fixture
def built(tmp_path: Path) -> BuiltStore:
    return BuiltStore(tmp_path / "store")


def only(report: FsckReport, kind: str) -> Finding:
    """The only finding of a kind."""
    (found,) = [finding for finding in report.findings if finding.kind == kind]
    return found


def severities(report: FsckReport) -> dict[str, str]:
    return {kind: " ".join(sorted(counts)) for kind, counts in report.totals.items()}


def test_a_store_of_the_builder_is_clean(built: BuiltStore) -> None:
    report = fsck(built.fill().write())
    assert report.findings == []
    assert report.counts == {
        "records": 60,
        "record_bytes": sum(record.msg_size or 0 for record in built.records),
        "prop_crcs": 0,
        "cq_entries": 60,
        "index_entries": 240,
        "damaged_ranges": 0,
        "damaged_bytes": 0,
    }


def test_body_crc(built: BuiltStore) -> None:
    record = built.fill().records[20]
    root = built.write()
    built.change_log(record.phy_offset + 88, b"B")
    report = fsck(root)
    found = only(report, "crc")
    assert severities(report) == {"crc": "error"}
    assert (found.phy_offset, found.field, found.path) == (
        record.phy_offset,
        "BODYCRC",
        f"commitlog/{built.log_file(record.phy_offset)[0].name}",
    )
    assert (found.found, found.expected) == (oracle.body_crc(b"body"), oracle.body_crc(b"Body"))
    assert report.exit_code == 2


def test_property_crc(built: BuiltStore) -> None:
    for number in range(40):
        built.put(prop_crc=number % 2 == 0)
    root = built.write()
    assert fsck(root).counts["prop_crcs"] == 20
    record = built.records[10]
    # No body CRC sees damage to a topic, a queue id or the properties; here it is in the user's FLAG.
    built.change_log(record.phy_offset + 16, b"\0\0\0\1")
    report = fsck(root)
    assert severities(report) == {"prop_crc": "error"}
    assert only(report, "prop_crc").phy_offset == record.phy_offset
    data = bytearray(oracle.encode_record(record, append_prop_crc=True))
    data[16:20] = b"\0\0\0\1"
    assert only(report, "prop_crc").expected == int(oracle.crc_area(bytes(data[:-20]))[9:19][::-1])


def test_more_property_crcs_than_findings_are_counted(built: BuiltStore) -> None:
    for _ in range(30):
        built.put(prop_crc=True)
    root = built.write()
    for record in built.records:
        built.change_log(record.phy_offset + 16, b"\0\0\0\1")
    report = fsck(root, max_findings=7)
    assert report.totals == {"prop_crc": {"error": 30}}
    assert len(report.findings) == 7


def test_place(built: BuiltStore) -> None:
    record = built.fill().records[20]
    root = built.write()
    built.change_log(record.phy_offset + 28, (record.phy_offset + 1).to_bytes(8, "big"))
    report = fsck(root)
    found = only(report, "place")
    assert (found.field, found.expected, found.found) == (
        "PHYSICALOFFSET",
        record.phy_offset,
        record.phy_offset + 1,
    )
    assert found.severity == "error"
    # The message cannot be had: its entry leads into the damage.
    assert report.would_be_lost["unreachable"]["records"] == 1
    assert set(severities(report)) == {"place"}


@pytest.mark.parametrize("behind", [None, "body", "magic"])
def test_a_broker_start_asks_for_no_physicaloffset(built: BuiltStore, behind: str | None) -> None:
    built.fill()
    wrong, after = built.records[40], built.records[41]
    root = built.write()
    built.change_log(wrong.phy_offset + 28, b"\1")
    if behind == "body":
        built.change_log(after.phy_offset + 88, b"B")
    elif behind == "magic":
        built.change_log(after.phy_offset + 4, bytes(4))
    start = fsck(root).would_be_lost["broker_start"]
    cut = after.phy_offset if behind else None
    assert start["cut_phy_offset"] == cut
    assert start["cut_records"] == (len(built.records) - 42 if behind else 0)
    plan, _ = preview_recovery(StorePaths(root), rmqcore.find_config(root))
    assert plan.end_phy_offset == (cut or len(built.log))


def test_a_long_record_of_another_place_is_not_read(
    built: BuiltStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A damaged length may span a file of 1 GiB."""
    wrong = built.fill().records[40]
    root = built.write()
    built.change_log(wrong.phy_offset + 28, b"\1")
    assert fsck(root).would_be_lost["broker_start"]["cut_phy_offset"] is None
    monkeypatch.setattr(log_pass, "MOST_WHOLE", (wrong.msg_size or 0) - 1)
    start = fsck(root).would_be_lost["broker_start"]
    assert start["cut_phy_offset"] == wrong.phy_offset


@pytest.mark.parametrize(("at", "field"), [(0, "TOTALSIZE"), (4, "MAGIC"), (84, "BODYLENGTH")])
@pytest.mark.parametrize("value", [0x7FFFFFFF, -1, 1])
def test_lengths_and_magic(built: BuiltStore, at: int, field: str, value: int) -> None:
    record = built.fill().records[20]
    root = built.write()
    built.change_log(record.phy_offset + at, value.to_bytes(4, "big", signed=True))
    report = fsck(root)
    assert severities(report) == {"record": "error"}
    found = only(report, "record")
    assert found.phy_offset == record.phy_offset
    assert found.field == field or at == 84
    (damaged,) = report.damage
    assert damaged.end_phy_offset == record.phy_offset + (record.msg_size or 0)
    assert report.counts["records"] == 59


def test_torn_tail_alone_is_for_a_broker_start_to_repair(built: BuiltStore) -> None:
    built.fill().write()
    end = len(built.log)
    built.change_log(end, bytes(built.log[:100]))
    report = fsck(built.root)
    assert severities(report) == {"torn_tail": "warning"}
    assert report.exit_code == 0
    start = report.would_be_lost["broker_start"]
    assert (start["cut_phy_offset"], start["cut_bytes"], start["cut_records"]) == (end, 100, 0)


def test_torn_record_with_entries_is_an_error(built: BuiltStore) -> None:
    built.fill().write()
    last = built.records[-1]
    built.change_log(last.phy_offset + 90, bytes((last.msg_size or 0) - 90))
    built.write_checkpoint(
        physic_msg_timestamp_ms=0,
        logics_msg_timestamp_ms=0,
        logics_physical_offset=0,
        confirm_phy_offset=0,
    )
    report = fsck(built.root)
    assert severities(report) == {
        "torn_tail": "warning",
        "cq_beyond": "error",
        "index_entry": "error",
    }
    assert report.totals["index_entry"]["error"] == 4
    assert only(report, "cq_beyond").found == last.phy_offset


def test_blank_of_another_size(built: BuiltStore) -> None:
    built.fill()
    end = max(
        record.phy_offset + (record.msg_size or 0)
        for record in built.records
        if record.phy_offset < 4096
    )
    root = built.write()
    built.change_log(end, (4096 - end - 1).to_bytes(4, "big"))
    report = fsck(root)
    assert severities(report) == {"blank": "error"}
    assert only(report, "blank").phy_offset == end


def test_missing_middle_file(built: BuiltStore) -> None:
    """The file behind the hole, which is there, was named as the one that is not."""
    root = built.fill(100).write()
    (root / "commitlog" / f"{4096:020}").unlink()
    report = fsck(root)
    found = only(report, "missing_file")
    assert found.path == f"commitlog/{4096:020}"
    assert (found.phy_offset, found.expected) == (4096, f"commitlog/{4096:020}")
    assert severities(report) == {"missing_file": "error"}
    gone = [record for record in built.records if 4096 <= record.phy_offset < 8192]
    assert report.would_be_lost["unreachable"]["records"] == len(gone)


def test_a_hole_is_named_after_the_first_file_that_is_not_there(built: BuiltStore) -> None:
    """A reader and doctor named the file behind the hole, which is there, as the one that is missing."""
    root = built.fill(150).write()
    gone = f"commitlog/{4096:020}"
    for start in (4096, 8192):
        (root / "commitlog" / f"{start:020}").unlink()
    reader = rmqcore.read(root)
    assert list(reader.messages())
    (hole,) = reader.damage
    assert (hole.path, hole.expected, hole.found) == (gone, gone, "missing")
    assert (hole.start_phy_offset, hole.end_phy_offset) == (4096, 12288)
    assert str(hole).startswith(f"{gone}@4096: missing_file, 8192 bytes: ")
    named = {diagnosis.name: diagnosis for diagnosis in doctor(root).diagnoses}
    assert str(named["log_hole"].evidence[0]).startswith(
        f"{gone}@4096: missing; 8192 bytes are missing with it"
    )


def test_short_file(built: BuiltStore) -> None:
    root = built.fill(100).write()
    path = root / "commitlog" / f"{4096:020}"
    path.write_bytes(path.read_bytes()[:2000])
    report = fsck(root)
    assert report.totals["file_size"]["error"] >= 1
    assert {
        finding.phy_offset for finding in report.findings if finding.kind == "file_size"
    } <= set(range(4096, 8192))
    assert report.exit_code == 2


def test_topic_that_is_not_utf_8(built: BuiltStore) -> None:
    built.fill(10)
    record = built.put(b"T\xff\xfe")
    built.put(b"T\xff\xfe")
    built.put("T\N{REPLACEMENT CHARACTER}")
    report = fsck(built.write())
    found = only(report, "topic_utf8")
    assert (found.phy_offset, found.found) == (record.phy_offset, b"T\xff\xfe".hex())
    assert severities(report) == {"topic_utf8": "error"}


def test_sound_records_behind_damage_are_checked(built: BuiltStore) -> None:
    built.fill()
    root = built.write()
    built.change_log(built.records[10].phy_offset + 4, bytes(4))
    built.change_log(built.records[40].phy_offset + 88, b"B")
    report = fsck(root)
    assert severities(report) == {"record": "error", "crc": "error"}
    assert report.counts["damaged_ranges"] == 2


def test_records_counted_up_to_a_cut(built: BuiltStore) -> None:
    root = built.fill().write()
    record = built.records[-5]
    built.change_log(record.phy_offset + 4, bytes(4))
    start = fsck(root).would_be_lost["broker_start"]
    assert (start["cut_phy_offset"], start["cut_records"]) == (record.phy_offset, 4)
    assert start["cut_bytes"] == len(built.log) - record.phy_offset
    # A start does not read the files before: damage there is not cut.
    built.change_log(record.phy_offset, oracle.encode_record(record))
    built.change_log(built.records[0].phy_offset + 88, b"B")
    report = fsck(root)
    assert report.would_be_lost["broker_start"]["cut_phy_offset"] is None
    assert severities(report) == {"crc": "error"}


def test_findings_of_a_kind_are_capped_and_counted(built: BuiltStore) -> None:
    root = built.fill().write()
    for record in built.records:
        built.change_log(record.phy_offset + 88, b"B")
    report = fsck(root, max_findings=5)
    assert (len(report.findings), report.totals) == (5, {"crc": {"error": 60}})
    assert fsck(root, max_findings=0).exit_code == 2
    with pytest.raises(ValueError, match="max_findings"):
        fsck(root, max_findings=-1)


def test_queues_and_index_can_be_left_out(built: BuiltStore) -> None:
    root = built.fill().write()
    built.change_entry("T", 0, 0, (0, 1, 2))
    assert fsck(root, check_queues=False).findings == []
    assert fsck(root, check_queues=False, check_index=False).counts["index_entries"] == 0
    assert fsck(root, check_index=False).exit_code == 2


def test_progress_never_goes_back_and_ends(built: BuiltStore) -> None:
    calls: list[tuple[int, int]] = []
    fsck(built.fill().write(), progress=lambda done, total: calls.append((done, total)))
    assert calls == sorted(calls)
    assert calls[-1][0] == calls[-1][1] > len(built.log)
    assert {total for _, total in calls} == {calls[-1][1]}
