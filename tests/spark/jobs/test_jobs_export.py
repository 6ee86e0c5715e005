"""Exports in this process, one task after the other: what an export writes, what a killed export leaves to the next. No JVM."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest
from support.stores.built_store import BuiltStore

import rmqcore
from rmqcore import Message, codec
from rmqcore.disk.inside.folder import Folder
from rmqcore.errors import StoreLockedError, TargetNotEmptyError
from rmqcore.offline.log.damage import DamageRange
from rmqcore.spark.jobs import audit as audit_job
from rmqcore.spark.jobs import export as job_export
from rmqcore.spark.jobs import job_source
from rmqcore.spark.jobs.export import ExportReport, export_parquet
from rmqcore.spark.jobs.export_task import ExportTask, export_split
from rmqcore.spark.output import export_folder
from rmqcore.spark.output.job_folder import lock_folder

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NO_SPARK = cast("SparkSession", None)
WALKED: dict[str, Any] = {"maxPartitionBytes": 20_000, "splitMode": "walk"}


@pytest.fixture(autouse=True)
def in_process(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(_spark: Any, work: Callable[[Any], Any], payloads: Sequence[Any]) -> list[Any]:
        return [work(payload) for payload in payloads]

    monkeypatch.setattr(job_export, "run_tasks", run)


def export(store: Path | list[str], out: Path, **options: Any) -> ExportReport:
    return export_parquet(NO_SPARK, store, out, **options)


def written(out: Path) -> list[tuple[Any, ...]]:
    """Of every row the broker, the place, the topic, the day of the folder, and the body."""
    rows = []
    for part in sorted(out.glob("topic_dir=*/day=*/part-*.parquet")):
        table = pq.ParquetFile(part).read()
        day = part.parts[-2].removeprefix("day=")
        rows += [
            (row["broker"], row["phy_offset"], row["topic"], day, row.get("body"))
            for row in table.to_pylist()
        ]
    return sorted(rows)


def messages(store: Path, broker: str) -> list[tuple[Any, ...]]:
    return sorted(
        (
            broker,
            message.phy_offset,
            message.topic,
            datetime.fromtimestamp(message.store_timestamp_ms / 1000, UTC).strftime("%Y-%m-%d"),
            message.body,
        )
        for message in rmqcore.read(store).messages()
    )


@pytest.mark.parametrize("case", ["basic", "transaction", "compressed", "ipv6"])
def test_every_message_is_in_its_folder(golden: Path, tmp_path: Path, case: str) -> None:
    store = golden / case / "store"
    report = export([f"b={store}"], tmp_path / "out", **WALKED)
    expected = messages(store, "b")
    assert written(tmp_path / "out") == expected
    assert (report.rows, report.exit_code) == (len(expected), 0)
    assert report.splits > 1
    assert report.stored_bytes == sum(
        message.msg_size for message in rmqcore.read(store).messages()
    )
    names = {part.name for part in (tmp_path / "out").glob("topic_dir=*/day=*/*")}
    assert names == {f"part-{number:05}.parquet" for number in range(report.files)}
    assert sorted(os.listdir(tmp_path / "out"))[:2] == ["_SUCCESS", "_manifest.json"]
    assert "_temporary" not in os.listdir(tmp_path / "out")


def test_damage_is_in_the_report_and_the_manifest(golden: Path, tmp_path: Path) -> None:
    store = golden / "crash_flipped" / "input"
    report = export([f"b={store}"], tmp_path / "out", mode="DROPMALFORMED")
    reader = rmqcore.read(store)
    assert report.rows == len(list(reader.messages(verify_crc=True)))
    assert report.damage == [("b", damage) for damage in reader.damage]
    assert report.exit_code == 2
    manifest = json.loads((tmp_path / "out" / "_manifest.json").read_bytes())
    assert manifest["damage"][0]["kind"] == "crc"
    assert manifest["rows"] == report.rows


def test_damage_of_a_split_is_sent_in_part_and_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file of tiny damages was millions of objects at the driver: a task sends a number of them, and counts the rest."""
    log = tmp_path / "store" / "commitlog" / f"{0:020}"
    log.parent.mkdir(parents=True)
    data = bytearray()
    for number in range(30):
        record = codec.encode(
            Message("T", b"wrong"), phy_offset=len(data), queue_offset=number, store_timestamp_ms=1
        )
        data += record.replace(b"wrong", b"other") if number % 2 else record
    log.write_bytes(data)
    reader = rmqcore.read(log.parent.parent)
    assert len(list(reader.messages())) == 30
    assert len(reader.damage) == 15
    monkeypatch.setattr(job_source, "MOST_SENT", 4)
    monkeypatch.setattr(audit_job, "run_tasks", vars(job_export)["run_tasks"])
    exported = export([f"b={log.parent.parent}"], tmp_path / "out")
    audited = audit_job.run_audit(NO_SPARK, [f"b={log.parent.parent}"])
    for report in (exported, audited):
        assert [found for _, found in report.damage[:4]] == list(reader.damage[:4])
        ((_, more),) = report.damage[4:]
        assert (more.kind, more.range_count) == ("more", 11)
        assert more.byte_count == sum(found.byte_count for found in reader.damage[4:])
        assert report.as_dict()["damage"][4]["ranges"] == 11
        assert report.exit_code == 2
    assert audited.damaged_bytes == sum(found.byte_count for found in reader.damage)
    assert audit_job.damage_row(*audited.damage[4])[3] == "more"


def test_that_a_file_is_missing_is_sent_first() -> None:
    damage = [DamageRange(n, n + 1, "record", "f", "MAGIC", 1, n) for n in range(3000)]
    damage.append(DamageRange(3000, 3001, "missing_file", "f", "file", "present", "deleted"))
    sent = job_source.to_send(damage)
    assert sent[0].kind == "missing_file"
    assert (len(sent), sum(found.range_count for found in sent)) == (1001, 3001)


def test_filters_and_columns(golden: Path, tmp_path: Path) -> None:
    store = golden / "basic" / "store"
    export(store, tmp_path / "a", topics="TopicBasicA", body="none")
    rows = written(tmp_path / "a")
    assert {row[2] for row in rows} == {"TopicBasicA"}
    assert {row[4] for row in rows} == {None}
    with pytest.raises(ValueError, match="columns lack store_timestamp"):
        export(store, tmp_path / "b", columns="topic,body")
    with pytest.raises(ValueError, match="compression 'lzma'"):
        export(store, tmp_path / "b", compression=cast("Any", "lzma"))
    with pytest.raises(ValueError, match="body 'text'"):
        export(store, tmp_path / "b", body=cast("Any", "text"))
    assert not (tmp_path / "b").exists()


def test_a_folder_that_holds_something_is_refused(golden: Path, tmp_path: Path) -> None:
    store, out = golden / "basic" / "store", tmp_path / "out"
    out.mkdir()
    (out / "mine.txt").write_text("x")
    with pytest.raises(TargetNotEmptyError, match=r"has mine\.txt$"):
        export(store, out)
    export(store, out, overwrite=True)
    with pytest.raises(TargetNotEmptyError, match="and 5 more"):
        export(store, out)
    before = written(out)
    report = export(store, out, overwrite=True, topics="TopicBasicA", maxPartitionBytes="1g")
    assert written(out) == [row for row in before if row[2] == "TopicBasicA"]
    assert len(list(out.glob("topic_dir=*"))) == 1
    assert (out / "mine.txt").read_text() == "x"
    assert report.kept_splits == 0
    with pytest.raises(ValueError, match="s3://"):
        export_parquet(NO_SPARK, store, "s3://bucket/x")


def test_one_job_at_a_time(golden: Path, tmp_path: Path) -> None:
    with Folder(tmp_path) as other:
        lock_folder(other)
        with pytest.raises(StoreLockedError):
            export(golden / "basic" / "store", tmp_path)


class Killed(BaseException):
    """Ends the job as a signal does that nobody catches."""


def kill_after(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    """The job dies when so many tasks are done, in the middle of the next task."""

    def run(_spark: Any, _work: Any, tasks: list[ExportTask]) -> list[Any]:
        for task in tasks[:count]:
            export_split(task)
        (Path(tasks[0].job_folder) / "attempt-1").mkdir()
        raise Killed

    monkeypatch.setattr(job_export, "run_tasks", run)


def export_killed(count: int, store: list[str], out: Path, **options: Any) -> None:
    with pytest.MonkeyPatch.context() as patch:
        kill_after(patch, count)
        with pytest.raises(Killed):
            export(store, out, **options)


def test_an_export_goes_on_where_a_killed_one_was(golden: Path, tmp_path: Path) -> None:
    store, out = golden / "basic" / "store", tmp_path / "out"
    export_killed(5, [f"b={store}"], out, **WALKED)
    assert os.listdir(out) == ["_temporary"]
    report = export([f"b={store}"], out, **WALKED)
    assert report.kept_splits == 5
    assert written(out) == messages(store, "b")
    assert (out / "_SUCCESS").exists()


def test_rows_that_are_parquet_are_not_brought_to_the_disk(
    golden: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The wait for the disk before a commit took a third of an export: of ten bytes nine were of rows that the commit removed."""
    store, out = golden / "basic" / "store", tmp_path / "out"
    waiting: list[Path] = []

    def killed(_: Folder) -> None:
        waiting.extend(file for file in (out / "_temporary").rglob("*") if file.is_file())
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(Folder, "sync_file_system", killed)
        with pytest.raises(Killed):
            export([f"b={store}"], out, **WALKED)
    assert {file.suffix for file in waiting} == {".parquet", ".json"}
    report = export([f"b={store}"], out, **WALKED)  # their splits are read again
    assert report.kept_splits == 0
    assert written(out) == messages(store, "b")


def test_what_has_changed_meanwhile_is_written_anew(golden: Path, tmp_path: Path) -> None:
    """Splits of a file that somebody has repaired since, and of the file that was the newest, are not taken over."""
    root = tmp_path / "store"
    store = BuiltStore(root).fill(120)
    store.write()
    files = sorted((root / "commitlog").iterdir())
    out = tmp_path / "out"
    export_killed(len(files) - 1, [f"b={root}"], out)
    os.utime(files[0], ns=(1, 1))
    store.fill(30).write_log()
    os.utime(files[1], ns=(2, 2))
    report = export([f"b={root}"], out)
    assert report.kept_splits <= len(files) - 2
    assert written(out) == messages(root, "b")


def test_a_tail_that_grew_unseen_is_written_anew(tmp_path: Path) -> None:
    """A broker appends by mmap: size and time of the file stay, and the finished split of a killed export has its old name."""
    root, out = tmp_path / "store", tmp_path / "out"
    store = BuiltStore(root).fill(10)
    store.write_log()
    (tail,) = (root / "commitlog").iterdir()
    before = tail.stat()
    export_killed(1, [f"b={root}"], out)
    store.fill(5).write_log()
    os.utime(tail, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert tail.stat().st_size == before.st_size
    assert export([f"b={root}"], out).rows == 15
    assert written(out) == messages(root, "b")


def test_a_rebuild_that_was_killed_in_its_commit_is_not_the_exports_to_finish(
    golden: Path, tmp_path: Path
) -> None:
    """Both kinds of job keep a journal of the same name; an export took a rebuild's for its own and ended with a KeyError."""
    (tmp_path / "_temporary").mkdir()
    journal = tmp_path / "_temporary" / "commit.json"
    journal.write_text('{"job": "1", "part": "index", "entry": {}}')
    with pytest.raises(TargetNotEmptyError, match=r"commit\.json belongs to a job of another kind"):
        export(golden / "basic" / "store", tmp_path)
    assert journal.exists()


def test_another_export_does_not_take_over(golden: Path, tmp_path: Path) -> None:
    store, out = golden / "basic" / "store", tmp_path / "out"
    export_killed(5, [f"b={store}"], out, **WALKED)
    report = export([f"b={store}"], out, topics="TopicBasicB", **WALKED)
    assert report.kept_splits == 0
    assert written(out) == [row for row in messages(store, "b") if row[2] == "TopicBasicB"]


def test_an_attempt_that_lost_gives_what_the_other_wrote(golden: Path, tmp_path: Path) -> None:
    """Speculation runs a task twice."""
    store, out = golden / "basic" / "store", tmp_path / "out"

    def twice(_spark: Any, work: Any, tasks: list[ExportTask]) -> list[Any]:
        first = [work(task) for task in tasks]
        assert [work(task) for task in tasks] == first
        return first

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(job_export, "run_tasks", twice)
        export([f"b={store}"], out, **WALKED)
    assert written(out) == messages(store, "b")


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_commit_that_was_killed_is_brought_to_its_end(tmp_path: Path, overwrite: bool) -> None:
    """The commit is killed at each of its steps; the next export, whatever it exports, first completes it."""
    store = BuiltStore(tmp_path / "store", log_file_size=1024).fill(12).write()
    expected = messages(store, "b")
    step, done, out = 0, False, tmp_path
    while not done:
        out = tmp_path / f"out{overwrite}{step}"
        if overwrite:
            export([f"b={store}"], out, topics="T")
        before = written(out)
        with pytest.MonkeyPatch.context() as patch:
            die_at_step(patch, step)
            try:
                export([f"b={store}"], out, overwrite=overwrite)
                done = True
            except Killed:
                if (out / "_SUCCESS").exists():
                    assert written(out) in (before, expected)
        if not done and (out / "_temporary" / "commit.json").exists():
            with pytest.raises(TargetNotEmptyError, match="it is complete now"):
                export([f"b={store}"], out)  # it first finishes what was begun
            assert written(out) == expected
            assert (out / "_SUCCESS").exists()
        step += 1
    assert written(out) == expected
    assert step > 6


def die_at_step(patch: pytest.MonkeyPatch, step: int) -> None:
    """Kill the commit at its n-th step: each file that it removes, writes or moves is a step."""
    left = step

    def counted(call: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any, **kwargs: Any) -> Any:
            nonlocal left
            left -= 1
            if left < 0:
                raise Killed
            return call(*args, **kwargs)

        return run

    real = export_folder.finish

    def finish(out: Folder) -> bool:
        if out.status("_temporary/commit.json") is None:
            return False
        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(Folder, "move", counted(Folder.move))
            inner.setattr(Folder, "delete", counted(Folder.delete))
            inner.setattr(Folder, "write", counted(Folder.write))
            return real(out)

    patch.setattr(export_folder, "finish", finish)
