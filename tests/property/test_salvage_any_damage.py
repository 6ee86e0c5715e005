"""A salvage of a store with any bytes changed ends with an error, or with a store in which fsck finds nothing wrong."""

from __future__ import annotations

import faulthandler
import json
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from support.stores.store_damage import Change, changes
from support.stores.store_maker import MadeStore, make_store, sample_records

from rmqcore.errors import StoreError
from rmqcore.maintenance.salvage import salvage as salvage_module
from rmqcore.maintenance.salvage.salvage import salvage
from rmqcore.offline.fsck import fsck
from rmqcore.offline.fsck.findings import INFO

STORES = [
    make_store(sample_records(45)),
    make_store(sample_records(30), append_prop_crc=True),
    make_store(sample_records(3), log_file_size=1 << 15),
]


@pytest.fixture(autouse=True)
def _no_sync(monkeypatch: pytest.MonkeyPatch) -> None:
    """One of the whole system for each example took most of the time."""
    monkeypatch.setattr(salvage_module, "sync_tree", lambda folder: None)


@pytest.fixture(autouse=True)
def _no_hang() -> Iterator[None]:
    faulthandler.dump_traceback_later(300, exit=True)
    yield
    faulthandler.cancel_dump_traceback_later()


# Of a log whose first file was lost nothing was saved: queue entries of the lost file were kept as expired, beside no log at all.
@example(number=2, damage=[Change("rename", 1, 0, 3, b"")])
@given(number=st.integers(0, len(STORES) - 1), damage=st.lists(changes, max_size=4))
def test_what_comes_of_it_is_sound(number: int, damage: list[Change]) -> None:
    files = dict(STORES[number].files)
    for change in damage:
        change.apply(files)
    folder = Path(tempfile.mkdtemp(prefix="rmqcore-"))
    try:
        root = MadeStore(files).write(folder / "store")
        root.mkdir(exist_ok=True)
        try:
            report = salvage(root, folder / "out")
        except StoreError:
            assert not (folder / "out").exists()
            return
        assert json.loads(json.dumps(report.as_dict()))["messages"] == report.messages
        found = fsck(folder / "out")
        assert [one for one in found.findings if one.severity != INFO] == []
    finally:
        shutil.rmtree(folder)
