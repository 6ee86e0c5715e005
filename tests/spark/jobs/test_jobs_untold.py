"""Every job over a store in which boundaries do not tell where a split begins gives what one process gives. No JVM."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from support.spark.local_runner import LocalRunner
from support.spark.spark_rows import message_rows
from support.stores.untold_store import CUT, FILE_SIZE, PART, UntoldStore

import rmqcore
from rmqcore.config import MessageStoreConfig
from rmqcore.disk.paths import StorePaths
from rmqcore.maintenance.rebuild.rebuild import rebuild
from rmqcore.spark.jobs import audit as audit_job
from rmqcore.spark.jobs import export as export_job
from rmqcore.spark.jobs.job_source import JobSource
from rmqcore.spark.options.source_options import SourceOptions
from rmqcore.spark.reading.settle import settle
from rmqcore.spark.rebuild.index import build_index
from rmqcore.spark.rebuild.queues import build_queues
from rmqcore.spark.rebuild.source import RebuildSource
from rmqcore.spark.rows.schema import columns_of
from rmqcore.spark.splits.sizing import Sizing
from rmqcore.spark.storage.locations import find_stores
from rmqcore.spark.stream.planning import plan_batch

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

from rmqcore.spark.jobs.find import ScanTask  # noqa: E402 - needs pyarrow
from rmqcore.spark.jobs.topic_stats import finished, split_totals  # noqa: E402
from rmqcore.spark.reading.read_split import read_split  # noqa: E402

NO_SPARK: Any = None
CONFIG = MessageStoreConfig(
    mapped_file_size_consume_queue=400, max_hash_slot_num=50, max_index_num=300
)


@pytest.fixture(autouse=True)
def _in_process(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(_spark: Any, work: Callable[[Any], Any], payloads: Sequence[Any]) -> list[Any]:
        return [work(payload) for payload in payloads]

    monkeypatch.setattr(audit_job, "run_tasks", run)
    monkeypatch.setattr(export_job, "run_tasks", run)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = UntoldStore().write(tmp_path_factory.mktemp("untold") / "b")
    settled = [settle(split) for split in JobSource.open(root, CUT).splits()]
    assert len(settled) > 100
    assert 40 < sum(one.is_skipped for one in settled) < len(settled) - 20
    return root


def test_audit(store: Path) -> None:
    report = audit_job.run_audit(NO_SPARK, store, **CUT)
    reader = rmqcore.read(store)
    views = list(reader.messages())
    assert report.records == len(views)
    assert report.record_bytes == sum(view.msg_size for view in views)
    assert [found for _, found in report.damage] == reader.damage
    assert report.rewalked_files == 0


def test_export(store: Path, tmp_path: Path) -> None:
    options: dict[str, Any] = dict(CUT)
    report = export_job.export_parquet(NO_SPARK, store, tmp_path / "out", **options)
    reader = rmqcore.read(store)
    expected = sorted((view.phy_offset, view.body) for view in reader.messages())
    found = [
        (row["phy_offset"], row["body"])
        for part in (tmp_path / "out").glob("topic_dir=*/day=*/*.parquet")
        for row in pq.ParquetFile(part).read(["phy_offset", "body"]).to_pylist()
    ]
    assert sorted(found) == expected
    assert [found for _, found in report.damage] == reader.damage


def tree(folder: Path) -> dict[str, bytes]:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


@pytest.mark.parametrize("seed", range(2))
def test_rebuilds(store: Path, tmp_path: Path, seed: int) -> None:
    expected = rebuild(StorePaths(store), tmp_path / "one", config=CONFIG)
    for build in (build_queues, build_index):
        source = RebuildSource.open(store, CONFIG, CUT)
        report = build(LocalRunner(seed), source, tmp_path / "many")
        assert (report.records, report.damage) == (expected.records, expected.damage)
    assert tree(tmp_path / "many" / "consumequeue") == tree(tmp_path / "one" / "consumequeue")
    # Index files have the time of their making as names; here, that of their first message.
    many, one = (list(tree(tmp_path / side / "index").values()) for side in ("many", "one"))
    assert many == one


def test_a_replay_of_queues_reads_what_the_first_pass_has_read(store: Path, tmp_path: Path) -> None:
    """Queue offsets that repeat are played back by a second pass, whose splits are pinned."""
    odd = UntoldStore(2)
    root = odd.write(tmp_path / "odd")
    log = root / "commitlog" / f"{0:020}"
    data = bytearray(log.read_bytes())
    view = next(itertools.islice(rmqcore.read(root).messages(), 40, None))
    data[view.phy_offset + 20 : view.phy_offset + 28] = (3).to_bytes(8, "big")
    log.write_bytes(data)
    expected = rebuild(StorePaths(root), tmp_path / "one", index=False, config=CONFIG)
    source = RebuildSource.open(root, CONFIG, CUT)
    report = build_queues(LocalRunner(1), source, tmp_path / "many")
    assert (report.ignored_records, report.filled_entries) != (0, 0)
    assert report.records == expected.records
    assert tree(tmp_path / "many" / "consumequeue") == tree(tmp_path / "one" / "consumequeue")


def test_find(store: Path) -> None:
    source = JobSource.open(store, {**CUT, "columns": "phy_offset,keys"})
    views = list(rmqcore.read(store).messages())
    wanted = {key: view.phy_offset for view in views[::50] for key in view.keys}
    columns = columns_of(source.options)
    found = [
        row["phy_offset"]
        for split in source.splits()
        for batch in ScanTask(
            split, frozenset(wanted), frozenset(), frozenset(), columns, source.options
        ).read()
        for row in batch.to_pylist()
    ]
    assert sorted(found) == sorted(wanted.values())


def test_topic_stats(store: Path) -> None:
    source = JobSource.open(store, CUT)
    partial = [
        batch for split in source.splits() for batch in split_totals((split, source.options))
    ]
    rows = [row for batch in finished(partial) for row in batch.to_pylist()]
    views = list(rmqcore.read(store).messages())
    for row in rows:
        own = [view for view in views if view.topic == row["topic"]]
        assert row["messages"] == len(own)
        assert row["bytes"] == sum(view.msg_size for view in own)
    assert {row["topic"] for row in rows} == {"T0", "T1", "T2"}


def rows_of(root: Path, options: SourceOptions, splits: Sequence[Any]) -> list[int]:
    columns = columns_of(options)
    return [
        row["phy_offset"]
        for split in splits
        for batch in read_split(split, columns, options)
        for row in batch.to_pylist()
    ]


@pytest.mark.parametrize("seed", range(4))
def test_the_data_source_between_two_offsets(store: Path, seed: int) -> None:
    """What lies before and behind is left out of the plan, and with it the tasks that would read on or check."""
    places = [row["phy_offset"] for row in message_rows(store)]
    low = (0, FILE_SIZE // 2 + 99, 5 * PART, FILE_SIZE + PART)[seed]
    high = (FILE_SIZE * 9, FILE_SIZE // 2 + 7 * PART, 3 * FILE_SIZE + 33, FILE_SIZE + 9 * PART)[
        seed
    ]
    given = {**CUT, "columns": "phy_offset", "startingPhyOffset": low, "endingPhyOffset": high}
    source = JobSource.open(store, given)
    splits = source.splits()
    found = rows_of(store, source.options, splits)
    assert found == [at for at in places if low <= at < high]
    assert all(
        settle(split).end in (None, *(s.start for s in splits), *(s.end for s in splits))
        for split in splits
    )


@pytest.mark.parametrize("limit", [1, 7, 90, 800])
def test_batches_of_a_stream(store: Path, limit: int) -> None:
    """A batch ends at a record, also where no boundary before it tells."""
    (location,) = find_stores(str(store))
    options = SourceOptions.parse({**CUT, "columns": "phy_offset"})
    sizing: Sizing = options.sizing()
    views = list(rmqcore.read(store).messages())
    ends = [view.phy_offset + view.msg_size for view in views]
    position, found = 0, []
    for end in [*ends[limit - 1 :: limit], ends[-1]]:
        splits = plan_batch(location, position, end, sizing)
        found += rows_of(store, options, splits)
        reaching = [split for split in splits if split.farthest_end == end]
        assert all(split.must_reach for split in reaching)
        position = end
        if len(found) > 600 and limit < 50:
            break
    assert found == [view.phy_offset for view in views[: len(found)]]
    assert len(found) >= 600
