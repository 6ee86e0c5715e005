"""Where the jobs that write may write, and what in such a folder is theirs to remove. No JVM."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest
from support.spark.local_runner import LocalRunner
from support.stores.built_store import BuiltStore

from rmqcore.disk.inside.folder import Folder
from rmqcore.errors import StoreLockedError, TargetNotEmptyError
from rmqcore.spark.jobs import export as job_export
from rmqcore.spark.output.job_folder import local_folder, lock_folder
from rmqcore.spark.rebuild.index import build_index
from rmqcore.spark.rebuild.queues import build_queues
from rmqcore.spark.rebuild.source import RebuildSource

pytest.importorskip("pyarrow")

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Job = Callable[[Path, Path, bool], object]


def export(store: Path, out: Path, overwrite: bool) -> object:
    return job_export.export_parquet(cast("SparkSession", None), store, out, overwrite=overwrite)


def queues(store: Path, out: Path, overwrite: bool) -> object:
    return build_queues(LocalRunner(), RebuildSource.open(store), out, overwrite=overwrite)


def index(store: Path, out: Path, overwrite: bool) -> object:
    return build_index(LocalRunner(), RebuildSource.open(store), out, overwrite=overwrite)


@pytest.fixture(params=[export, queues, index])
def job(request: pytest.FixtureRequest) -> Job:
    return cast("Job", request.param)


@pytest.fixture(autouse=True)
def in_process(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(_spark: Any, work: Callable[[Any], Any], payloads: Sequence[Any]) -> list[Any]:
        return [work(payload) for payload in payloads]

    monkeypatch.setattr(job_export, "run_tasks", run)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return BuiltStore(tmp_path / "store").fill(20).write()


def names(folder: Path) -> list[str]:
    return sorted(str(path) for path in folder.rglob("*"))


@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize("place", ["", "new", "commitlog", "commitlog/new", "consumequeue/T"])
def test_no_job_writes_into_the_store_that_it_reads(
    store: Path, tmp_path: Path, job: Job, place: str, overwrite: bool
) -> None:
    """An export with --overwrite put its folders among a store's own, and each job a new one where a broker looks for files."""
    before = names(store)
    link = tmp_path / "link"
    link.symlink_to(store)
    for out in (store / place, link / place):
        with pytest.raises(ValueError, match="is inside the store"):
            job(store, out, overwrite)
    assert names(store) == before


def test_the_folder_that_a_rebuild_takes_in_the_store_is_free(store: Path, job: Job) -> None:
    """`rmqcore rebuild STORE` builds in STORE/rebuilt: the same folder was refused by the jobs of Spark."""
    job(store, store / "rebuilt", False)
    assert (store / "rebuilt" / "_SUCCESS").exists()


@pytest.mark.parametrize("part", ["index", "consumequeue"])
def test_a_store_that_bears_the_name_of_a_part_is_not_replaced(tmp_path: Path, part: str) -> None:
    """The store lay in OUT/index: with overwrite the index that was built of it took its place, and the log was gone."""
    store = BuiltStore(tmp_path / part).fill(20).write()
    before = names(tmp_path)
    for job in (queues, index):
        with pytest.raises(ValueError, match="is written by the job"):
            job(store, tmp_path, True)
    assert names(tmp_path) == before


def test_what_other_programs_do_in_the_folder_is_theirs(
    store: Path, tmp_path: Path, job: Job
) -> None:
    """Spark's own writers work in a folder `_temporary`, too: a job that was given the folder meanwhile removed their files."""
    theirs = (
        tmp_path / "out" / "_temporary" / "0" / "_temporary" / "attempt_2026" / "part-0.parquet"
    )
    theirs.parent.mkdir(parents=True)
    theirs.write_text("x")
    for overwrite in (False, True):
        with pytest.raises(
            TargetNotEmptyError, match="_temporary has 0, which was not created by rmqcore"
        ):
            job(store, tmp_path / "out", overwrite)
    assert theirs.read_text() == "x"


def test_a_journal_that_was_half_written_hinders_nobody(
    store: Path, tmp_path: Path, job: Job
) -> None:
    """Killed while it wrote its journal an export left `.commit.json.tmp`; each export after it ended with "Not a directory"."""
    out = tmp_path / "out"
    (out / "_temporary").mkdir(parents=True)
    (out / "_temporary" / ".commit.json.tmp").write_text("{")
    job(store, out, False)
    assert (out / "_SUCCESS").exists()
    assert not (out / "_temporary").exists()


def test_overwrite_replaces_what_an_export_wrote_and_nothing_else(
    store: Path, tmp_path: Path
) -> None:
    """The files of Spark's own writer have names that begin alike, and were removed with those of the export before."""
    out = tmp_path / "out"
    export(store, out, False)
    (day,) = (out / "topic_dir=T").iterdir()
    sparks = day / "part-00000-0a1b2c3d-0000-0000-0000-000000000000.c000.snappy.parquet"
    sparks.write_text("x")
    export(store, out, True)
    assert sparks.read_text() == "x"
    assert len(list(day.glob("part-?????.parquet"))) == 1


def test_tasks_that_still_write_do_not_fail_an_export_that_is_done(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A slower attempt of a task made files while `_temporary` was removed: the export was complete, and raised an OSError."""
    remove = Folder.remove
    written = []

    def late(self: Folder, place: str) -> None:
        if self.path.name == "_temporary":
            written.append(self.path / place / "late")
            written[-1].write_text("x")
            raise OSError(39, "Directory not empty", str(self.path / place))
        remove(self, place)

    monkeypatch.setattr(Folder, "remove", late)
    export(store, tmp_path / "out", False)
    monkeypatch.undo()
    assert (tmp_path / "out" / "_SUCCESS").exists()
    assert written


def test_which_paths_are_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`file:x` was /x, `hdfs:/x` a local folder named "hdfs:", no path at all the working directory, and %20 stayed as it was."""
    monkeypatch.chdir(tmp_path)
    assert local_folder(f"file://{tmp_path}/a%20b") == tmp_path / "a b"
    assert local_folder(f"file:{tmp_path}/a") == tmp_path / "a"
    assert local_folder("file:x") == tmp_path / "file:x"
    assert local_folder(f"{tmp_path}/a%20b") == tmp_path / "a%20b"
    for text in ("hdfs:/x", "s3://bucket/x"):
        with pytest.raises(ValueError, match="mounted"):
            local_folder(text)
    with pytest.raises(ValueError, match="empty"):
        local_folder("")


def test_a_lock_on_a_folder_that_is_gone_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A job that failed removed the folder it had made, and let its lock go to a job that had opened that folder before."""
    folder = tmp_path / "out"
    folder.mkdir()
    flock = fcntl.flock

    def late(fd: int, how: int) -> None:
        folder.rmdir()
        flock(fd, how)

    monkeypatch.setattr(fcntl, "flock", late)
    before = len(os.listdir("/proc/self/fd"))
    with Folder(folder) as opened, pytest.raises(StoreLockedError):
        lock_folder(opened)
    assert len(os.listdir("/proc/self/fd")) == before
