"""A CommitLog in two directories: Java's MultiPathMappedFileQueue and ours put the same files in the same places.

One of the directories lies in the root. The JVM of all tests keeps files of closed stores open, and an open store without a
``commitlog`` in its root would be taken for the one that writes them.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from interop.conftest import OpenJava
from interop.files import check_same_bytes, check_same_files, contents
from interop.java_process import JavaProcess
from interop.java_store import JavaStore
from interop.questions import check_offsets, check_same_answers
from interop.recovery import check_answers
from interop.workload import SIZES, Put, Workload, ours
from interop.writers import Clock, put_java, put_ours

import rmqcore
from rmqcore.errors import StoreLockedError
from rmqcore.offline.fsck import fsck

DISKS = ("disk1", "root/commitlog")
HANDOVERS = 6
PUTS = 150


class Place:
    """A store below one folder: its root and two directories of its log."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.root = folder / "root"
        self.setting = ",".join(str(folder / disk) for disk in DISKS)
        self.java = {**SIZES, "storePathCommitLog": self.setting}
        self.ours: dict[str, Any] = {**ours(SIZES), "store_path_commit_log": self.setting}

    def copy(self, name: str) -> Place:
        """A copy that somebody else may open."""
        folder = self.folder.with_name(name)
        ignored = shutil.ignore_patterns("rocksdbstore", "lock")
        shutil.copytree(self.folder, folder, copy_function=shutil.copyfile, ignore=ignored)
        return Place(folder)

    def write_ours(self, puts: list[Put]) -> Any:
        clock = Clock(puts[0].now_ms)
        with rmqcore.open(self.root, clock=clock, **self.ours) as store:
            assert store.recovery.clean_exit
            assert store.recovery.cut_bytes == 0
            return put_ours(store, clock, puts)

    def check_same(self, other: Place) -> None:
        """The same files with the same bytes, in the same one of the two directories."""
        mine, theirs = (contents(place.folder, *DISKS) for place in (self, other))
        assert sorted(mine) == sorted(theirs)
        for name, data in theirs.items():
            check_same_bytes(name, mine[name], data)
        check_same_files(self.root, other.root)

    def check_sound(self) -> None:
        found = fsck(self.root, commitlog=self.setting).findings
        assert [finding.kind for finding in found if finding.severity != "info"] == []


def test_handovers(java_open: OpenJava, tmp_path: Path) -> None:
    """Writers take turns; a second store gets the same messages from Java alone."""
    shared, reference = Place(tmp_path / "shared"), Place(tmp_path / "reference")
    work = Workload(21, SIZES)
    for stage in range(HANDOVERS):
        puts = list(work.take(PUTS))
        with java_open(reference.root, reference.java) as java:
            want = put_java(java, puts)
        if stage % 2:
            got = shared.write_ours(puts)
        else:
            with java_open(shared.root, shared.java) as java:
                got = put_java(java, puts)
        assert got == want, f"stage {stage}"
        shared.check_same(reference)
        shared.check_sound()
        copy = shared.copy(f"copy{stage}")
        with (
            java_open(copy.root, copy.java) as java,
            rmqcore.open(shared.root, services=False, **shared.ours) as store,
        ):
            assert java.verify()["bad"] == []
            check_same_answers(java, store, seed=stage)
    files = [len(list((shared.folder / disk).iterdir())) for disk in DISKS]
    assert min(files) > HANDOVERS / 2
    assert abs(files[0] - files[1]) <= 1


@pytest.mark.parametrize("writer", ["java", "ours"])
def test_a_crash(writer: str, java: JavaProcess, java_open: OpenJava, tmp_path: Path) -> None:
    """A copy of the running store, and one whose newest file lost its records, recovered by both."""
    place = Place(tmp_path / "place")
    puts = list(Workload(22, SIZES).take(300))
    if writer == "java":
        with JavaStore(java, place.root, place.java) as running:
            put_java(running, puts)
            crashed = place.copy("crashed")
    else:
        clock = Clock()
        with rmqcore.open(place.root, clock=clock, **place.ours) as store:
            put_ours(store, clock, puts)
            store.flush()
            crashed = place.copy("crashed")
    assert (crashed.root / "abort").exists()
    torn = crashed.copy("torn")
    newest = max(rmqcore.read(torn.root, commitlog=torn.setting).messages(), key=_phy_offset)
    damaged = next(
        file
        for file in rmqcore.read(torn.root, commitlog=torn.setting).log_files()
        if file.file_from_offset <= newest.phy_offset < file.end_offset
    )
    with Path(damaged.path).open("r+b") as file:
        file.seek(newest.phy_offset - damaged.file_from_offset + 4)
        file.write(bytes(8))
    for name, image in (("whole", crashed), ("torn", torn)):
        theirs, mine = image.copy(f"{name}_java"), image.copy(f"{name}_ours")
        with java_open(theirs.root, theirs.java) as recovered:
            offsets = recovered.offsets()
            with rmqcore.open(mine.root, **mine.ours) as store:
                assert store.wait_dispatched(60)
                check_offsets(offsets, store)
                check_answers(recovered, store, offsets)
        mine.check_sound()
        with java_open(mine.root, mine.java) as recovered:
            assert recovered.offsets()["max_phy_offset"] == offsets["max_phy_offset"]


def _phy_offset(view: Any) -> int:
    return int(view.phy_offset)


def test_a_broker_on_the_same_root_or_log(tmp_path: Path) -> None:
    """A broker locks its root alone: one with another root on our log is seen by the file that it has open."""
    place = Place(tmp_path / "place")
    setting = f"{tmp_path / 'a'},{tmp_path / 'b'}"
    config = {**ours(SIZES), "store_path_commit_log": setting}
    with JavaProcess(tmp_path) as process:
        java = JavaStore(process, place.root, {**SIZES, "storePathCommitLog": setting})
        put_java(java, Workload(23, SIZES).take(100))
        before = sorted(contents(tmp_path, "a", "b"))
        for root in (place.root, tmp_path / "other"):
            with pytest.raises(StoreLockedError, match=r"in use by process \d+"):
                rmqcore.open(root, **config)
        assert not (tmp_path / "other").exists()
        assert sorted(contents(tmp_path, "a", "b")) == before
        put_java(java, Workload(24, SIZES).take(20))
        java.close()
        with rmqcore.open(place.root, **config) as store:  # the files of a closed store stay open
            assert store.recovery.clean_exit
            with pytest.raises(StoreLockedError, match=re.escape(str(tmp_path / "a"))):
                rmqcore.open(tmp_path / "other", **config)
