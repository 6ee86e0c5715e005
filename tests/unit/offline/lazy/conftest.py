"""What the scans of a store were asked for."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from rmqcore import StoreReader
from rmqcore.offline.log.batch_stream import BatchStream

Asked = list[tuple[set[str], dict[str, Any]]]
OF_EVERY_SCAN = {"verify_crc", "batch_rows", "progress"}


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    """Columns and conditions of each scan."""
    calls: Asked = []
    batches = StoreReader.batches

    def noted(self: StoreReader, columns: Iterable[str], **options: Any) -> BatchStream:
        names = list(columns)
        calls.append((set(names), {k: v for k, v in options.items() if k not in OF_EVERY_SCAN}))
        return batches(self, names, **options)

    monkeypatch.setattr(StoreReader, "batches", noted)
    return calls
