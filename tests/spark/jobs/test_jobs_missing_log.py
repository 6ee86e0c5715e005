"""A store whose log lacks what its queues know: plans, tables and jobs report it. No JVM."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

import rmqcore
from rmqcore import Message
from rmqcore.errors import DataLossError
from rmqcore.offline.missing_log import LOG_MISSING
from rmqcore.spark.jobs import audit as audit_job
from rmqcore.spark.jobs.job_source import JobSource
from rmqcore.spark.options.source_options import SourceOptions
from rmqcore.spark.rows.schema import columns_of

pa = pytest.importorskip("pyarrow")

from rmqcore.spark.tables.corrupt import CorruptRead  # noqa: E402 - needs pyarrow
from rmqcore.spark.tables.messages import MessagesRead  # noqa: E402


@pytest.fixture(params=[0, 2])
def lacking(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, int, int]:
    """A store with the first files of its log only: its root, where the log ends, and where it ended."""
    root = tmp_path / "broker"
    with rmqcore.open(root, mapped_file_size_commit_log=16 << 10) as store:
        for n in range(120):
            store.put(Message("T", b"x" * 300, queue_id=n % 2)).raise_for_status()
        store.wait_dispatched()
        end = store.max_phy_offset
    for path in sorted((root / "commitlog").iterdir())[request.param :]:
        path.unlink()
    views = list(rmqcore.read(root).messages())
    # Its last file is full, and ends with a BLANK.
    files = [int(path.name) + path.stat().st_size for path in (root / "commitlog").glob("0*")]
    return root, max(files) if views else 0, end


def test_plans_and_the_audit_report_it(
    lacking: tuple[Path, int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(_spark: Any, work: Callable[[Any], Any], payloads: Sequence[Any]) -> list[Any]:
        return [work(payload) for payload in payloads]

    monkeypatch.setattr(audit_job, "run_tasks", run)
    root, log_end, end = lacking
    (plan,) = JobSource.open(root, {}).plans()
    (found,) = plan.gaps
    assert (found.kind, found.start_phy_offset, found.end_phy_offset) == (LOG_MISSING, log_end, end)
    spark: Any = None
    report = audit_job.run_audit(spark, root)
    assert [one.kind for _, one in report.damage] == [LOG_MISSING]
    assert report.exit_code == 2


def test_the_tables_report_it(lacking: tuple[Path, int, int]) -> None:
    root, log_end, end = lacking
    options = SourceOptions.parse({"table": "corrupt", "path": str(root)})
    table = CorruptRead(options, columns_of(options))
    rows = [
        row
        for part in table.planned_parts()
        for batch in table.read(part)
        for row in batch.to_pylist()
    ]
    assert [(row["kind"], row["start_phy_offset"], row["end_phy_offset"]) for row in rows] == [
        (LOG_MISSING, log_end, end)
    ]
    options = SourceOptions.parse({"path": str(root)})
    with pytest.raises(DataLossError, match="names a message at"):
        MessagesRead(options, columns_of(options)).planned_parts()
    options = SourceOptions.parse({"path": str(root), "failOnDataLoss": "false"})
    with pytest.warns(UserWarning, match="no rows of CommitLog offsets"):
        MessagesRead(options, columns_of(options)).planned_parts()
    options = SourceOptions.parse({"path": str(root), "endingPhyOffset": str(min(log_end, 1000))})
    MessagesRead(options, columns_of(options)).planned_parts()
