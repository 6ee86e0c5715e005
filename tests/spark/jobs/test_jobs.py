"""Audit, statistics and find on a real session, against `rmqcore.read`."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from support.stores.built_store import BuiltStore

import rmqcore
from rmqcore.codec.message import MessageView
from rmqcore.errors import NotAStoreError, SparkJobError
from rmqcore.spark import audit, find, run_audit, topic_stats
from rmqcore.spark.runtime.failures import job_error
from rmqcore.spark.runtime.tasks import collect, run_tasks, task_frame

pytest.importorskip("pyspark")

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WALKED: dict[str, Any] = {"maxPartitionBytes": 20_000, "splitMode": "walk"}


def damage_of(store: Path) -> tuple[list[MessageView], list[tuple[Any, ...]]]:
    reader = rmqcore.read(store)
    messages = list(reader.messages())
    rows = [
        (
            bad.start_phy_offset,
            bad.end_phy_offset,
            bad.kind,
            bad.path,
            bad.field,
            str(bad.expected),
            str(bad.found),
        )
        for bad in reader.damage
    ]
    return messages, rows


# ---- audit ------------------------------------------------------------------------------------------


def test_audit_of_golden_stores(spark: SparkSession, golden: Path) -> None:
    cases = ["crash_flipped/input", "crash_torn/recovered", "crash_stale_tail/input", "basic/store"]
    paths = {case.replace("/", "-"): golden / case for case in cases}
    found = run_audit(spark, [f"{name}={path}" for name, path in paths.items()], **WALKED)
    expected = {name: damage_of(path) for name, path in paths.items()}
    assert found.records == sum(len(messages) for messages, _ in expected.values())
    assert found.record_bytes == sum(
        message.msg_size for messages, _ in expected.values() for message in messages
    )
    assert [(broker, damage.start_phy_offset) for broker, damage in found.damage] == [
        (name, row[0]) for name, (_, rows) in expected.items() for row in rows
    ]
    assert found.splits > found.files
    assert found.rewalked_files == 0
    assert found.exit_code == 2
    assert found.as_dict()["damage"][0]["broker"] == "crash_flipped-input"


def test_audit_rows_are_the_damage(spark: SparkSession, golden: Path) -> None:
    store = golden / "crash_garbage_tail" / "input"
    rows = [tuple(row) for row in audit(spark, f"b={store}").collect()]
    assert rows == [("b", *row) for row in damage_of(store)[1]]
    assert len(rows) == 1


def test_audit_of_a_sound_store_has_no_row(spark: SparkSession, golden: Path) -> None:
    frame = audit(spark, golden / "basic" / "store")
    assert frame.count() == 0
    assert frame.columns[:3] == ["broker", "start_phy_offset", "end_phy_offset"]


def test_audit_sees_what_lacks_between_files(spark: SparkSession, tmp_path: Path) -> None:
    store = BuiltStore(tmp_path).fill(180)
    store.write_log()
    files = sorted((tmp_path / "commitlog").iterdir())
    files[1].unlink()
    files[3].write_bytes(files[3].read_bytes()[:1000])
    expected = damage_of(tmp_path)[1]
    assert {row[2] for row in expected} >= {"missing_file", "short_file"}
    assert [tuple(row)[1:] for row in audit(spark, tmp_path).collect()] == expected


def test_audit_where_nothing_is(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "commitlog").mkdir()
    assert run_audit(spark, tmp_path).records == 0
    with pytest.raises(FileNotFoundError):
        audit(spark, tmp_path / "nowhere")
    (tmp_path / "empty").mkdir()
    with pytest.raises(NotAStoreError):
        audit(spark, tmp_path / "empty")
    with pytest.raises(ValueError, match="did you mean maxPartitionBytes"):
        audit(spark, tmp_path, maxPartionBytes="1m")


# ---- statistics -------------------------------------------------------------------------------------


def test_statistics_of_two_stores_add_up(spark: SparkSession, golden: Path) -> None:
    paths = {name: golden / name / "store" for name in ("basic", "transaction")}
    given = [f"{name}={path}" for name, path in paths.items()]
    rows = topic_stats(spark, given, **WALKED).collect()
    messages = [message for path in paths.values() for message in rmqcore.read(path).messages()]
    counted = Counter(
        (message.topic, message.store_timestamp_ms // 3_600_000) for message in messages
    )
    assert {(row.topic, int(row.hour.timestamp()) // 3600): row.messages for row in rows} == counted
    assert sum(row.bytes for row in rows) == sum(message.msg_size for message in messages)
    assert topic_stats(spark, given, topics=["none"]).collect() == []


# ---- find -------------------------------------------------------------------------------------------


@pytest.fixture
def two(golden: Path) -> tuple[list[str], list[tuple[str, MessageView]]]:
    paths = {"a": golden / "basic" / "store", "b": golden / "propcrc" / "store"}
    messages = [
        (name, message) for name, path in paths.items() for message in rmqcore.read(path).messages()
    ]
    return [f"{name}={path}" for name, path in paths.items()], messages


Two = tuple[list[str], list[tuple[str, MessageView]]]


def places(rows: list[Any]) -> list[tuple[str, int]]:
    return sorted((row.broker, row.phy_offset) for row in rows)


@pytest.mark.parametrize("use_index", [False, True])
def test_find_by_key(spark: SparkSession, two: Two, use_index: bool) -> None:
    paths, messages = two
    key = next(message.keys[0] for _, message in messages if message.keys)
    rows = find(spark, paths, keys=key, useIndex=use_index, **WALKED).collect()
    wanted = [(name, message.phy_offset) for name, message in messages if key in message.keys]
    assert places(rows) == wanted
    assert len(wanted) > 1


def test_find_with_the_index_sees_all_entries_of_a_chain(
    spark: SparkSession, tmp_path: Path
) -> None:
    """More hits than a query of a broker gives, over several index files."""
    BuiltStore(tmp_path).fill(300).write()
    rows = find(spark, tmp_path, keys="M1", topic="T", useIndex=True).collect()
    wanted = [
        message.phy_offset
        for message in rmqcore.read(tmp_path).messages()
        if "M1" in message.keys and message.topic == "T"
    ]
    assert sorted(row.phy_offset for row in rows) == wanted
    assert len(wanted) > 64


def test_find_by_ids_of_both_kinds(spark: SparkSession, two: Two) -> None:
    paths, messages = two
    first, other = messages[10], messages[-10]
    ids = [first[1].msg_id.lower(), str(other[1].uniq_key), "FF" * 16]
    expected = sorted(
        (name, view.phy_offset)
        for name, view in messages
        if view.msg_id == first[1].msg_id or view.uniq_key == other[1].uniq_key
    )
    rows = []
    for use_index in ("false", "TRUE"):
        rows = find(spark, paths, ids=ids, useIndex=use_index, **WALKED).collect()
        assert places(rows) == expected
    (row,) = [row for row in rows if row.uniq_key == other[1].uniq_key]
    view = other[1]
    assert (row.topic, bytes(row.body), row.properties) == (view.topic, view.body, view.properties)


def test_an_id_is_no_key(spark: SparkSession, tmp_path: Path) -> None:
    """Messages of traces have the ids of other messages as their KEYS: a search for a message by its id found its traces too."""
    store = BuiltStore(tmp_path)
    store.put(properties={"UNIQ_KEY": "AB" * 16, "KEYS": "x"})
    store.put("Trace", properties={"UNIQ_KEY": "CD" * 16, "KEYS": f"{'AB' * 16} y"})
    store.write()
    for use_index in (False, True):
        (row,) = find(spark, tmp_path, ids="AB" * 16, useIndex=use_index).collect()
        assert row.keys == "x"
        assert find(spark, tmp_path, keys="AB" * 16, useIndex=use_index).count() == 2
        both = find(spark, tmp_path, keys="y", ids="AB" * 16, useIndex=use_index).collect()
        assert sorted(row.keys for row in both) == [f"{'AB' * 16} y", "x"]


def test_what_key_and_id_find_is_given_once(spark: SparkSession, two: Two) -> None:
    paths, messages = two
    view = next(message for _, message in messages if message.keys)
    rows = find(spark, paths, keys=view.keys[0], ids=view.msg_id).collect()
    expected = [
        (name, message.phy_offset) for name, message in messages if view.keys[0] in message.keys
    ]
    assert places(rows) == expected


def test_find_with_more_conditions_and_columns(spark: SparkSession, two: Two) -> None:
    paths, messages = two
    view = messages[5][1]
    assert find(spark, paths, ids=view.msg_id, topic="other").count() == 0
    frame = find(spark, paths, ids=view.msg_id, columns=["crc_ok", "topic", "_file"])
    assert frame.columns == ["crc_ok", "topic", "_file"]
    assert {tuple(row) for row in frame.collect()} == {
        (True, view.topic, "commitlog/00000000000000000000")
    }
    with pytest.raises(ValueError, match="keys or ids"):
        find(spark, paths)
    with pytest.raises(ValueError, match="true or false"):
        find(spark, paths, keys="k", useIndex="perhaps")


def test_a_found_record_with_a_wrong_crc_says_so(spark: SparkSession, golden: Path) -> None:
    store = golden / "crash_flipped" / "input"
    reader = rmqcore.read(store)
    messages = list(reader.messages())
    (damage,) = reader.damage
    view = next(message for message in messages if message.phy_offset == damage.start_phy_offset)
    frame = find(spark, store, ids=view.msg_id, columns="crc_ok,corrupt_reason")
    reason = f"BODYCRC is {damage.found}, expected {damage.expected}"
    assert [tuple(row) for row in frame.collect()] == [(False, reason)]


# ---- tasks ------------------------------------------------------------------------------------------


def test_each_payload_is_a_task_and_answers_keep_their_order(spark: SparkSession) -> None:
    import pyarrow as pa

    assert run_tasks(spark, math.factorial, list(range(12))) == list(map(math.factorial, range(12)))
    assert run_tasks(spark, math.factorial, []) == []
    payloads = [[pa.record_batch({"number": pa.array(range(n), pa.int32())})] for n in (3, 0, 2)]
    frame = task_frame(spark, iter, payloads, "number int")
    assert frame.rdd.getNumPartitions() == 3
    assert sorted(row.number for row in frame.collect()) == [0, 0, 1, 1, 2]


def test_an_error_of_a_task_is_told_without_a_traceback(
    spark: SparkSession, golden: Path, tmp_path: Path
) -> None:
    frame = topic_stats(spark, golden / "crash_flipped" / "input", verifyCrc="fail")
    with pytest.raises(SparkJobError, match=r"BODYCRC is \d+, expected \d+$") as caught:
        collect(frame)
    assert caught.value.exit_code == 2


def test_the_error_is_the_last_line_of_a_traceback() -> None:
    assert str(job_error("something odd\nmore")) == "something odd"
    assert str(job_error("Traceback\n  x\nOSError: [Errno 5] bad\n")) == "OSError: [Errno 5] bad"
    found = job_error("x\nrmqcore.errors.SplitError: commitlog/0: cut\n SQLSTATE: 38000")
    assert (str(found), found.exit_code) == ("commitlog/0: cut", 2)
