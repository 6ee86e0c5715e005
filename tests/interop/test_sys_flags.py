"""Which records RocketMQ gives a queue entry, for every SYSFLAG."""

from __future__ import annotations

from pathlib import Path

from interop.conftest import OpenJava
from interop.files import contents
from interop.workload import LIGHT
from support.oracle import records as oracle
from support.stores.built_store import BuiltStore


def test_java_looks_at_the_transaction_type_alone(java_open: OpenJava, tmp_path: Path) -> None:
    """INNER_BATCH makes no difference: Java asks the topic, not the record, for the kind of its queue."""
    config = {
        **LIGHT,
        "mappedFileSizeCommitLog": 1 << 20,
    }  # one file: after a crash Java begins with the last
    built = BuiltStore(tmp_path, log_file_size=1 << 20).fill_with_sys_flags()
    built.write_log()
    (tmp_path / "abort").touch()
    with java_open(tmp_path, config) as java:
        java.await_dispatch()
    for (topic, queue_id), entries in built.queues.items():
        assert len(entries) == len(built.records) // 2
        found = b"".join(contents(tmp_path, f"consumequeue/{topic}/{queue_id}").values())
        expected = oracle.pack_cq(list(entries.values()))
        assert found[: len(expected)] == expected
        assert not any(found[len(expected) :])
