"""A sync of the whole system for each of some hundred small stores would take longer than all else."""

from __future__ import annotations

import pytest

from rmqcore.disk.inside.folder import Folder
from rmqcore.maintenance.salvage import salvage as salvage_module


@pytest.fixture(autouse=True)
def synced(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Instead of each sync of all that was made: the names of the parts that it would have brought to disk."""
    names: list[list[str]] = []

    def sync(folder: Folder) -> None:
        names.append(folder.names())

    monkeypatch.setattr(salvage_module, "sync_tree", sync)
    return names
