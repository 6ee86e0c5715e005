"""The advice is proven: who follows doctor's first command loses nothing that another step would have kept.

RMQCORE_ADVICE: how many random stores; RMQCORE_SEED: others.
"""

from __future__ import annotations

import os
import random
import shlex
import shutil
import struct
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.doses import dose
from support.stores.sick_stores import FILE_SIZE, FILES, HARMS, Sick, sound_store

import rmqcore
from rmqcore.cli import main
from rmqcore.disk.used_space import DiskSpace
from rmqcore.engine.clean import disks
from rmqcore.errors import StoreError
from rmqcore.maintenance.doctor.doctor import doctor
from rmqcore.maintenance.doctor.report import Diagnosis, DoctorReport
from rmqcore.maintenance.retention import growing_disks
from rmqcore.testing.random_damage import damage

STORES = dose("RMQCORE_ADVICE", test=8, verify=40, night=400)
SEED = int(os.environ.get("RMQCORE_SEED", "7"))
NOT_OF_THE_STORE = {
    "in_use",
    "files_overdue",
    "unreadable",
    "queues_behind",
    "not_looked_at",
    "rocksdb_damaged",  # the advice makes queues beside the store
    "unread_by_release",  # the advice leaves those records out, for a release that would drop more
}
"""Harms that need a process, a monkeypatch, or another directory to be there."""
ENTRY = struct.Struct(">qiq")


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("sound") / "store"
    sound_store(root)
    return root


@pytest.fixture(autouse=True)
def roomy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disks, "used_percent", lambda _: 10)
    monkeypatch.setattr(growing_disks, "disk_space", lambda _: DiskSpace(1 << 30, 9 << 30))


# ---- what can be fetched ----------------------------------------------------------------------------


def fetched(root: Path) -> set[tuple[str, int, int]]:
    """Sound messages that a queue leads to: topic, queue id, queue offset."""
    records = {view.phy_offset: view for view in rmqcore.read(root).messages() if view.crc_ok()}
    found = set()
    for path in (root / "consumequeue").glob("*/*/0*"):
        data = path.read_bytes()
        for phy_offset, size, _ in ENTRY.iter_unpack(data[: len(data) // 20 * 20]):
            view = records.get(phy_offset)
            if view is not None and view.msg_size == size:
                found.add((view.topic, view.queue_id, view.queue_offset))
    return found


def run(words: list[str]) -> bool:
    """Type a command; answer whether it did its work."""
    return main(words) in (0, 2)


def recovered(root: Path) -> Path | None:
    return root if run(["recover", str(root), "--apply"]) else None


def salvaged(root: Path) -> Path | None:
    out = root.with_name(root.name + ".out")
    return out if run(["salvage", str(root), str(out)]) and out.is_dir() else None


def rebuilt(root: Path) -> Path | None:
    return root if run(["rebuild", str(root), "--cq", "--apply"]) else None


def renamed(root: Path) -> Path | None:
    """Each file of the log has the name that its first record says."""
    for path in sorted((root / "commitlog").glob("0*")):
        head = path.read_bytes()[:36]
        says = int.from_bytes(head[28:36], "big")
        target = path.with_name(f"{says:020}")
        if head[4:8] == b"\xda\xa3\x20\xa7" and says % FILE_SIZE == 0 and not target.exists():
            path.rename(target)
    return root


def renamed_and_recovered(root: Path) -> Path | None:
    renamed(root)
    return recovered(root)


STEPS: tuple[Callable[[Path], Path | None], ...] = (
    recovered,
    salvaged,
    rebuilt,
    renamed_and_recovered,
)


def best(root: Path, scratch: Path) -> tuple[int, str]:
    """How many messages can be fetched at most, now or behind one step, and which."""
    found = [(len(fetched(root)), "as it is")]
    for step in STEPS:
        shutil.rmtree(scratch, ignore_errors=True)
        copy = Path(shutil.copytree(root, scratch / "store", symlinks=True))
        result = step(copy)
        if result is not None:
            found.append((len(fetched(result)), step.__name__))
    return max(found)


# ---- the first command ------------------------------------------------------------------------------


def first_step(report: DoctorReport) -> Diagnosis | None:
    return next((one for one in report.diagnoses if one.command), None)


def follow(root: Path, first: Diagnosis) -> Path:
    """Type the command, and what its text says of it; answer where the store is then."""
    words = shlex.split(first.command)
    if words[0] != "rmqcore":
        subprocess.run(["sh", "-c", first.command], check=False, capture_output=True)
        return root
    words = words[1:]
    if words[0] == "salvage":
        assert run(words), first.command
        return Path(words[2])
    if words[0] == "rebuild" and "--out" in words:
        words[words.index("--out") :] = []
    if words[0] in ("recover", "rebuild"):
        assert run([*words, "--apply"]), first.command
        return root
    assert run(words), first.command  # it only shows
    return root


def check_advice(root: Path, scratch: Path, report: DoctorReport) -> None:
    first = first_step(report)
    if first is None:
        return
    words = shlex.split(first.command)
    if words[0] != "mv" and words[1] not in ("salvage", "recover", "rebuild"):
        follow(root, first)  # it only shows, and keeps what it finds: see test_what_it_says_to_type
        return
    before, step = best(root, scratch)
    result = follow(root, first)
    after = len(fetched(result))
    if after < before:
        after, _ = best(result, scratch)
    names = [one.name for one in report.diagnoses]
    assert after >= before, (
        f"{first.name}: {first.command} keeps {after} of {before} ({step}); {names}"
    )


# ---- stores -----------------------------------------------------------------------------------------

EACH = [
    (name, number)
    for name, harms in HARMS.items()
    for number in range(len(harms))
    if name not in NOT_OF_THE_STORE
]


@pytest.mark.parametrize(("name", "number"), EACH)
def test_each_sick_store(
    sound: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, number: int
) -> None:
    sick = Sick(Path(shutil.copytree(sound, tmp_path / "store")), monkeypatch)
    HARMS[name][number](sick)
    sick.options.pop("config", None)
    check_advice(sick.root, tmp_path / "scratch", doctor(sick.root, **sick.options))


COMBINED = (
    "damaged_log",
    "torn_tail",
    "log_file_size",
    "log_file_name",
    "log_hole",
    "log_missing",
    "moved_log",
    "clock_step",
    "unclean_exit",
    "checkpoint",
    "no_checkpoint",
    "queues_missing",
    "queue_beyond_log",
    "queue_min_below_log",
    "queue_files",
    "group_beyond_queue",
    "index_files",
    "index_missing",
)


def old_damage(sick: Sick) -> None:
    """A body two files before the newest."""
    sick.write(sick.log(FILES - 3), 30_000, b"x" * 8)


def newest_renamed(sick: Sick) -> None:
    sick.log(FILES - 1).rename(sick.log(FILES))


def unclean_without_checkpoint(sick: Sick) -> None:
    (sick.root / "checkpoint").unlink(missing_ok=True)
    (sick.root / "abort").touch()


def harms_of(rng: random.Random) -> Iterator[Callable[[Sick], None]]:
    own = [old_damage, newest_renamed, unclean_without_checkpoint]
    every = [*(HARMS[name][0] for name in COMBINED), *own, *own]
    yield from rng.sample(every, rng.choice((1, 2, 2, 3)))


@pytest.mark.parametrize("number", range(STORES))
def test_a_store_that_many_things_happened_to(
    sound: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    rng = random.Random(SEED * 1000 + number)
    sick = Sick(Path(shutil.copytree(sound, tmp_path / "store")), monkeypatch)
    done = []
    for harm in harms_of(rng):
        try:
            harm(sick)
        except (OSError, IndexError, StoreError):  # nothing is left that it could harm
            continue
        done.append(harm.__name__)
    if rng.random() < 0.4 and any((sick.root / "commitlog").iterdir()):
        done += [str(change) for change in damage(sick.root, rng)]
    try:
        check_advice(
            sick.root, tmp_path / "scratch", doctor(sick.root, thorough=rng.random() < 0.5)
        )
    except AssertionError as error:
        raise AssertionError(f"RMQCORE_SEED={SEED}, store {number}: {done}: {error}") from error


def test_damage_before_the_newest_file_is_told(sound: Path, tmp_path: Path) -> None:
    """The first command was `recover`, "--apply does it", which cut the log there."""
    root = Path(shutil.copytree(sound, tmp_path / "store"))
    sick = Sick(root, pytest.MonkeyPatch())
    old_damage(sick)
    unclean_without_checkpoint(sick)
    report = doctor(root)
    first = first_step(report)
    assert first is not None
    assert (first.name, report.exit_code) == ("damaged_log", 2)
    waiting = {one.name: one.after for one in report.diagnoses if one.after}
    assert waiting == {"unclean_exit": "damaged_log", "no_checkpoint": "damaged_log"}
    assert (report.log_bytes_read, report.log_bytes > 0) == (report.log_bytes, True)


def test_the_newest_file_has_another_name(sound: Path, tmp_path: Path) -> None:
    """`log_hole` came first, with salvage, which lost the file's messages; the rename loses none."""
    root = Path(shutil.copytree(sound, tmp_path / "a store"))
    count = len(fetched(root))
    newest_renamed(Sick(root, pytest.MonkeyPatch()))
    first = first_step(report := doctor(root))
    assert first is not None
    assert first.name == "moved_log"
    assert {one.after for one in report.diagnoses if one.name == "log_hole"} == {"moved_log"}
    follow(root, first)
    assert len(fetched(root)) == count
    assert doctor(root).diagnoses == ()


def test_every_file_is_moved_by_one(sound: Path, tmp_path: Path) -> None:
    """Each name is free when its turn comes."""
    root = Path(shutil.copytree(sound, tmp_path / "store"))
    sick = Sick(root, pytest.MonkeyPatch())
    for number in reversed(range(FILES)):
        sick.log(number).rename(sick.log(number + 1))
    count = len(fetched(sound))
    first = first_step(doctor(root))
    assert first is not None
    follow(root, first)
    assert len(fetched(root)) == count
    assert doctor(root).diagnoses == ()


def test_a_group_waits_for_the_disk_of_the_log(sound: Path, tmp_path: Path) -> None:
    root = Path(shutil.copytree(sound, tmp_path / "store"))
    sick = Sick(root, pytest.MonkeyPatch())
    for name in ("group_beyond_queue", "log_missing"):
        HARMS[name][0](sick)
    report = doctor(root)
    assert report.diagnoses[0].name == "log_missing"
    others = [one for one in report.diagnoses if one.name == "group_beyond_queue"]
    assert all(one.after == "log_missing" and not one.command for one in others)
