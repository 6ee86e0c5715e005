"""Copies of a store that is in use, copied back: RocketMQ opens them without a recovery, and answers as we do."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from interop.conftest import OpenJava
from interop.files import copy_store
from interop.questions import check_same_answers
from interop.workload import CONFIGS, Workload, ours
from interop.writers import Clock, put_java, put_ours

import rmqcore
from rmqcore import Message, MessageStoreConfig
from rmqcore.errors import OtherStoreError
from rmqcore.maintenance.backup.backup import backup

PUTS, ROUNDS = 250, 2
NOW_MS = 1_900_000_000_000


def check_restored(
    dest: Path, restored: Path, watermark: int, name: str, open_java: OpenJava
) -> None:
    """Copy it back twice, for each side one; what both answer is the same, and Java finds nothing wrong."""
    config = CONFIGS[name]
    for side in ("java", "ours"):
        copy_store(dest, restored / side)
    with (
        open_java(restored / "java", config) as java,
        rmqcore.open(restored / "ours", services=False, **ours(config)) as store,
    ):
        assert store.recovery.clean_exit and store.recovery.cut_bytes == 0
        assert store.recovery.differing_entries == 0
        assert store.max_phy_offset == watermark
        verdict = java.verify()
        assert verdict["bad"] == []
        check_same_answers(java, store)


@pytest.mark.parametrize("name", CONFIGS)
def test_of_a_store_that_java_writes(name: str, java_open: OpenJava, tmp_path: Path) -> None:
    config, root, dest = CONFIGS[name], tmp_path / "java", tmp_path / "copy"
    workload = Workload(21, config)
    with java_open(root, config) as java:
        put_java(java, workload.take(PUTS))
        for number in range(ROUNDS):
            writer = threading.Thread(target=put_java, args=(java, workload.take(PUTS)))
            writer.start()
            report = backup(root, dest, config=MessageStoreConfig(**ours(config)))
            writer.join()
            assert (report.exit_code, report.state) == (0, "clean"), report
            restored = tmp_path / f"restored{number}"
            check_restored(dest, restored, report.watermark_phy_offset, name, java_open)


@pytest.mark.parametrize("name", CONFIGS)
def test_of_a_store_that_we_write(name: str, java_open: OpenJava, tmp_path: Path) -> None:
    config, root, dest = CONFIGS[name], tmp_path / "ours", tmp_path / "copy"
    workload, clock = Workload(22, config), Clock()
    with rmqcore.open(root, clock=clock, **ours(config)) as store:
        put_ours(store, clock, workload.take(PUTS))
        for number in range(ROUNDS):
            writer = threading.Thread(target=put_ours, args=(store, clock, workload.take(PUTS)))
            writer.start()
            report = backup(root, dest, config=MessageStoreConfig(**ours(config)))
            writer.join()
            assert (report.exit_code, report.state) == (0, "clean"), report
            restored = tmp_path / f"restored{number}"
            check_restored(dest, restored, report.watermark_phy_offset, name, java_open)


def test_of_a_store_that_java_has_cut(java_open: OpenJava, tmp_path: Path) -> None:
    """RocketMQ's recovery leaves the old bytes behind the end where it cuts: they are no part of the log any more."""
    config = {**CONFIGS["plain"], "mappedFileSizeCommitLog": 4 << 20}
    root, dest = tmp_path / "store", tmp_path / "copy"
    with rmqcore.open(root, **ours(config)) as store:
        for number in range(4000):
            store.put(Message("T", b"%08d" % number + b"x" * 900)).raise_for_status()
        store.wait_dispatched()
    assert backup(root, dest).exit_code == 0
    with rmqcore.read(root) as reader:
        cut = [message.phy_offset for message in reader.messages()][1500]
    log = root / "commitlog" / f"{0:020}"
    with log.open("r+b") as file:
        file.seek(cut + 100)
        file.write(b"\xff" * 8)
    (root / "abort").touch()
    (root / "checkpoint").unlink()
    before = {path: path.read_bytes() for path in dest.rglob("*") if path.is_file()}
    with java_open(root, config) as java:
        java.put((Message("New", b"%08d" % number + b"y" * 900), NOW_MS) for number in range(320))
        java.await_dispatch()
        end = java.offsets()["max_phy_offset"]
        assert cut < end < cut + (1 << 20)
        with pytest.raises(OtherStoreError, match="was cut"):
            backup(root, dest)
    assert log.read_bytes()[end:] == before[dest / "commitlog" / f"{0:020}"][end:]
    assert {path: path.read_bytes() for path in dest.rglob("*") if path.is_file()} == before
