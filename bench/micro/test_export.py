"""An export as text: what each message costs that is read, made a line of and written."""

from __future__ import annotations

from pathlib import Path

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from bench.micro.conftest import RECORDS
from rmqcore.offline.export.export import export


@pytest.fixture(scope="module")
def log_folder(tmp_path_factory: pytest.TempPathFactory, log: bytes) -> Path:
    """A directory with a CommitLog of `RECORDS` records."""
    root = tmp_path_factory.mktemp("export")
    (root / "commitlog").mkdir()
    (root / "commitlog" / ("0" * 20)).write_bytes(log)
    return root


@pytest.mark.parametrize("file_format", ["jsonl", "csv"])
def test_export(
    benchmark: BenchmarkFixture, log_folder: Path, tmp_path: Path, file_format: str
) -> None:
    report = benchmark(export, log_folder, tmp_path, file_format=file_format, overwrite=True)
    assert report.rows == RECORDS
