"""Backups of a store that eight threads write and a cleaner cleans, and backups that are killed."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from support.doses import dose
from support.eventually import eventually

import rmqcore
from rmqcore.engine.store.store import MessageStore
from rmqcore.maintenance.backup.backup import backup
from rmqcore.maintenance.backup.report import BackupReport
from rmqcore.testing.crash_check import TINY, Acked, check_directory, drain, put

ROUNDS = dose("RMQCORE_BACKUP_ROUNDS", test=1, verify=3, night=40)
SMALL: dict[str, Any] = {
    **TINY,
    "mapped_file_size_commit_log": 256 * 1024,
    "mapped_file_size_consume_queue": 20 * 256,
    "max_hash_slot_num": 256,
    "max_index_num": 1024,
    "flush_interval_commit_log": 5,
    "flush_interval_consume_queue": 5,
}
LOG_BYTES = 24 * SMALL["mapped_file_size_commit_log"]
"""The cleaner leaves about so much, and the writers wait for it at twice that."""


class Busy:
    """A store with eight writers and a cleaner beside them."""

    def __init__(self, store: MessageStore) -> None:
        self.store = store
        self.acked: list[Acked] = []
        self.failed: list[BaseException] = []
        self.over = threading.Event()
        self._numbers = count()

    def held(self) -> int:
        return self.store.max_phy_offset - self.store.min_phy_offset

    def write(self) -> None:
        while not self.over.is_set():
            for _ in range(20 if self.held() < 2 * LOG_BYTES else 0):
                answer = put(self.store, next(self._numbers))
                assert answer is not None
                self.acked.append(answer)
            self.over.wait(0.005)

    def clean(self) -> None:
        while not self.over.wait(0.01):
            if self.held() > LOG_BYTES:
                self.store.clean_once(disk_ratio=0.86)

    def wait_for(self, messages: int) -> None:
        eventually(lambda: len(self.acked) >= messages or self.failed)

    def run(self, step: Any) -> None:
        try:
            step()
        except BaseException as error:
            self.failed.append(error)
            raise


@contextmanager
def busy_store(root: Path) -> Iterator[Busy]:
    with rmqcore.open(root, delete_commit_log_files_interval=1, **SMALL) as store:
        busy = Busy(store)
        steps = [busy.write] * 8 + [busy.clean]
        threads = [threading.Thread(target=busy.run, args=(step,)) for step in steps]
        for thread in threads:
            thread.start()
        try:
            yield busy
        finally:
            busy.over.set()
            for thread in threads:
                thread.join()
        assert busy.failed == []


def check_copy(dest: Path, report: BackupReport, acked: list[Acked], scratch: Path) -> None:
    """A copy that was copied back has every message from its beginning to its watermark, and needs no recovery."""
    assert (report.exit_code, report.state, report.unreadable, report.torn) == (0, "clean", [], [])
    shutil.copytree(dest, scratch)
    held = [
        one
        for one in acked
        if report.min_phy_offset <= one.phy_offset < report.watermark_phy_offset
    ]
    found = check_directory(scratch, held, SMALL)
    assert found == {"cut_bytes": 0, "max_phy_offset": report.watermark_phy_offset}
    shutil.rmtree(scratch)


@pytest.mark.slow
def test_each_copy_has_what_was_acknowledged_before_its_watermark(tmp_path: Path) -> None:
    root = tmp_path / "store"
    with busy_store(root) as busy:
        busy.wait_for(2000)
        for number in range(ROUNDS):
            dest = tmp_path / f"copy-{number // 4}"  # each is made once, and renewed three times
            before = max(one.phy_offset for one in busy.acked)
            report = backup(root, dest, hard_links=bool(number // 4 % 2))
            after = list(busy.acked)
            assert report.watermark_phy_offset > before
            check_copy(dest, report, after, tmp_path / "restored")
            if number % 4 == 3:
                shutil.rmtree(dest)
        eventually(lambda: busy.store.min_phy_offset > 0 or busy.failed)  # the cleaner has its turn


BACKUP = """
import sys
from rmqcore.maintenance.backup.backup import backup
backup(sys.argv[1], sys.argv[2], limit_bytes_per_second=int(sys.argv[3]))
"""


@pytest.mark.slow
def test_a_killed_backup_is_never_whole_and_goes_on(tmp_path: Path) -> None:
    """Killed at any point, the copy says that it is unfinished, and still has what the last whole one had."""
    root, dest, rng = tmp_path / "store", tmp_path / "copy", random.Random(7)
    killed = 0
    with busy_store(root) as busy:
        busy.wait_for(2000)
        for number in range(ROUNDS + 2):
            words = [sys.executable, "-c", BACKUP, str(root), str(dest), str(40 << 20)]
            with subprocess.Popen(words) as child:
                time.sleep(0.2 + rng.random() * 0.5)  # to be killed at any moment
                child.send_signal(signal.SIGKILL)
                killed += child.wait() == -signal.SIGKILL
            if dest.exists() and number % 2:
                manifest = (dest / "backup.json").read_text()
                whole = '"state": "whole"' in manifest
                assert whole or '"state": "unfinished"' in manifest
            if number % 3 == 2:
                report = backup(root, dest)
                check_copy(dest, report, list(busy.acked), tmp_path / "restored")
    assert killed


CALLS = (
    "fsync",
    "fdatasync",
    "replace",
    "unlink",
    "utime",
    "ftruncate",
    "pwrite",
    "mkdir",
    "rmdir",
)
"""Of `os`: a program that dies just before any of them leaves all states that it can leave."""
STRIDE = dose("RMQCORE_BACKUP_STRIDE", test=45, verify=9, night=1)


def backup_that_dies(root: Path, dest: Path, at: int) -> bool:
    """Back up in a process that ends, without a word, before its call number `at`; answer whether it came so far."""
    child = os.fork()
    if child == 0:
        done = count()

        def dying(original: Any) -> Any:
            def call(*given: Any, **named: Any) -> Any:
                if next(done) == at:
                    os._exit(9)
                return original(*given, **named)

            return call

        for name in CALLS:
            setattr(os, name, dying(getattr(os, name)))
        backup(root, dest, hard_links=False, check=False)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9


@pytest.mark.slow
def test_a_backup_that_dies_at_any_call(tmp_path: Path) -> None:
    """What is left is the old whole copy, or says that it is unfinished, and recovers with all messages of the old one."""
    root, old, dest, scratch = (tmp_path / name for name in ("store", "old", "copy", "scratch"))
    with rmqcore.open(root, services=False, **TINY) as store:
        acked = [put(store, number) for number in range(300)]
        drain(store)
        store.flush()
        shutil.copytree(root, tmp_path / "first")
        acked_more = [put(store, number) for number in range(300, 500)]
        store.flush()
        shutil.copytree(root, tmp_path / "second")
    backup(tmp_path / "first", old, hard_links=False)
    at, whole = 0, 0
    while True:
        shutil.copytree(old, dest)
        died = backup_that_dies(tmp_path / "second", dest, at)
        text = (dest / "backup.json").read_text()
        whole += '"state": "whole"' in text
        assert '"state": "whole"' in text or '"state": "unfinished"' in text
        shutil.copytree(dest, scratch)
        check_directory(scratch, [one for one in acked if one is not None])
        report = backup(tmp_path / "second", dest, hard_links=False)
        assert (report.exit_code, report.state) == (0, "clean")
        check_directory(dest, [one for one in acked + acked_more if one is not None])
        for folder in (dest, scratch):
            shutil.rmtree(folder)
        if not died:
            break
        at += STRIDE
    assert at > 100 and 0 < whole < at // STRIDE
