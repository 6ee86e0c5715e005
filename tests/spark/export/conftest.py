"""Tasks of exports in this process, one after the other: no JVM where a test does not ask for one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from rmqcore.spark.jobs import export as export_job


@pytest.fixture
def in_process(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(_spark: Any, work: Callable[[Any], Any], payloads: Sequence[Any]) -> list[Any]:
        return [work(payload) for payload in payloads]

    monkeypatch.setattr(export_job, "run_tasks", run)
