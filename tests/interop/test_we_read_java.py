"""What Java wrote, opened by us: by the engine, and by the offline reader, which takes no lock and writes nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from interop.conftest import OpenJava
from interop.files import check_same_files, copy_store
from interop.questions import as_java, check_same_answers
from interop.workload import CONFIGS, Workload, ours
from interop.writers import put_java

import rmqcore

PUTS = 500


@pytest.mark.parametrize("name", CONFIGS)
def test_the_reader_sees_what_java_sees(name: str, java_open: OpenJava, tmp_path: Path) -> None:
    config = CONFIGS[name]
    with java_open(tmp_path, config) as java:
        put_java(java, Workload(4, config).take(PUTS))
        java.flush()
        records, offsets = java.records(), java.offsets()
        live = [as_java(view) for view in rmqcore.read(tmp_path).messages()]
    reader = rmqcore.read(tmp_path)
    messages = [record for record in records if record["kind"] == "MESSAGE"]
    assert live == messages
    assert [as_java(view) for view in reader.messages()] == messages
    assert reader.damage == []
    queues = {(q.topic, q.queue_id): (q.min_offset, q.max_offset) for q in reader.queues()}
    assert queues == {
        (q["topic"], q["queue_id"]): (q["min_offset"], q["max_offset"]) for q in offsets["queues"]
    }


@pytest.mark.parametrize("services", [pytest.param(False, marks=pytest.mark.smoke), True])
@pytest.mark.parametrize("name", CONFIGS)
def test_we_answer_as_java_does(
    name: str, services: bool, java_open: OpenJava, tmp_path: Path
) -> None:
    config = CONFIGS[name]
    root = tmp_path / "java"
    with java_open(root, config) as java:
        put_java(java, Workload(5, config).take(PUTS))
    copy = copy_store(root, tmp_path / "ours")
    with (
        java_open(root, config) as java,
        rmqcore.open(copy, services=services, **ours(config)) as store,
    ):
        assert store.recovery.cut_bytes == 0
        check_same_answers(java, store)
    check_same_files(copy, root)
