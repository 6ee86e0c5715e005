"""Two stores compared in tasks: the same answer as `rmqcore.offline.diff`, however the logs are cut. No JVM."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest
from support.stores.built_store import BuiltStore, patch

from rmqcore.offline.diff.diff import KINDS, diff
from rmqcore.spark.jobs import compare as job_compare
from rmqcore.spark.jobs.compare import run_compare

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NO_SPARK = cast("SparkSession", None)


@pytest.fixture(autouse=True)
def in_process(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(_spark: Any, work: Callable[[Any], Any], payloads: Sequence[Any]) -> list[Any]:
        return [work(payload) for payload in payloads]

    monkeypatch.setattr(job_compare, "run_tasks", run)


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Path, Path]:
    """A store, and a copy that lacks its first file and has other bytes in some records."""
    store = BuiltStore(tmp_path / "left").fill(90)
    store.write_log()
    right = Path(shutil.copytree(tmp_path / "left", tmp_path / "right"))
    for number in (40, 55, 70, 85):
        patch(*BuiltStore(right).log_file(store.records[number].phy_offset + 90), b"?!")
    min((right / "commitlog").iterdir()).unlink()
    return tmp_path / "left", right


@pytest.mark.parametrize("most_bytes", [None, 300, 30_000])
def test_tasks_answer_as_one_program_does(pair: tuple[Path, Path], most_bytes: int | None) -> None:
    options = {} if most_bytes is None else {"maxPartitionBytes": most_bytes}
    for left, right in (pair, pair[::-1]):
        report, local = run_compare(NO_SPARK, left, right, **options), diff(left, right)
        assert len(report.differences) > 3
        assert [
            (one.start_phy_offset, one.end_phy_offset, KINDS.get(one.kind, one.kind))
            for one in report.differences
        ] == [(one.start_phy_offset, one.end_phy_offset, one.kind) for one in local.differences]
        assert report.compared_bytes == local.compared_bytes
        assert report.exit_code == local.exit_code == 2
    assert run_compare(NO_SPARK, pair[0], pair[0], **options).exit_code == 0


def test_one_store_each(tmp_path: Path, pair: tuple[Path, Path]) -> None:
    with pytest.raises(ValueError, match=r"matches 2 stores \(left, right\)"):
        run_compare(NO_SPARK, tmp_path / "*", pair[1])
    with pytest.raises(FileNotFoundError):
        run_compare(NO_SPARK, pair[1], tmp_path / "nowhere")
