"""`rmqcore.duckdb_view`: what of a query reaches the scan of the store, and what is said of damage and of errors."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import pytest
from support.stores.odd_records import odd_records, write_odd_store

import rmqcore
from rmqcore import DamageWarning, Message, StoreReader
from rmqcore.errors import NotAStoreError
from rmqcore.offline.log.batch_stream import BatchStream
from rmqcore.offline.log.damage import DamageRange

Asked = list[tuple[set[str], dict[str, Any]]]
Rows = Callable[[str], list[tuple[Any, ...]]]


@pytest.fixture
def store(golden: Path) -> Path:
    return golden / "basic" / "store"


@pytest.fixture
def rows(store: Path) -> Rows:
    """Answers of the view ``store``, which must be those of a whole table."""
    connection = duckdb.connect()
    rmqcore.duckdb_view(connection, "store", store)
    connection.register("whole", rmqcore.read(store).to_arrow())

    def ask(query: str) -> list[tuple[Any, ...]]:
        found = connection.sql(query).fetchall()
        assert found == connection.sql(query.replace("from store", "from whole")).fetchall()
        return found

    return ask


def test_types(rows: Rows) -> None:
    described = {name: kind for name, kind, *_ in rows("describe select * from store")}
    assert described["store_timestamp"] == "TIMESTAMP WITH TIME ZONE"
    assert described["body"] == "BLOB"
    assert described["properties"] == "MAP(VARCHAR, VARCHAR)"
    assert described["keys"] == "VARCHAR[]"
    (first,) = rows("select min(store_timestamp) from store")[0]
    assert first.astimezone(UTC) == datetime(2023, 11, 15, 22, 13, 20, 18000, tzinfo=UTC)


def test_the_relation_is_the_view(store: Path) -> None:
    connection = duckdb.connect()
    relation = rmqcore.duckdb_view(
        connection, "store", store, ["topic", "raw", "store_timestamp_ms"]
    )
    assert relation.columns == ["topic", "raw", "store_timestamp_ms"]
    assert relation.aggregate("count(*)").fetchall() == [(2000,)]
    assert relation.filter("topic = 'TopicBasicA'").aggregate("count(*)").fetchall() == [(658,)]


def test_the_module_has_a_connection(store: Path) -> None:
    relation = rmqcore.duckdb_view(duckdb, "store_of_a_test", store)
    assert relation.aggregate("count(*)").fetchall() == [(2000,)]
    assert duckdb.execute("select count(*) from store_of_a_test").fetchall() == [(2000,)]
    duckdb.unregister("store_of_a_test")


def test_a_name_is_taken_over(store: Path, golden: Path) -> None:
    connection = duckdb.connect()
    rmqcore.duckdb_view(connection, "store", golden / "delay" / "store")
    rmqcore.duckdb_view(connection, "store", store)
    assert connection.sql("select count(*) from store").fetchall() == [(2000,)]


def test_only_columns_that_are_needed_are_built(rows: Rows, asked: Asked) -> None:
    rows("select topic, max(store_timestamp) from store group by topic order by topic")
    rows("select tags from store where msg_size > 1000 order by phy_offset")
    rows("select count(*) from store")
    assert asked[0][0] == {"topic", "store_timestamp_ms"}
    assert asked[1][0] == {"tags", "msg_size", "phy_offset"}
    assert len(asked[2][0]) == 1


NARROWED: list[tuple[str, dict[str, Any]]] = [
    ("topic = 'TopicBasicA'", {"topics": {"TopicBasicA"}}),
    ("topic in ('TopicBasicA', 'x')", {"topics": {"TopicBasicA", "x"}}),
    ("topic = 'TopicBasicA' and msg_size > 300", {"topics": {"TopicBasicA"}}),
    ("tags = 'TagA'", {"tags": {"TagA"}}),
    ("uniq_key = '43372F2426E9E094A911CBF9E2D1263C'", {"keys": {"43372F2426E9E094A911CBF9E2D1263C"}}),
    ("queue_id = 1", {"queue_ids": {1}}),
    ("queue_id in (1, 3)", {"queue_ids": {1, 3}}),
    ("phy_offset = 811", {"start_phy_offset": 811, "end_phy_offset": 812}),
    ("phy_offset > 811", {"start_phy_offset": 811}),
    ("phy_offset between 811 and 2000", {"start_phy_offset": 811, "end_phy_offset": 2001}),
    ("store_timestamp >= timestamptz '2023-11-15 22:18:20+00'", {"since_ms": 1700086700000}),
    ("store_timestamp < timestamptz '2023-11-15 22:18:20+00'", {"until_ms": 1700086700001}),
    ("topic <> 'TopicBasicA'", {}),
    ("tags is null", {}),
    ("tags is not null", {}),
    ("topic = 'TopicBasicA' or tags = 'TagA'", {}),
    ("topic like '%A'", {}),
    ("queue_id > 1", {}),
    ("born_timestamp > timestamptz '2023-11-15 22:18:20+00'", {}),
    ("store_timestamp is null", {}),
    ("list_contains(keys, 'hot9')", {}),
]  # fmt: skip


@pytest.mark.parametrize(("condition", "expected"), NARROWED, ids=[one for one, _ in NARROWED])
def test_conditions_reach_the_scan(
    rows: Rows, asked: Asked, condition: str, expected: dict[str, Any]
) -> None:
    rows(f"select phy_offset, topic from store where {condition} order by phy_offset")
    ((_, conditions),) = asked
    assert conditions == expected


def test_limit_ends_the_scan(golden: Path) -> None:
    found: list[DamageRange] = []
    connection = duckdb.connect()
    store = golden / "crash_flipped" / "input"
    rmqcore.duckdb_view(connection, "store", store, on_damage=found.extend)
    connection.sql("set threads = 1")
    assert len(connection.sql("select phy_offset from store limit 5").fetchall()) == 5
    assert connection.sql("select count(*) from store").fetchall() == [(580,)]
    assert {one.kind for one in found} == {"crc"}


def test_a_store_that_is_joined_with_itself(rows: Rows) -> None:
    found = rows(
        "select a.topic, count(*) from store a join store b using (phy_offset) where b.queue_id = 1 group by 1 order by 1"
    )
    assert sum(count for _, count in found) == 486


def test_a_query_reads_the_store_as_it_is_then(tmp_path: Path) -> None:
    with rmqcore.open(tmp_path / "store", mapped_file_size_commit_log=1 << 16) as store:
        store.put(Message("T", b"1"))
        connection = duckdb.connect()
        relation = rmqcore.duckdb_view(connection, "store", tmp_path / "store")
        assert connection.sql("select count(*) from store").fetchall() == [(1,)]
        store.put(Message("T", b"2"))
        assert connection.sql("select count(*) from store").fetchall() == [(2,)]
        assert relation.aggregate("count(*)").fetchall() == [(2,)]


def test_times_that_no_calendar_has(tmp_path: Path) -> None:
    """One damaged record ended every query with a conversion error."""
    connection = duckdb.connect()
    store = write_odd_store(tmp_path)
    rmqcore.duckdb_view(connection, "store", store)
    ((count, shown),) = connection.sql(
        "select count(*), count(store_timestamp) from store"
    ).fetchall()
    assert count == 40 + len(odd_records()) > shown
    hidden = connection.sql("select count(*) from store where store_timestamp is null").fetchall()
    assert hidden == [(count - shown,)]


def test_many_threads_ask_at_once(store: Path) -> None:
    connection = duckdb.connect()
    rmqcore.duckdb_view(connection, "store", store)
    found: list[int] = []

    def ask(topic: str) -> None:
        cursor = connection.cursor()
        rmqcore.duckdb_view(cursor, f"v{topic}", store)
        answer = cursor.execute(
            f"select count(*) from v{topic} where topic = 'TopicBasic{topic[0]}'"
        )
        found.extend(count for (count,) in answer.fetchall())

    threads = [threading.Thread(target=ask, args=(name,)) for name in ("A1", "B1", "C1", "A2")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == [658, 658, 668, 674]


def test_conditions_for_every_query(store: Path, asked: Asked) -> None:
    connection = duckdb.connect()
    rmqcore.duckdb_view(connection, "store", store, keys=["hot9"])
    views = list(rmqcore.read(store).messages(keys=["hot9"], topics=["TopicBasicA"]))
    query = "select phy_offset from store where topic = 'TopicBasicA' order by 1"
    assert connection.sql(query).fetchall() == [(view.phy_offset,) for view in views]
    assert asked[0][1] == {"keys": {"hot9"}, "topics": {"TopicBasicA"}}


def test_damage_is_a_warning(golden: Path) -> None:
    connection = duckdb.connect()
    store = golden / "crash_flipped" / "input"
    rmqcore.duckdb_view(connection, "store", store)
    with pytest.warns(DamageWarning, match=r"has a damaged range \(442 bytes\)"):
        assert connection.sql("select count(*) from store").fetchall() == [(580,)]
    rmqcore.duckdb_view(connection, "sound", store, verify_crc=True, on_damage=lambda ranges: None)
    assert connection.sql("select count(*) from sound").fetchall() == [(579,)]


TOPIC = r"^unexpected keyword argument 'topic' \(did you mean 'topics'\?\); known are columns, .*, topics, queue_ids, "


def test_errors(tmp_path: Path, store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    connection = duckdb.connect()
    with pytest.raises(NotAStoreError):
        rmqcore.duckdb_view(connection, "store", tmp_path)
    with pytest.raises(ValueError, match="unknown column 'stored'"):
        rmqcore.duckdb_view(connection, "store", store, ["stored"])
    with pytest.raises(TypeError, match=TOPIC):
        rmqcore.duckdb_view(connection, "store", store, topic=["T"])  # type: ignore[call-arg]
    rmqcore.duckdb_view(connection, "store", store)

    def broken(self: StoreReader, columns: Iterable[str], **options: Any) -> BatchStream:
        raise OSError("the disk is gone")

    monkeypatch.setattr(StoreReader, "batches", broken)
    with pytest.raises(Exception, match="the disk is gone"):
        connection.sql("select count(*) from store").fetchall()


def test_without_pyarrow(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ModuleNotFoundError) as caught:
        rmqcore.duckdb_view(duckdb.connect(), "store", store)
    assert str(caught.value) == (
        "duckdb_view needs pyarrow, which is not installed: pip install 'rmqcore[duckdb]'"
    )
