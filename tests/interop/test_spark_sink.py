"""Stores that Spark's tasks wrote: RocketMQ opens each, and a broker serves one as its own."""

from __future__ import annotations

import base64
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from interop.broker import Broker
from interop.client_manners import consume, create_topic
from interop.conftest import OpenJava
from interop.files import check_same_files, copy_store
from interop.java_build import SHORT_LIFE
from interop.java_process import JavaProcess
from interop.questions import check_same_answers
from interop.workload import PLAIN, SIZES, Workload, ours
from interop.writers import Clock, put_ours

import rmqcore
from rmqcore import Message
from rmqcore.offline.fsck import fsck

pa = pytest.importorskip("pyarrow")
pytest.importorskip("pyspark")
from support.places import ROOT  # noqa: E402
from support.spark.sink_writes import SinkWrite  # noqa: E402

SIZE_OPTIONS: dict[str, Any] = {name: str(size) for name, size in SIZES.items()}
TOPIC = "InteropTopic"


def test_java_answers_for_each_store_as_we_do(java_open: OpenJava, tmp_path: Path) -> None:
    """Messages of every kind that a store holds, read as columns and divided among two tasks."""
    source, clock = tmp_path / "source", Clock()
    with rmqcore.open(source, services=False, clock=clock, **ours(PLAIN)) as store:
        put_ours(store, clock, Workload(5, PLAIN).take(300))
    with rmqcore.read(source) as reader:
        columns = [
            "topic", "queue_id", "body", "properties", "flag", "sys_flag", "reconsume_times", "born_timestamp_ms", "born_host",
            "store_host", "prepared_transaction_offset",
        ]  # fmt: skip
        rows = pa.Table.from_batches(map(pa.record_batch, reader.batches(columns)))
        expected = [as_written(message) for message in reader.messages()]
    rows = rows.rename_columns(
        [name.replace("_timestamp_ms", "_timestamp") for name in rows.column_names]
    )
    schema = pa.schema([(field.name, plain(field.type)) for field in rows.schema])
    rows = rows.cast(schema)
    sink = SinkWrite(tmp_path / "out", rows.schema, **SIZE_OPTIONS)
    sink.commit([sink.task(rows[:170]), sink.task(rows[170:])])
    found = []
    for part in sorted((tmp_path / "out").glob("part-*")):
        assert [finding for finding in fsck(part).findings if finding.severity == "error"] == []
        copy = copy_store(part, tmp_path / "java" / part.name)
        with (
            java_open(copy, PLAIN) as java,
            rmqcore.open(part, services=False, **ours(PLAIN)) as store,
        ):
            assert store.recovery.clean_exit
            assert java.verify()["bad"] == []
            check_same_answers(java, store)
        check_same_files(part, copy)
        found += [as_written(message) for message in rmqcore.read(part).messages()]
    assert found == expected
    assert len(found) >= 300


def plain(kind: Any) -> Any:
    """The type that Spark would hand over."""
    if pa.types.is_map(kind):
        return pa.map_(pa.string(), pa.string())
    if pa.types.is_binary(kind) or str(kind) in ("large_binary", "binary_view"):
        return pa.binary()
    return kind if pa.types.is_integer(kind) else pa.string()


def as_written(message: rmqcore.MessageView) -> tuple[object, ...]:
    return (
        message.topic, message.queue_id, bytes(message.body), dict(message.properties), message.flag, message.sys_flag,
        message.reconsume_times, message.born_timestamp_ms, message.born_host, message.store_host,
        message.prepared_transaction_offset,
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.long
def test_a_topic_goes_to_a_new_broker(java: JavaProcess, tmp_path: Path) -> None:
    """The example: a topic's export becomes the store of a broker that has never seen it."""
    count = 200
    with rmqcore.open(tmp_path / "old", services=False) as store:
        messages = [
            Message(TOPIC, f"body {n} é".encode(), n % 4, "TagA", [f"K{n}"], properties={"UNIQ_KEY": f"U{n}"})
            for n in range(count)
        ]  # fmt: skip
        store.put_many(messages).raise_for_status()
        store.put_many([Message("Other", b"x")] * 10).raise_for_status()
    command = [
        sys.executable,
        str(ROOT / "examples" / "replay_topic.py"),
        str(tmp_path / "old"),
        TOPIC,
        str(tmp_path / "replay"),
    ]
    env = {**os.environ, "JDK_JAVA_OPTIONS": " ".join(SHORT_LIFE)}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=env)
    told, where = done.stdout.splitlines()[-2:]
    assert told == f"{count} messages of {TOPIC}"

    broker = Broker(tmp_path / "broker", {})  # the sizes of files are Java's defaults
    broker.folder.mkdir()
    Path(where).rename(broker.store)
    with broker.running() as server:
        create_topic(java, broker.name_server, broker.address, TOPIC)
        got = consume(java, broker.name_server, TOPIC, count)
        consumed = {m["uniq_key"]: m for m in got}
        assert len(consumed) == count
        for n in range(count):
            m = consumed[f"U{n}"]
            assert base64.b64decode(m["body"]).decode() == f"body {n} é"
            assert (m["queue_id"], m["queue_offset"], m["keys"]) == (n % 4, n // 4, f"K{n}")
        # The broker goes on with the store.
        sent = java.call("send", nameServer=broker.name_server, topic=TOPIC, count=10)
        assert {s["status"] for s in sent} == {"SEND_OK"}
        assert min(s["queue_offset"] for s in sent if s["kind"] == "plain") >= count // 4
        server.stop()
    assert [finding for finding in fsck(broker.store).findings if finding.severity == "error"] == []
