"""A run over a store whose log a recovery has cut, and left old bytes behind the new end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.spark.table_rows import grow, rows_of
from support.stores.left_bytes import recover_and_leave_bytes

import rmqcore
from rmqcore import Message
from rmqcore.engine.store.store import MessageStore
from rmqcore.errors import WatermarkError

pytest.importorskip("pyarrow")
pytestmark = pytest.mark.usefixtures("in_process")


@pytest.mark.parametrize("topic", ["T", "New"])
def test_a_log_that_a_recovery_cut_and_left_its_old_bytes(tmp_path: Path, topic: str) -> None:
    """The bytes before the watermark are still those that were exported; the queues show that the log ends before."""
    root, out = tmp_path / "store", tmp_path / "out"
    settings: dict[str, Any] = {
        "mapped_file_size_commit_log": 1 << 20,
        "mapped_file_size_consume_queue": 6000,
        "max_hash_slot_num": 1000,
        "max_index_num": 20_000,
        "services": False,
    }

    def put(store: MessageStore, topic: str, first: int, end: int) -> None:
        messages = [Message(topic, b"%08d" % number + b"x" * 100) for number in range(first, end)]
        store.put_many(messages).raise_for_status()
        while store.dispatch_once():
            pass

    with rmqcore.open(root, **settings) as store:
        put(store, "T", 0, 3000)
    grow(f"b={root}", out)
    with rmqcore.read(root) as reader:
        cut = [message.phy_offset for message in reader.messages()][2000]
    recover_and_leave_bytes(root, cut, lambda store: put(store, topic, 9000, 9300), **settings)
    before = rows_of(out)
    with pytest.raises(
        WatermarkError, match=r"the queues end at .*the log was cut since the last run"
    ):
        grow(f"b={root}", out)
    assert rows_of(out) == before
    assert grow(f"b={root}", out, overwrite=True).rows
