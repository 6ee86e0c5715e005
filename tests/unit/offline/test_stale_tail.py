"""Bytes behind the last record of a cleanly closed store, as writeWithoutMmap leaves them, are no damage."""

from __future__ import annotations

from pathlib import Path

import pytest

import rmqcore
from rmqcore import Message
from rmqcore.cli import main
from rmqcore.maintenance.doctor.doctor import doctor
from rmqcore.offline.fsck import fsck
from rmqcore.offline.stats import stats
from rmqcore.offline.tail import LogTail


@pytest.fixture
def root(tmp_path: Path) -> Path:
    with rmqcore.open(tmp_path / "s", mapped_file_size_commit_log=64 << 10) as store:
        for n in range(50):
            store.put(Message("T", b"%06d" % n + b"x" * 300)).raise_for_status()
        store.wait_dispatched()
    return tmp_path / "s"


def write_behind(root: Path, data: bytes) -> None:
    end = rmqcore.read(root).info().max_phy_offset
    with (root / "commitlog" / f"{0:020}").open("r+b") as file:
        file.seek(end)
        file.write(data)


def kinds(root: Path) -> list[str]:
    reader = rmqcore.read(root)
    assert len(list(reader.messages())) == 50
    return [found.kind for found in reader.damage]


def test_they_are_no_damage(root: Path) -> None:
    write_behind(root, b"TopicA" * 400)
    assert kinds(root) == []
    assert stats(root).exit_code == 0
    tail = LogTail(rmqcore.read(root))
    assert len(tail.newest(3)) == 3
    assert (tail.damage, tail.unfinished) == ([], None)
    report = fsck(root)
    found = [one for one in report.findings if one.kind == "torn_tail"]
    assert [one.severity for one in found] == ["info"]
    assert report.exit_code == 0
    assert "torn_tail" not in {one.name for one in doctor(root).diagnoses}


def test_they_are_damage_after_an_unclean_exit(root: Path) -> None:
    write_behind(root, b"TopicA" * 400)
    (root / "abort").touch()
    assert kinds(root) == ["torn_tail"]
    assert [one.severity for one in fsck(root).findings if one.kind == "torn_tail"] == ["warning"]


def test_the_beginning_of_a_record_is_damage(root: Path) -> None:
    *_, newest = rmqcore.read(root).messages()
    write_behind(root, newest.raw[:-40])
    assert kinds(root) == ["torn_tail"]


def test_a_last_record_that_the_checkpoint_does_not_know_is_not_trusted(root: Path) -> None:
    """The record that the checkpoint names was overwritten, and so the log ends before it."""
    *_, before, newest = rmqcore.read(root).messages()
    with (root / "commitlog" / f"{0:020}").open("r+b") as file:
        file.seek(newest.phy_offset)
        file.write(b"\xff" * newest.msg_size)
    reader = rmqcore.read(root)
    assert len(list(reader.messages())) == 49
    assert [(found.kind, found.start_phy_offset) for found in reader.damage] == [
        ("torn_tail", before.phy_offset + before.msg_size)
    ]


def test_recover_loses_nothing_by_them(root: Path) -> None:
    """`recover` said that something is lost, exit code 2, where fsck and doctor found the store sound."""
    write_behind(root, b"TopicA" * 400)
    assert main(["recover", str(root)]) == 0
    with rmqcore.open(root) as store:
        assert store.recovery.exit_code == 0
        assert store.max_offset("T", 0) == 50


def test_recover_loses_a_record_behind_an_unclean_end(root: Path) -> None:
    write_behind(root, b"TopicA" * 400)
    (root / "abort").touch()
    assert main(["recover", str(root)]) == 2
