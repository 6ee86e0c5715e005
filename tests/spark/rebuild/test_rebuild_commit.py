"""The folder that a job writes into: complete or not there, whenever the driver dies."""

from __future__ import annotations

import json
import os
import shutil
import signal
import warnings
from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest

from rmqcore.errors import StoreError, StoreLockedError, TargetNotEmptyError
from rmqcore.spark.output.attempt import Attempt
from rmqcore.spark.output.job_folder import local_folder
from rmqcore.spark.output.part_output import PartOutput, StagedFile
from rmqcore.spark.storage.store_location import StoreLocation

STORE = StoreLocation("b", "/store")
FILES = {"T/0/00": b"one", "T/1/00": b"two", "Other/0/00": b"three"}


@pytest.fixture(autouse=True)
def _without_syncs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Syncs do nothing here, since a process that dies loses nothing for want of them; each is still a point to die at."""
    monkeypatch.setattr(os, "fsync", lambda fd: None)


def tree(folder: Path) -> dict[str, bytes]:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def stage(output: PartOutput, files: dict[str, bytes]) -> dict[str, StagedFile]:
    """Files as two tasks write them, and the leftovers of a third."""
    staged = {}
    for part in range(2):
        attempt = Attempt(output.job_folder)
        for name, data in list(files.items())[part::2]:
            path = attempt.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
            staged[name] = attempt.stage(path, 1, 5, 9)
        attempt.sync()
    (Attempt(output.job_folder).folder / "left").write_text("by an attempt that died")
    return staged


def build(
    out: Path,
    files: dict[str, bytes] = FILES,
    part: str = "consumequeue",
    store: str = "/store",
    *,
    overwrite: bool = False,
) -> None:
    with PartOutput(out, part, store=StoreLocation("b", store), overwrite=overwrite) as output:
        output.commit(stage(output, files), {"records": len(files)})


def expected(files: dict[str, bytes]) -> dict[str, bytes]:
    return {f"consumequeue/{name}": data for name, data in files.items()}


def parts_of(out: Path) -> dict[str, bytes]:
    return {name: data for name, data in tree(out).items() if "/" in name}


def check_complete(out: Path, files: dict[str, bytes]) -> None:
    assert parts_of(out) == expected(files)
    assert sorted(os.listdir(out)) == ["_SUCCESS", "consumequeue", "manifest.json"]
    listed = json.loads((out / "manifest.json").read_text())["parts"]["consumequeue"]["files"]
    assert sorted(entry["file"] for entry in listed) == sorted(expected(files))
    assert {entry["byte_count"] for entry in listed} == {len(data) for data in files.values()}


def test_all_of_it(tmp_path: Path) -> None:
    build(tmp_path / "deep" / "out")
    check_complete(tmp_path / "deep" / "out", FILES)


def test_again_gives_the_same_and_other_files_replace(tmp_path: Path) -> None:
    build(tmp_path / "out")
    before = tree(tmp_path / "out")
    build(tmp_path / "out")
    assert tree(tmp_path / "out") == before
    build(tmp_path / "out", {"New/0/00": b"new"})
    check_complete(tmp_path / "out", {"New/0/00": b"new"})


def test_two_parts_share_a_folder(tmp_path: Path) -> None:
    build(tmp_path / "out")
    build(tmp_path / "out", {"2023": b"index"}, "index")
    build(tmp_path / "out")
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert sorted(manifest["parts"]) == ["consumequeue", "index"]
    assert tree(tmp_path / "out" / "index") == {"2023": b"index"}


# ---- what is there already --------------------------------------------------------------------------


def test_a_folder_that_holds_something_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("x")
    for overwrite in (False, True):
        with pytest.raises(TargetNotEmptyError, match="mine"):
            build(tmp_path, overwrite=overwrite)
    assert tree(tmp_path) == {"mine": b"x"}


@pytest.mark.parametrize("part", ["consumequeue", "index"])
def test_a_part_that_something_else_made(tmp_path: Path, part: str) -> None:
    (tmp_path / part).mkdir()
    (tmp_path / part / "old").write_text("x")
    with pytest.raises(TargetNotEmptyError, match=part):
        build(tmp_path)
    assert tree(tmp_path) == {f"{part}/old": b"x"}
    build(tmp_path, overwrite=True)
    assert (tmp_path / part / "old").exists() == (part == "index")


def test_a_part_of_another_store(tmp_path: Path) -> None:
    build(tmp_path)
    before = tree(tmp_path)
    with pytest.raises(TargetNotEmptyError, match="another store, /store"):
        build(tmp_path, store="/other")
    assert tree(tmp_path) == before
    build(tmp_path, store="/other", overwrite=True)


@pytest.mark.parametrize(
    "text", ["{", "[]", '{"version": 2}', '{"version": 1}', '{"version": 1, "parts": {"index": 1}}']
)
def test_a_manifest_that_is_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "manifest.json").write_text(text)
    with pytest.raises(TargetNotEmptyError, match=r"manifest\.json"):
        build(tmp_path)
    assert tree(tmp_path) == {"manifest.json": text.encode()}


def test_one_job_at_a_time(tmp_path: Path) -> None:
    with PartOutput(tmp_path, "consumequeue", store=STORE) as output:
        with pytest.raises(StoreLockedError):
            build(tmp_path)
        output.commit(stage(output, FILES), {})
    assert parts_of(tmp_path) == expected(FILES)


def test_where_it_can_be(tmp_path: Path) -> None:
    assert local_folder(f"file://{tmp_path}") == local_folder(f"file:{tmp_path}") == tmp_path
    for text in ("s3://bucket/x", "hdfs://n/x"):
        with pytest.raises(ValueError, match="mounted"):
            local_folder(text)


# ---- jobs that fail ---------------------------------------------------------------------------------


def fail(out: Path, error: BaseException) -> None:
    with PartOutput(out, "consumequeue", store=STORE) as output:
        stage(output, {"New/0/00": b"new"})
        raise error


@pytest.mark.parametrize("made", [True, False])
def test_a_job_that_fails_leaves_nothing(tmp_path: Path, made: bool) -> None:
    out = tmp_path / "out"
    if made:
        out.mkdir()
    with pytest.raises(KeyboardInterrupt):
        fail(out, KeyboardInterrupt())
    assert os.listdir(tmp_path) == (["out"] if made else [])
    assert not made or os.listdir(out) == []


def test_a_job_that_fails_leaves_what_was_there(tmp_path: Path) -> None:
    build(tmp_path)
    before = tree(tmp_path)
    with pytest.raises(OSError, match="disk"):
        fail(tmp_path, OSError("disk"))
    assert tree(tmp_path) == before


@pytest.mark.parametrize("change", [Path.unlink, lambda path: path.write_bytes(b"longer")])
def test_workers_that_write_elsewhere(tmp_path: Path, change: Callable[[Path], object]) -> None:
    """A folder of the same name on each machine is not one folder."""
    with PartOutput(tmp_path, "consumequeue", store=STORE) as output:
        staged = stage(output, FILES)
        change(output.job_folder / staged["T/0/00"].staged)
        with pytest.raises(StoreError, match=r"must share|has 6 bytes, expected 3"):
            output.commit(staged, {})
    assert os.listdir(tmp_path) == []


def test_a_task_that_outlives_its_job_writes_nothing(tmp_path: Path) -> None:
    with PartOutput(tmp_path, "consumequeue", store=STORE) as output:
        attempt = Attempt(output.job_folder)
        assert attempt.folder.is_dir()
    for late in (attempt, Attempt(output.job_folder)):
        with pytest.raises(StoreError, match="the job has ended"):
            _ = late.folder
    assert os.listdir(tmp_path) == []


# ---- a driver that dies -----------------------------------------------------------------------------

CHANGES = ("rename", "replace", "unlink", "mkdir", "rmdir", "fsync")


def die_at(number: int, action: Callable[[], None]) -> bool:
    """Run `action` in a process that is killed before its n-th change of the disk; True when there was such a change."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # other threads: the child needs none
        child = os.fork()
    if child == 0:
        code = 1
        try:
            _kill_before(number)
            action()
            code = 0
        finally:
            os._exit(code)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert status in (0, -signal.SIGKILL)
    return status != 0


def _kill_before(number: int) -> None:
    calls = count(1)

    def dying(change: Callable[..., object]) -> Callable[..., object]:
        def call(*given: object, **named: object) -> object:
            if next(calls) == number:
                os.kill(os.getpid(), signal.SIGKILL)
            return change(*given, **named)

        return call

    for name in CHANGES:
        setattr(os, name, dying(getattr(os, name)))


@pytest.mark.parametrize("replaces", [False, pytest.param(True, marks=pytest.mark.large)])
def test_killed_at_any_point(tmp_path: Path, replaces: bool) -> None:
    """A kill at any step leaves no half part and ``_SUCCESS`` only beside whole parts; the next run gives the same bytes."""
    new = {"N/0/00": b"new", "T/0/00": b"changed"}
    old = FILES if replaces else {}
    out = tmp_path / "out"
    number = 0
    seen = set()
    for number in range(1, 200):
        shutil.rmtree(out, ignore_errors=True)
        if replaces:
            build(out, old)
        if not die_at(number, lambda: build(out, new)):
            break
        found = {name: data for name, data in tree(out).items() if name.startswith("consumequeue/")}
        state = "new" if found == expected(new) else "old" if found == expected(old) else "none"
        assert state != "none" or not found
        seen.add(state)
        if (out / "_SUCCESS").exists():
            listed = json.loads((out / "manifest.json").read_text())["parts"]["consumequeue"]
            names = {entry["file"] for entry in listed["files"]}
            assert (
                names == found.keys() == (expected(new) if state == "new" else expected(old)).keys()
            )
        build(out, new)
        check_complete(out, new)
    assert number > 25
    assert seen >= {"old", "new"}


@pytest.mark.parametrize("text", ['{"old": [], "moves": [], "manifest": {}}', "{", "7"])
def test_an_export_that_was_killed_in_its_commit_is_not_the_rebuilds_to_finish(
    tmp_path: Path, text: str
) -> None:
    """Both kinds of job keep a journal of the same name; a rebuild took an export's for its own and ended with a TypeError."""
    (tmp_path / "_temporary").mkdir()
    journal = tmp_path / "_temporary" / "commit.json"
    journal.write_text(text)
    with pytest.raises(TargetNotEmptyError, match=r"commit\.json belongs to a job of another kind"):
        build(tmp_path)
    assert journal.read_text() == text
