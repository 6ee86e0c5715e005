"""What a write leaves behind: whole stores that count all at once, however often tasks and commits are begun and killed."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest
from support.spark.followed_stores import FollowedStores
from support.spark.sink_writes import SMALL, SinkWrite, bodies, numbers, orders, write

import rmqcore
from rmqcore.disk.inside.folder import Folder
from rmqcore.errors import DataLossError, StoreError, StoreFormatError, TargetNotEmptyError
from rmqcore.offline.fsck.fsck import fsck
from rmqcore.spark.sink import sink_commit
from rmqcore.spark.storage.locations import find_stores
from rmqcore.spark.storage.sink_folder import MANIFEST

SCHEMA = orders(1).schema


class Killed(BaseException):
    """Stands for a process that dies."""


def parts(out: Path) -> list[str]:
    return sorted(path.name for path in out.iterdir() if path.name.startswith("part-"))


def staged(out: Path) -> list[Path]:
    return [*(out / "_rmqstore" / "staging").iterdir()]


def test_each_task_has_a_whole_closed_store(tmp_path: Path) -> None:
    out = tmp_path / "out"
    write(out, orders(20), orders(10, first=20))
    assert parts(out) == ["part-000000-00000", "part-000000-00001"]
    assert [store.broker for store in find_stores(out)] == [
        "out.part-000000-00000",
        "out.part-000000-00001",
    ]
    assert bodies(out) == numbers(30)
    for part in parts(out):
        assert {path.name for path in (out / part).iterdir()} == {
            "checkpoint",
            "commitlog",
            "consumequeue",
            "index",
            "lock",
        }
        assert not fsck(out / part).findings
    assert staged(out) == []


def test_append_adds_and_overwrite_replaces(tmp_path: Path) -> None:
    out = tmp_path / "out"
    write(out, orders(5))
    write(out, orders(5, first=5))
    assert bodies(out) == numbers(10)
    write(out, orders(3, first=100), overwrite=True)
    assert bodies(out) == numbers(3, first=100)
    assert parts(out) == ["part-000002-00000"]


def test_a_task_without_rows_makes_no_store(tmp_path: Path) -> None:
    out = tmp_path / "out"
    write(out, orders(0), orders(2))
    assert parts(out) == ["part-000000-00001"]
    write(out, orders(0), overwrite=True)
    assert find_stores(out) == []
    assert parts(out) == []


def test_an_attempt_that_does_not_count_is_not_seen(tmp_path: Path) -> None:
    out = tmp_path / "out"
    sink = SinkWrite(out, SCHEMA)
    first, second = sink.task(orders(5)), sink.task(orders(5))
    assert first.attempt != second.attempt
    assert bodies(out) == []
    sink.commit([second])
    assert bodies(out) == numbers(5)
    assert staged(out) == []


def test_a_failed_task_leaves_nothing(tmp_path: Path) -> None:
    out = tmp_path / "out"
    sink = SinkWrite(out, SCHEMA)
    bad = orders(30).set_column(1, "body", [[b"x"] * 29 + [None]])
    with pytest.raises(StoreError, match="row 29: column body: expected a value, found null"):
        sink.task(bad)
    assert [[*job.iterdir()] for job in staged(out)] == [[]]
    sink.writer.abort([None, sink.task(orders(2))])
    assert staged(out) == []
    assert bodies(out) == []


def test_a_task_of_a_write_that_has_ended_fails(tmp_path: Path) -> None:
    out = tmp_path / "out"
    sink = SinkWrite(out, SCHEMA)
    sink.commit([sink.task(orders(1))])
    with pytest.raises(StoreError, match="the job has ended"):
        sink.task(orders(1))
    assert bodies(out) == numbers(1)


@pytest.mark.parametrize("step", ["sync", "write"])
@pytest.mark.parametrize("overwrite", [False, True])
def test_a_commit_that_dies_before_the_manifest_has_not_happened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, *, overwrite: bool
) -> None:
    out = tmp_path / "out"
    write(out, orders(4))
    dying = SinkWrite(out, SCHEMA, overwrite=overwrite)
    message = dying.task(orders(4, first=50))

    def die(*_: object) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(Folder, step, die)
        with pytest.raises(Killed):
            dying.commit([message])
    assert parts(out) == ["part-000000-00000", "part-000001-00000"]
    assert bodies(out) == numbers(4)
    write(out, orders(4, first=4))
    assert bodies(out) == numbers(8)
    assert parts(out) == ["part-000000-00000", "part-000001-00000"]


def test_a_commit_that_dies_behind_the_manifest_has_happened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    write(out, orders(4))
    dying = SinkWrite(out, SCHEMA, overwrite=True, writeId="one")
    message = dying.task(orders(4, first=50))
    wrote = Folder.write

    def die(folder: Folder, place: str, data: bytes) -> None:
        wrote(folder, place, data)
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(Folder, "write", die)
        with pytest.raises(Killed):
            dying.commit([message])
    assert parts(out) == ["part-000000-00000", "part-000001-00000"]
    assert bodies(out) == numbers(4, first=50)
    # The program that was killed runs again:
    write(out, orders(4, first=50), overwrite=True, writeId="one")
    assert bodies(out) == numbers(4, first=50)
    assert parts(out) == ["part-000001-00000"]


def test_old_stores_that_cannot_be_removed_do_not_fail_a_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark took a write that had been committed for failed; who ran it again had each row twice."""
    out = tmp_path / "out"
    write(out, orders(4))
    sink = SinkWrite(out, SCHEMA, overwrite=True)
    message = sink.task(orders(4, first=50))

    def fail(*_: object, **__: object) -> None:
        raise PermissionError

    with monkeypatch.context() as patch:
        patch.setattr(Folder, "remove", fail)
        sink.commit([message])
    assert parts(out) == ["part-000000-00000", "part-000001-00000"]
    assert bodies(out) == numbers(4, first=50)
    write(out, orders(1))
    assert parts(out) == ["part-000001-00000", "part-000002-00000"]


def test_a_batch_of_a_stream_counts_once(tmp_path: Path) -> None:
    out = tmp_path / "out"

    def batch(number: int, query: str, first: int) -> None:
        folder = sink_commit.SinkFolder.at(str(out))
        folder.prepare()
        sink = SinkWrite(out, SCHEMA)
        message = sink.task(orders(3, first=first))
        object.__setattr__(message, "query", query)
        folder.commit([message], overwrite=False, batch=number)

    batch(0, "a", 0)
    batch(1, "a", 3)
    batch(1, "a", 3)  # after a restart
    batch(0, "b", 6)  # another query
    assert bodies(out) == numbers(9)
    assert json.loads((out / MANIFEST).read_text())["batches"] == {"a": 1, "b": 0}
    assert staged(out) == []


def test_a_stream_follows_the_folder(tmp_path: Path) -> None:
    """New stores are read from their begin; stores that were replaced are missed."""
    out = tmp_path / "out"
    write(out, orders(5), orders(5))
    reader = FollowedStores(out)
    assert len(reader.drain()) == 10
    write(out, orders(7))
    assert len(reader.drain()) == 7
    reader.restart()
    write(out, orders(3))
    assert len(reader.drain()) == 3
    assert len(set(reader.rows)) == 20
    write(out, orders(2), overwrite=True)
    with pytest.raises(DataLossError):
        reader.drain()


def test_what_nobody_ended_goes_after_a_week(tmp_path: Path) -> None:
    out = tmp_path / "out"
    new, old = SinkWrite(out, SCHEMA), SinkWrite(out, SCHEMA)
    for sink in (new, old):
        sink.task(orders(2))
    long_ago = time.time() - sink_commit.STAGING_KEPT_S - 60
    os.utime(out / "_rmqstore" / "staging" / old.writer_job, (long_ago, long_ago))
    write(out, orders(1))
    assert [job.name for job in staged(out)] == [new.writer_job]


def test_stores_and_foreign_folders_are_left_alone(tmp_path: Path) -> None:
    store = tmp_path / "store"
    with rmqcore.open(store, services=False):
        pass
    with pytest.raises(TargetNotEmptyError, match="is inside a store"):
        SinkWrite(store / "new" / "out", SCHEMA)
    assert not (store / "new").exists()
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    (foreign / "report.txt").write_text("mine")
    for path, message in (
        (store, "is a store"),
        (foreign, "has report.txt, and is not a directory"),
    ):
        before = sorted(path.rglob("*"))
        with pytest.raises(TargetNotEmptyError, match=message):
            SinkWrite(path, SCHEMA, overwrite=True)
        assert sorted(path.rglob("*")) == before
    with pytest.raises(ValueError, match="s3://bucket/out"):
        SinkWrite("s3://bucket/out", SCHEMA)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"version": 2}',
        '{"version": 1, "commits": 1, "parts": [{"part": "../store"}], "writes": [], "removed": []}',
    ],
)
def test_a_broken_manifest_changes_nothing(tmp_path: Path, text: str) -> None:
    """A manifest that names nothing would make all stores look as if no write had committed them."""
    out = tmp_path / "out"
    write(out, orders(2))
    sink = SinkWrite(out, SCHEMA)
    message = sink.task(orders(2))
    (out / MANIFEST).write_text(text)
    with pytest.raises(StoreFormatError, match="is not a version 1 manifest"):
        sink.commit([message])
    with pytest.raises(StoreFormatError, match="is not a version 1 manifest"):
        find_stores(out)
    (out / MANIFEST).unlink()
    with pytest.raises(StoreFormatError, match="is missing, which lists"):
        sink.commit([message])
    with pytest.raises(TargetNotEmptyError, match="has part-000000-00000"):
        SinkWrite(out, SCHEMA)
    assert parts(out) == ["part-000000-00000"]


def test_a_store_that_is_not_here_is_said(tmp_path: Path) -> None:
    """A worker on another machine wrote to a disk of its own."""
    sink = SinkWrite(tmp_path / "out", SCHEMA)
    message = sink.task(orders(2))
    object.__setattr__(message, "attempt", "0" * 32)
    with pytest.raises(StoreError, match="the driver and all workers must share"):
        sink.commit([message])
    assert bodies(tmp_path / "out") == []


def test_small_files_are_what_the_options_say(tmp_path: Path) -> None:
    out = tmp_path / "out"
    write(out, orders(2000))
    log = [path.stat().st_size for path in (out / "part-000000-00000" / "commitlog").iterdir()]
    assert len(log) > 2 and set(log) == {64 << 10}
    assert SMALL["maxIndexNum"] == "256"
    assert len([*(out / "part-000000-00000" / "index").iterdir()]) > 2
    assert bodies(out) == numbers(2000)
