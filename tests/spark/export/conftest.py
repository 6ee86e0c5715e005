"""Tasks of exports in this process, one after the other: no JVM where a test does not ask for one."""

from __future__ import annotations

import pytest
from support.spark.table_rows import run_here


@pytest.fixture
def in_process(monkeypatch: pytest.MonkeyPatch) -> None:
    run_here(monkeypatch)
