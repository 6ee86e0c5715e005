"""A DLedger log is read as what it is: the 48 bytes before each record are no damage."""

from __future__ import annotations

import hashlib
import struct
from pathlib import Path

import pytest
from support.stores.dledger_store import (
    HEAD,
    REAL,
    REAL_MESSAGES,
    DLedgerLog,
    numbered,
    unpack_real,
)

import rmqcore
from rmqcore import Message
from rmqcore.errors import StoreFormatError, StoreKindError
from rmqcore.offline.diff import diff

FILE = 4096


def numbers(root: Path, commitlog: Path | None = None) -> tuple[list[int], list[str]]:
    """Which messages of `numbered` are read, and what is said of the others."""
    with rmqcore.read(root, commitlog=commitlog) as reader:
        found = [int(bytes(message.body)[4:]) for message in reader.messages()]
        return found, [f"{one.kind} {one.field} {one.start_phy_offset}" for one in reader.damage]


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpack_real(tmp_path_factory.mktemp("dledger"))


def mixed(root: Path) -> DLedgerLog:
    """A store that was upgraded: its CommitLog is closed by a BLANK, and DLedger goes on in the next file."""
    with rmqcore.open(root, mapped_file_size_commit_log=FILE) as store:
        for number in range(5):
            store.put(Message("T", b"body%d" % number)).raise_for_status()
        store.wait_dispatched()
        end = store.max_phy_offset
    with (root / "commitlog" / f"{0:020}").open("r+b") as file:
        file.seek(end)
        file.write(struct.pack(">ii", FILE - end, -875286124))
    log = numbered(15, FILE, begin=FILE, first=5)
    log.write(root)
    queue = root / "consumequeue" / "T" / "0" / f"{0:020}"
    log.write_queue(root, "T", queue.read_bytes()[:100])
    return log


# ---- the store of a real broker -----------------------------------------------------------------------


def test_the_archive_is_the_one_that_the_broker_made() -> None:
    told = REAL.with_suffix(".xz.sha256").read_text().split()[0]
    assert hashlib.sha256(REAL.read_bytes()).hexdigest() == told


@pytest.mark.parametrize("where", ["", "dledger-n0/data"])
def test_all_messages_of_the_real_store_are_read_without_damage(real: Path, where: str) -> None:
    with rmqcore.read(real / where) as reader:
        found = list(reader.messages())
        assert (len(found), list(reader.damage)) == (REAL_MESSAGES, [])
        assert found[0].phy_offset == HEAD
        assert reader.info().max_phy_offset == found[-1].phy_offset + found[-1].msg_size
        batches = sum(len(batch) for batch in reader.batches())
        assert (batches, list(reader.damage)) == (REAL_MESSAGES, [])


def test_a_named_log_is_read_too(real: Path) -> None:
    with rmqcore.read(real, commitlog=real / "dledger-n0" / "data") as reader:
        assert len(list(reader.messages())) == REAL_MESSAGES
        assert list(reader.damage) == []


def test_queues_index_and_ids_of_the_real_store_lead_to_its_messages(real: Path) -> None:
    with rmqcore.read(real) as reader:
        for message in list(reader.messages()):
            again = reader.message_at(message.phy_offset)
            assert again is not None and again.body == message.body
        queue = reader.get("TopicE", 1, 0, 32)
        assert len(queue.messages) == 20
        assert reader.query("TopicI", "hot11").messages


def test_the_check_of_the_real_store_is_sound_and_names_its_kind(real: Path) -> None:
    report = rmqcore.fsck(real)
    assert (report.exit_code, report.counts["records"]) == (0, REAL_MESSAGES)
    assert [(one.kind, one.severity, one.path) for one in report.findings] == [
        ("store_kind", "info", "dledger-n0/data")
    ]


def test_queues_that_are_built_are_those_of_the_broker(real: Path, tmp_path: Path) -> None:
    rmqcore.rebuild(real, tmp_path / "built")
    for path in sorted(real.glob("consumequeue/*/*/*")):
        assert (tmp_path / "built" / path.relative_to(real)).read_bytes() == path.read_bytes()


def test_a_store_is_equal_to_itself(real: Path) -> None:
    assert diff(real, real).exit_code == 0


def test_two_replicas_differ_in_the_head_or_in_the_record(tmp_path: Path) -> None:
    places = []
    for name, at in (("a", None), ("b", 90), ("c", 20 - HEAD)):
        log = numbered(60, FILE)
        places = [log.places[10], log.places[10] + log.sizes[10]]
        if at is not None:
            log.data[log.at(places[0]) + at] ^= 1
        log.write(tmp_path / name)
    (record,) = diff(tmp_path / "a", tmp_path / "b").differences
    assert [record.start_phy_offset, record.end_phy_offset, record.kind] == [*places, "damaged_b"]
    (term,) = diff(tmp_path / "a", tmp_path / "c").differences
    assert (term.start_phy_offset, term.end_phy_offset) == (places[0] - HEAD, places[0])


# ---- other logs ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 15, 400])
def test_entries_of_several_files_are_read_in_order(tmp_path: Path, count: int) -> None:
    numbered(count, FILE).write(tmp_path)
    assert numbers(tmp_path) == (list(range(count)), [])


def test_entries_without_a_message_are_passed(tmp_path: Path) -> None:
    log = DLedgerLog(FILE)
    log.no_op()
    for number in range(60):
        log.put(Message("T", b"body%d" % number), number)
        for _ in range(number % 3):
            log.no_op()
    log.write(tmp_path)
    assert numbers(tmp_path) == (list(range(60)), [])
    assert rmqcore.fsck(tmp_path, check_queues=False, check_index=False).exit_code == 0


def test_an_upgraded_store_is_one_log(tmp_path: Path) -> None:
    root = tmp_path / "store"
    mixed(root)
    assert numbers(root) == (list(range(20)), [])
    with rmqcore.read(root) as reader:
        assert len(reader.get("T", 0, 0, 32).messages) == 20
        assert reader.queues()[0].max_offset == 20
    report = rmqcore.fsck(root, check_index=False)
    assert report.exit_code == 0, report.findings


def test_long_records_and_small_windows_make_no_difference(tmp_path: Path) -> None:
    log = DLedgerLog(64 << 20)
    for number in range(12):
        log.put(Message("T", b"body%d" % number + bytes(700_000 + number)), number)
    log.write(tmp_path)
    with rmqcore.read(tmp_path) as reader:
        assert [message.phy_offset for message in reader.messages()] == log.places
        assert list(reader.damage) == []
    report = rmqcore.fsck(tmp_path, check_queues=False, check_index=False)
    assert (report.exit_code, report.counts["records"]) == (0, 12)


def test_another_name_of_a_file_is_not_read_in_the_others_place(tmp_path: Path) -> None:
    log = numbered(100, FILE)
    folder = log.write(tmp_path)
    last = max(folder.iterdir())
    (folder / f"{int(last.name) + FILE:020}").hardlink_to(last)
    (folder / f"{int(last.name) + 2 * FILE:020}").hardlink_to(last)
    found, damage = numbers(tmp_path)
    assert found == list(range(100))
    assert {one.split()[0] for one in damage} == {"missing_file"}


def test_a_store_behind_a_url_is_read_too(tmp_path: Path) -> None:
    root = tmp_path / "store"
    mixed(root)
    with rmqcore.read(root.as_uri()) as reader:
        assert len(list(reader.messages())) == 20
        assert list(reader.damage) == []
    numbered(3, FILE).write(root, "n1")
    with pytest.raises(StoreFormatError, match="2 brokers"):
        rmqcore.read(root.as_uri())


def test_several_brokers_logs_ask_which_one_is_meant(tmp_path: Path) -> None:
    numbered(3, FILE).write(tmp_path)
    numbered(5, FILE).write(tmp_path, "n1")
    with pytest.raises(StoreFormatError, match="2 brokers") as caught:
        rmqcore.read(tmp_path)
    assert "--commitlog" in caught.value.hint
    assert numbers(tmp_path, commitlog=tmp_path / "dledger-n1" / "data") == ([0, 1, 2, 3, 4], [])


def test_a_log_of_dledger_beside_another_one_asks_which_one_is_meant(tmp_path: Path) -> None:
    """Somebody has switched DLedger off again: both logs begin at 0."""
    root = tmp_path / "store"
    with rmqcore.open(root, mapped_file_size_commit_log=FILE) as store:
        for number in range(30):
            store.put(Message("T", b"body%d" % number)).raise_for_status()
    numbered(5, FILE).write(root)
    with pytest.raises(StoreFormatError, match="two logs") as caught:
        rmqcore.fsck(root)
    assert "--commitlog" in caught.value.hint
    assert numbers(root, commitlog=root / "commitlog") == (list(range(30)), [])


def test_nothing_writes_such_a_store(tmp_path: Path) -> None:
    root = tmp_path / "store"
    mixed(root)
    with pytest.raises(StoreKindError, match="DLedger"):
        rmqcore.open(root)
    with pytest.raises(StoreFormatError, match="backup"):
        rmqcore.backup(root, tmp_path / "copy")
    assert not (tmp_path / "copy").exists()
