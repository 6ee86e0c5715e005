"""What a salvage keeps, what it refuses, and what it leaves when it fails."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.stores.built_store import BuiltStore

import rmqcore
from rmqcore._native.format.codec import MessageView
from rmqcore.config import MessageStoreConfig
from rmqcore.disk.checkpoint import read_checkpoint
from rmqcore.errors import NotAStoreError, StoreError, StoreFormatError, TargetNotEmptyError
from rmqcore.maintenance.salvage import new_log
from rmqcore.maintenance.salvage import salvage as salvage_module
from rmqcore.maintenance.salvage.filler import LEAST
from rmqcore.maintenance.salvage.salvage import salvage
from rmqcore.offline.fsck import fsck
from rmqcore.testing.strangers import fingerprint

STEPS: dict[str, Any] = {
    "services": False,
    "mapped_file_size_commit_log": 4096,
    "mapped_file_size_consume_queue": 160,
    "max_hash_slot_num": 16,
    "max_index_num": 64,
}


@pytest.fixture
def built(tmp_path: Path) -> BuiltStore:
    return BuiltStore(tmp_path / "store").fill(90)


def overwrite(built: BuiltStore, begin: int, end: int, byte: int = 0xDA) -> None:
    """Write over bytes of the log, in files that are there already."""
    for pos in range(begin, end):
        built.log[pos] = byte
    built.write_log()


# ---- the log ----------------------------------------------------------------------------------------


def test_a_gap_is_filled_and_everything_stays_where_it_is(
    built: BuiltStore, tmp_path: Path
) -> None:
    root = built.write()
    lost = built.records[10:13]
    overwrite(built, lost[0].phy_offset, lost[-1].phy_offset + 30)
    report = salvage(root, tmp_path / "out")
    end = lost[-1].phy_offset + (lost[-1].msg_size or 0)
    assert [(one.start_phy_offset, one.end_phy_offset, one.kind) for one in report.lost] == [
        (lost[0].phy_offset, end, "record")
    ]
    assert report.missing_messages == 3
    new = rmqcore.read(tmp_path / "out")
    for record in built.records:
        if record in lost:
            continue
        view = new.lookup(record.phy_offset)
        assert view is not None
        got = new.get(record.topic.decode(), record.queue_id, record.queue_offset, 1)
        assert [one.raw for one in got.messages] == [view.raw]
    assert fsck(tmp_path / "out").findings == []


def test_a_file_that_is_gone_takes_no_disk(built: BuiltStore, tmp_path: Path) -> None:
    root = built.write()
    gone = root / "commitlog" / f"{4096:020}"
    gone.unlink()
    report = salvage(root, tmp_path / "out")
    assert [(one.kind, one.start_phy_offset, one.end_phy_offset) for one in report.lost] == [
        ("missing_file", 4096, 8192)
    ]
    made = tmp_path / "out" / "commitlog" / gone.name
    assert made.stat().st_size == 4096
    data = made.read_bytes()
    assert data[:8] == (4096).to_bytes(4, "big") + b"\xcb\xd4\x31\x94"
    assert not any(data[8:])
    assert fsck(tmp_path / "out").findings == []


def test_a_store_that_was_salvaged_loses_nothing_more(built: BuiltStore, tmp_path: Path) -> None:
    root = built.write()
    overwrite(built, built.records[20].phy_offset, built.records[23].phy_offset)
    assert salvage(root, tmp_path / "once").exit_code == 2
    again = salvage(tmp_path / "once", tmp_path / "twice")
    assert (again.exit_code, again.lost, again.missing) == (0, [], [])
    once, twice = (
        {path.name: path.read_bytes() for path in (tmp_path / name / "commitlog").iterdir()}
        for name in ("once", "twice")
    )
    assert once == twice


def messages_of(root: Path) -> list[MessageView]:
    return [view for view in rmqcore.read(root).messages() if view.topic != "LOST"]


def test_a_gap_that_no_record_can_fill_makes_the_record_before_it_longer(tmp_path: Path) -> None:
    """Fewer bytes than any record has lay between two: the second stayed nowhere, and was counted as saved, or as lost."""
    built = BuiltStore(tmp_path / "store")
    built.fill(4)
    built.log += b"\xda" * (LEAST - 1)
    last = built.put("T", 0)
    built.put("T", 0)
    root = built.write()
    report = salvage(root, tmp_path / "out")
    found = messages_of(tmp_path / "out")
    assert [view.phy_offset for view in found] == [record.phy_offset for record in built.records]
    assert [view.properties for view in found] == [
        view.properties for view in rmqcore.read(root).messages()
    ]
    assert [one.end_phy_offset for one in report.lost] == [last.phy_offset]
    assert fsck(tmp_path / "out").findings == []


def test_a_record_behind_a_gap_that_nothing_can_fill_is_told(tmp_path: Path) -> None:
    """The properties of the record before it have no room for more bytes."""
    built = BuiltStore(tmp_path / "store", log_file_size=1 << 20)
    built.put("T", 0)
    built.put("T", 0, properties={"P": "x" * (32_767 - 40)})
    built.log += b"\xda" * (LEAST - 1)
    last, after = built.put("T", 0), built.put("T", 0)
    root = built.write()
    report = salvage(root, tmp_path / "out")
    kept = [view.phy_offset for view in messages_of(tmp_path / "out")]
    assert kept == [record.phy_offset for record in built.records if record != last]
    assert [(one.field, one.end_phy_offset) for one in report.lost] == [
        ("MAGIC", last.phy_offset),
        ("gap before it", after.phy_offset),
    ]
    assert fsck(tmp_path / "out").findings == []


def test_a_byte_between_all_records(tmp_path: Path) -> None:
    """All but the first were left out, and with other sizes a log of 8 MiB took minutes: each pass left out one more."""
    built = BuiltStore(tmp_path / "store", log_file_size=1 << 20)
    for _ in range(1500):
        built.put()
        built.log += b"\xda"
    root = built.write()
    report = salvage(root, tmp_path / "out")
    assert (report.messages, report.moved_messages) == (1500, 0)
    assert report.exit_code == 2
    assert fsck(tmp_path / "out").findings == []


def test_a_record_that_fails_its_property_crc_is_lost(tmp_path: Path) -> None:
    built = BuiltStore(tmp_path / "store")
    for _ in range(20):
        built.put(prop_crc=True)
    root = built.write()
    bad = built.records[7]
    built.log[bad.phy_offset + 40] ^= 1  # BORNTIMESTAMP: no other checksum covers it
    built.write_log()
    report = salvage(root, tmp_path / "out")
    assert [(one.kind, one.field, one.start_phy_offset) for one in report.lost] == [
        ("prop_crc", "__CRC32#", bad.phy_offset)
    ]
    assert [(one.first_queue_offset, one.last_queue_offset) for one in report.missing] == [(7, 7)]


def test_records_without_a_property_crc_where_the_broker_asks_for_it(tmp_path: Path) -> None:
    built = BuiltStore(tmp_path / "store")
    for number in range(20):
        built.put(prop_crc=number != 5)
    report = salvage(
        built.write(), tmp_path / "out", config=MessageStoreConfig(force_verify_prop_crc=True)
    )
    assert [one.start_phy_offset for one in report.lost] == [built.records[5].phy_offset]


def test_the_message_behind_the_log_and_the_torn_tail(built: BuiltStore, tmp_path: Path) -> None:
    """Half a record at the end is no loss, but the message of a queue entry that leads there is missing."""
    root = built.write(abort=True)
    last = built.records[-1]
    overwrite(built, last.phy_offset + 50, last.phy_offset + (last.msg_size or 0), 0)
    report = salvage(root, tmp_path / "out")
    assert report.lost == []
    assert 0 < report.torn_tail_bytes <= 50
    assert report.missing_messages == 1
    assert not (tmp_path / "out" / "abort").exists()
    shutil.rmtree(root / "consumequeue")
    assert salvage(root, tmp_path / "again").exit_code == 0  # nobody knows of it


def test_the_new_store_is_opened_and_written(built: BuiltStore, tmp_path: Path) -> None:
    root = built.write(abort=True)
    overwrite(built, built.records[20].phy_offset, built.records[23].phy_offset)
    report = salvage(root, tmp_path / "out")
    before = {path.name: path.read_bytes() for path in (tmp_path / "out" / "commitlog").iterdir()}
    with rmqcore.open(tmp_path / "out", **STEPS) as store:
        assert store.recovery.cut_bytes == 0
        assert store.max_phy_offset == built.records[-1].phy_offset + (
            built.records[-1].msg_size or 0
        )
        assert store.max_offset("T", 0) == built.records[-2].queue_offset + 1 or report.messages
    after = {path.name: path.read_bytes() for path in (tmp_path / "out" / "commitlog").iterdir()}
    assert before == after
    checkpoint = read_checkpoint(tmp_path / "out" / "checkpoint")
    assert checkpoint is not None
    assert checkpoint.logics_physical_offset == built.records[-1].phy_offset
    assert checkpoint.physic_msg_timestamp_ms == built.records[-1].store_timestamp_ms


def test_a_log_without_any_record(tmp_path: Path) -> None:
    root = tmp_path / "store"
    (root / "commitlog").mkdir(parents=True)
    (root / "commitlog" / f"{0:020}").write_bytes(b"\xda" * 4096)
    report = salvage(root, tmp_path / "out")
    assert (report.messages, report.torn_tail_bytes) == (0, 4096)
    assert list((tmp_path / "out" / "commitlog").iterdir()) == []
    with rmqcore.open(tmp_path / "out", **STEPS) as store:
        assert store.max_phy_offset == 0


# ---- where it is read and written -------------------------------------------------------------------


def test_a_log_alone(built: BuiltStore, tmp_path: Path) -> None:
    root = built.write()
    (root / "config").mkdir()
    (root / "config" / "topics.json").write_text("{}")
    alone = shutil.copytree(root / "commitlog", tmp_path / "backup" / "some-logs")
    (tmp_path / "backup" / "config").mkdir()
    (tmp_path / "backup" / "config" / "mine.txt").touch()
    sizes = MessageStoreConfig(
        mapped_file_size_consume_queue=160, max_hash_slot_num=16, max_index_num=64
    )
    whole = salvage(root, tmp_path / "whole")
    for number, (path, log_only) in enumerate(((alone, False), (alone, True), (root, True))):
        out = tmp_path / f"out{number}"
        report = salvage(path, out, log_only=log_only, config=sizes)
        assert report.messages == whole.messages
        assert report.copied == report.left_behind == ()
        assert sorted(os.listdir(out)) == ["checkpoint", "commitlog", "consumequeue", "index"]
        assert fsck(out).findings == []
    assert whole.copied == ("config",)


def test_the_size_of_one_file_that_was_cut(built: BuiltStore, tmp_path: Path) -> None:
    root = built.write()
    for path in sorted((root / "commitlog").iterdir())[1:]:
        path.unlink()
    os.truncate(root / "commitlog" / f"{0:020}", 3000)
    salvage(root, tmp_path / "guessed")
    salvage(root, tmp_path / "told", config=MessageStoreConfig(mapped_file_size_commit_log=4096))
    assert (tmp_path / "guessed" / "commitlog" / f"{0:020}").stat().st_size == 3000
    assert (tmp_path / "told" / "commitlog" / f"{0:020}").stat().st_size == 4096


def test_a_log_in_several_directories(built: BuiltStore, tmp_path: Path) -> None:
    root = built.write()
    other = tmp_path / "other"
    other.mkdir()
    for number, path in enumerate(sorted((root / "commitlog").iterdir())):
        if number % 2:
            path.rename(other / path.name)
    report = salvage(root, tmp_path / "out", commitlog=[root / "commitlog", other])
    assert (report.exit_code, report.messages) == (0, len(built.records))
    with pytest.raises(ValueError, match=r"is inside the store's .*other"):
        salvage(root, other / "out", commitlog=[root / "commitlog", other])


def test_out_is_new_or_empty_and_elsewhere(built: BuiltStore, tmp_path: Path) -> None:
    root = built.write()
    before = fingerprint(root)
    (tmp_path / "link").symlink_to(root)
    for out in (root, root / "salvaged", root / "commitlog" / "x", tmp_path / "link" / "x"):
        with pytest.raises(ValueError, match="is inside the store's"):
            salvage(root, out)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine").touch()
    with pytest.raises(TargetNotEmptyError):
        salvage(root, tmp_path / "full")
    assert os.listdir(tmp_path / "full") == ["mine"]
    with pytest.raises(NotAStoreError):
        salvage(tmp_path / "full", tmp_path / "out")
    (tmp_path / "bare" / "commitlog").mkdir(parents=True)
    with pytest.raises(StoreFormatError, match="no CommitLog file"):
        salvage(tmp_path / "bare", tmp_path / "out")
    assert not (tmp_path / "out").exists()
    (tmp_path / "empty" / ".building" / "commitlog").mkdir(parents=True)  # a killed attempt
    assert salvage(root, tmp_path / "empty").exit_code == 0
    assert ".building" not in os.listdir(tmp_path / "empty")
    assert fingerprint(root) == before


def test_all_is_synced_before_it_appears(
    built: BuiltStore, tmp_path: Path, synced: list[list[str]]
) -> None:
    salvage(built.write(), tmp_path / "out")
    assert synced == [["checkpoint", "commitlog", "consumequeue", "index"]]


# ---- failures ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("there", [False, True])
@pytest.mark.parametrize("part", [0.1, 0.6, 1.0])
def test_ctrl_c_leaves_nothing_behind(
    built: BuiltStore, tmp_path: Path, there: bool, part: float
) -> None:
    out = tmp_path / "out"
    if there:
        out.mkdir()

    def stop(done: int, total: int) -> None:
        if done >= part * total:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        salvage(built.write(), out, progress=stop)
    assert out.exists() == there
    assert not there or os.listdir(out) == []


def test_a_full_disk_is_told_before_the_work(
    built: BuiltStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = built.write()
    monkeypatch.setattr(
        os, "statvfs", lambda path: SimpleNamespace(f_bavail=3, f_frsize=512, f_blocks=9, f_bfree=3)
    )
    monkeypatch.setattr(salvage_module._Salvage, "run", None)
    with pytest.raises(OSError, match=r"needs about \d+ bytes, 1536 bytes are free") as told:
        salvage(root, tmp_path / "out")
    assert (told.value.errno, told.value.filename) == (errno.ENOSPC, str(tmp_path / "out"))
    assert not (tmp_path / "out").exists()


def test_a_disk_that_fills_up(
    built: BuiltStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = built.write()

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(new_log, "write_all", full)
    with pytest.raises(
        OSError, match=r"No space .* needs about \d+ bytes, \d+ bytes are free"
    ) as told:
        salvage(root, tmp_path / "out")
    assert str(told.value.filename).endswith(f"commitlog/{0:020}")
    assert not (tmp_path / "out").exists()


def test_a_log_that_changes_under_the_salvage(
    built: BuiltStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody writes over it between the read that proves a record and the one that copies it."""
    root = built.write()
    copy = new_log.NewLog.copy

    def late(self: new_log.NewLog, *where: Any, last: int) -> None:
        overwrite(built, built.records[30].phy_offset + 90, built.records[30].phy_offset + 95)
        copy(self, *where, last=last)

    monkeypatch.setattr(new_log.NewLog, "copy", late)
    with pytest.raises(StoreError, match="changed while it was read"):
        salvage(root, tmp_path / "out")
    assert not (tmp_path / "out").exists()


# ---- what else a store has --------------------------------------------------------------------------


def test_config_and_timers_are_copied(built: BuiltStore, tmp_path: Path) -> None:
    root = built.write(abort=True)
    (root / "config").mkdir()
    for name, text in {
        "topics.json": '{"a":{0:5,1:"}"}}',
        "consumerOffset.json": '{"offsetTable":{"T@g":{0:',
        "consumerOffset.json.bak": '{"offsetTable":{"T@g":{0:5}}}',
        "delayOffset.json": "",
        "notes": "x",
    }.items():
        (root / "config" / name).write_text(text)
    (root / "timerlog").mkdir()
    with (root / "timerlog" / f"{0:020}").open("wb") as file:
        file.write(b"timer")
        file.truncate(1 << 20)
    (root / "cut").mkdir()
    os.mkfifo(root / "config" / "fifo")
    (root / "timerwheel").symlink_to(root / "lock")
    report = salvage(root, tmp_path / "out")
    assert report.copied == ("config", "timerlog")
    assert report.left_behind == ("cut", "timerwheel")
    assert [one.path for one in report.config_problems] == [
        "config/consumerOffset.json",
        "config/delayOffset.json",
    ]
    assert "reads the older consumerOffset.json.bak instead" in report.config_problems[0].problem
    assert "starts without it" in report.config_problems[1].problem
    assert report.exit_code == 2
    for name in ("consumerOffset.json", "consumerOffset.json.bak", "notes", "topics.json"):
        assert (tmp_path / "out" / "config" / name).read_bytes() == (
            root / "config" / name
        ).read_bytes()
    timer = tmp_path / "out" / "timerlog" / f"{0:020}"
    assert timer.read_bytes() == b"timer".ljust(1 << 20, b"\0")
    assert timer.stat().st_blocks * 512 < 1 << 20


def test_a_store_in_use(tmp_path: Path) -> None:
    with rmqcore.open(tmp_path / "store", **STEPS) as store:
        for number in range(50):
            store.put(rmqcore.Message("T", b"%d" % number))
        while store.dispatch_once():
            pass
        report = salvage(tmp_path / "store", tmp_path / "out")
        assert (report.exit_code, report.messages) == (0, 50)
        assert store.put(rmqcore.Message("T", b"more")).stored
    assert fsck(tmp_path / "out").findings == []


# ---- queues without a message -----------------------------------------------------------------------


def idle_store(built: BuiltStore) -> Path:
    """A queue with 20 messages in the first log file, which has expired."""
    first = BuiltStore(built.root)
    for _ in range(20):
        first.put("Idle", body=b"x" * 100)
    first.fill(90)
    root = first.write()
    for path in sorted((root / "commitlog").iterdir())[:2]:
        path.unlink()
    return root


def test_a_queue_whose_messages_have_expired_goes_on_where_it_ended(
    built: BuiltStore, tmp_path: Path
) -> None:
    """It began at 0 again, so that a group that had read 20 messages did not see the next 20."""
    root = idle_store(built)
    report = salvage(root, tmp_path / "out")
    assert (report.exit_code, report.idle_queues, report.missing) == (0, 1, [])
    assert fsck(tmp_path / "out").findings == []
    with rmqcore.open(tmp_path / "out", **STEPS) as store:
        assert store.max_offset("Idle", 0) == 20
        assert store.put(rmqcore.Message("Idle", b"")).queue_offset == 20


def test_damage_in_the_file_of_such_a_queue(built: BuiltStore, tmp_path: Path) -> None:
    """It ends before the first entry that is none, or that leads to a message of the log."""
    root = idle_store(built)
    for number, (entry, end) in enumerate(
        {
            bytes(20): 18,
            b"\x7f" * 20: 18,
            (9000).to_bytes(8, "big") + (100).to_bytes(4, "big") + bytes(8): 18,
            (0).to_bytes(8, "big") + (100).to_bytes(4, "big") + bytes(8): 18,
        }.items()
    ):
        with (root / "consumequeue" / "Idle" / "0" / f"{320:020}").open("r+b") as file:
            file.seek(40)
            file.write(entry)
        salvage(root, tmp_path / f"out{number}")
        assert fsck(tmp_path / f"out{number}").findings == []
        with rmqcore.open(tmp_path / f"out{number}", **STEPS) as store:
            assert store.max_offset("Idle", 0) == end


def test_messages_that_a_broker_takes_for_expired(tmp_path: Path) -> None:
    """Its search for the queue's begin met the filler of a lost message, and took the two before for expired ones."""
    built = BuiltStore(tmp_path / "store")
    built.put("Q")
    built.put("Other", body=bytes(3800))  # fills the first file
    records = [built.put("Q") for _ in range(7)]
    root = built.write()
    (root / "commitlog" / f"{0:020}").unlink()
    lost = records[2]
    with (root / "commitlog" / f"{4096:020}").open("r+b") as file:
        file.seek(lost.phy_offset % 4096)
        file.write(bytes(50))
    report = salvage(root, tmp_path / "out")
    assert [(one.first_queue_offset, one.last_queue_offset) for one in report.missing] == [(3, 3)]
    assert [(one.first_queue_offset, one.last_queue_offset) for one in report.unserved] == [(1, 2)]
    reader = rmqcore.read(tmp_path / "out")
    served = [reader.get("Q", 0, record.queue_offset, 1).status.name for record in records]
    assert served == ["OFFSET_TOO_SMALL"] * 3 + ["FOUND"] * 4
    assert all(reader.lookup(record.phy_offset) is not None for record in records)


def test_more_than_a_hundred_log_files_are_missing(tmp_path: Path) -> None:
    """Entries that led farther behind the log's end than 100 files counted for garbage: their messages were not missed."""
    built = BuiltStore(tmp_path / "store")
    for _ in range(130):
        built.put(body=bytes(3800))
    root = built.write()
    for path in sorted((root / "commitlog").iterdir())[3:]:
        path.unlink()
    report = salvage(root, tmp_path / "out")
    assert (report.messages, report.missing_messages, report.exit_code) == (3, 127, 2)


@pytest.mark.parametrize("moved", [100, 4096, (16 << 10) - 40])
def test_a_copy_of_a_log_file_under_a_wrong_name(tmp_path: Path, moved: int) -> None:
    """It took the place of the file inside which it began: 40 messages that `cat` read were lost."""
    size = 16 << 10
    root, out = tmp_path / "store", tmp_path / "out"
    with rmqcore.open(root, services=False, mapped_file_size_commit_log=size) as store:
        for _ in range(60):
            store.put(rmqcore.Message("T", b"x" * 900)).raise_for_status()
    log = root / "commitlog"
    shutil.copy(log / f"{size:020}", log / f"{size + moved:020}")
    report = salvage(root, out)
    assert report.messages == 60
    assert fsck(out).exit_code == 0
