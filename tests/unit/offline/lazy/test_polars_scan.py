"""`rmqcore.scan`: what reaches the scan of the store, and what is said of damage and of errors."""

from __future__ import annotations

import gc
import shutil
import sys
import tempfile
import threading
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from support.remote.memory_stores import left_behind, memory_stores

import rmqcore
from rmqcore import DamageWarning, Message, StoreReader
from rmqcore.errors import NotAStoreError
from rmqcore.offline.log.damage import DamageRange

MIDDLE_MS = 1700086700000
MIDDLE = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=MIDDLE_MS)
ENGINES: list[Any] = ["in-memory", "streaming"]
Asked = list[tuple[set[str], dict[str, Any]]]
col = pl.col


@pytest.fixture
def store(golden: Path) -> Path:
    return golden / "basic" / "store"


def test_the_frame_is_that_of_the_reader(store: Path) -> None:
    frame = rmqcore.scan(store)
    assert isinstance(frame, pl.LazyFrame)
    whole = rmqcore.read(store).to_polars()
    assert frame.collect_schema() == whole.schema
    for engine in ENGINES:
        assert frame.collect(engine=engine).equals(whole)
    columns = ["raw", "store_timestamp", "store_timestamp_ms"]
    found = rmqcore.scan(str(store), columns).collect()
    assert found.equals(rmqcore.read(store).to_polars(columns))


@pytest.mark.parametrize("engine", ENGINES)
def test_only_columns_that_are_needed_are_built(store: Path, asked: Asked, engine: Any) -> None:
    rmqcore.scan(store).select("store_timestamp", "topic").collect(engine=engine)
    rmqcore.scan(store).filter(col("msg_size") > 1000).select("tags").collect(engine=engine)
    rmqcore.scan(store).select(pl.len()).collect(engine=engine)
    assert [set(names) for names, _ in asked[:2]] == [
        {"store_timestamp_ms", "topic"},
        {"msg_size", "tags"},
    ]
    assert len(asked[2][0]) == 1


# For is_in Polars 1 widens a column of small numbers, which is not followed, and refuses times of another unit.
MAY_ASK_IS_IN = pytest.mark.skipif(pl.__version__.startswith("1."), reason="is_in of Polars 1")
NARROWED: list[Any] = [
    (col("topic") == "TopicBasicA", {"topics": {"TopicBasicA"}}),
    (pl.lit("TopicBasicA") == col("topic"), {"topics": {"TopicBasicA"}}),
    (col("topic").eq_missing("TopicBasicA"), {"topics": {"TopicBasicA"}}),
    (col("topic").is_in(["TopicBasicA", "x", None]), {"topics": {"TopicBasicA", "x"}}),
    (col("tags") == "TagA", {"tags": {"TagA"}}),
    (col("uniq_key") == "43372F2426E9E094A911CBF9E2D1263C", {"keys": {"43372F2426E9E094A911CBF9E2D1263C"}}),
    (col("keys").list.contains("hot9"), {"keys": {"hot9"}}),
    (col("queue_id") == 1, {"queue_ids": {1}}),
    pytest.param(col("queue_id").is_in([1, 3]), {"queue_ids": {1, 3}}, marks=MAY_ASK_IS_IN),
    (col("phy_offset") > 811, {"start_phy_offset": 811}),
    (811 > col("phy_offset"), {"end_phy_offset": 812}),
    (col("phy_offset").is_between(811, 2000), {"start_phy_offset": 811, "end_phy_offset": 2001}),
    (col("phy_offset").is_in([811, 2000]), {"start_phy_offset": 811, "end_phy_offset": 2001}),
    (col("store_timestamp") >= MIDDLE, {"since_ms": MIDDLE_MS}),
    (col("store_timestamp") < MIDDLE, {"until_ms": MIDDLE_MS + 1}),
    (col("store_timestamp") == MIDDLE, {"since_ms": MIDDLE_MS, "until_ms": MIDDLE_MS + 1}),
    pytest.param(
        col("store_timestamp").is_in([MIDDLE]),
        {"since_ms": MIDDLE_MS, "until_ms": MIDDLE_MS + 1},
        marks=MAY_ASK_IS_IN,
    ),
    (
        col("store_timestamp").is_between(MIDDLE - timedelta(seconds=1), MIDDLE, closed="none"),
        {"since_ms": MIDDLE_MS - 1000, "until_ms": MIDDLE_MS + 1},
    ),
    (
        col("store_timestamp") >= MIDDLE.astimezone(timezone(timedelta(hours=8))),
        {"since_ms": MIDDLE_MS},
    ),
    (
        (col("topic") == "TopicBasicA") & (col("queue_id") == 1) & (col("msg_size") > 300),
        {"topics": {"TopicBasicA"}, "queue_ids": {1}},
    ),
    (
        (col("topic") == "TopicBasicA") | (col("topic") == "TopicBasicB"),
        {"topics": {"TopicBasicA", "TopicBasicB"}},
    ),
    (
        ((col("topic") == "TopicBasicA") & (col("queue_id") == 1)) | (col("topic") == "TopicBasicB"),
        {"topics": {"TopicBasicA", "TopicBasicB"}},
    ),
    # Unknown forms, and what the scan cannot decide.
    ((col("topic") == "TopicBasicA") | (col("tags") == "TagA"), {}),
    (~(col("topic") == "TopicBasicA"), {}),
    (col("topic") != "TopicBasicA", {}),
    (col("topic").str.starts_with("TopicBasicA"), {}),
    (col("topic").str.to_lowercase() == "topicbasica", {}),
    (col("topic") == "", {}),
    (col("topic") == col("tags"), {}),
    (col("queue_id") + 1 == 2, {}),
    (col("queue_id") > 1, {}),
    (col("born_timestamp") > MIDDLE, {}),
    (pl.when(col("queue_id") == 1).then(True).otherwise(False), {}),
    ((col("topic") == "TopicBasicA") ^ (col("queue_id") == 1), {}),
]  # fmt: skip


@pytest.mark.parametrize(
    ("predicate", "expected"), NARROWED, ids=[str(i) for i in range(len(NARROWED))]
)
def test_conditions_reach_the_scan(
    store: Path, asked: Asked, predicate: pl.Expr, expected: dict[str, Any]
) -> None:
    whole = rmqcore.read(store).to_polars()
    asked.clear()
    for engine in ENGINES:
        found = rmqcore.scan(store).filter(predicate).collect(engine=engine)
        assert found.equals(whole.filter(predicate))
        assert asked.pop()[1] == expected


def test_unknown_predicates_that_are_deep_narrow_nothing(store: Path) -> None:
    predicate = col("queue_id") == 0
    for number in range(1, 300):
        predicate = predicate | (col("queue_id") == number)
    assert rmqcore.scan(store).filter(predicate).select(pl.len()).collect().item() == 2000


def test_the_first_rows_are_those_of_the_frame_whatever_is_tested_behind(store: Path) -> None:
    """Polars hands over the number of rows and the predicate behind it: a scan that tested first would count others."""
    whole = rmqcore.read(store).to_polars()
    chosen = col("topic") == "TopicBasicB"
    for engine in ENGINES:
        found = rmqcore.scan(store).head(20).filter(chosen).collect(engine=engine)
        assert found.equals(whole.head(20).filter(chosen))
        found = rmqcore.scan(store).filter(chosen).head(20).collect(engine=engine)
        assert found.equals(whole.filter(chosen).head(20))
        assert rmqcore.scan(store).head(0).collect(engine=engine).shape == (0, 22)


def test_head_ends_the_scan(store_copy: Any) -> None:
    """The end of the log is not read for its beginning: damage there is not met."""
    store = store_copy("crash_flipped", "input")
    found: list[DamageRange] = []
    assert rmqcore.scan(store, on_damage=found.extend).head(20).collect().height == 20
    assert found == []
    assert rmqcore.scan(store, on_damage=found.extend).collect().height == 580
    assert [one.kind for one in found] == ["crc"]


def test_a_frame_that_is_used_twice_is_read_once(store: Path, asked: Asked) -> None:
    frame = rmqcore.scan(store).select("phy_offset", "topic")
    both = frame.join(frame, on="phy_offset").collect()
    assert both.height == 2000
    assert len(asked) == 1


def test_a_frame_reads_the_store_as_it_is_then(tmp_path: Path) -> None:
    with rmqcore.open(tmp_path / "store", mapped_file_size_commit_log=1 << 16) as store:
        store.put(Message("T", b"1"))
        frame = rmqcore.scan(tmp_path / "store").select(pl.len())
        assert frame.collect().item() == 1
        store.put(Message("T", b"2"))
        assert frame.collect().item() == 2


def test_many_threads_collect_at_once(store: Path) -> None:
    frame = rmqcore.scan(store)
    found: list[int] = []

    def collect(topic: str) -> None:
        found.append(frame.filter(col("topic") == topic).collect().height)

    threads = [
        threading.Thread(target=collect, args=(f"TopicBasic{letter}",)) for letter in "ABCABC"
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == [658, 658, 668, 668, 674, 674]


def test_conditions_for_every_query(store: Path, asked: Asked) -> None:
    frame = rmqcore.scan(
        store, ["topic", "keys"], keys=["hot9"], topics=["TopicBasicA", "TopicBasicB"]
    )
    views = list(rmqcore.read(store).messages(keys=["hot9"], topics=["TopicBasicA"]))
    assert frame.filter(col("topic") == "TopicBasicA").collect().height == len(views) > 0
    assert asked[0][1] == {"keys": {"hot9"}, "topics": {"TopicBasicA"}}
    # Another key beside: one set is tested by the scan, the other by Polars.
    both = frame.filter(col("keys").list.contains("key-0-0")).collect()
    assert both.height == 1
    with pytest.raises(TypeError, match="unexpected keyword argument 'topic'"):
        rmqcore.scan(store, topic=["TopicBasicA"])  # type: ignore[call-arg]


def test_a_reader_in_the_place_of_a_path(golden: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "log"
    shutil.copytree(golden / "basic" / "store" / "commitlog", elsewhere)
    (tmp_path / "store").mkdir()
    reader = rmqcore.read(tmp_path / "store", commitlog=elsewhere)
    assert rmqcore.scan(reader).select(pl.len()).collect().item() == 2000


def test_a_store_behind_a_url(
    golden: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))  # other processes have theirs elsewhere
    with memory_stores() as stores:
        url = stores.put(golden / "delay" / "store")
        frame = rmqcore.scan(url).select(pl.len())
        messages = len(list(rmqcore.read(golden / "delay" / "store").messages()))
        assert frame.collect().item() == messages
        assert rmqcore.scan(rmqcore.read(url)).select(pl.len()).collect().item() == messages
        gc.collect()
        assert left_behind() == []
        # The frame lists the store anew.
        stores.clear()
        stores.put(golden / "basic" / "store")
        assert frame.collect().item() == 2000


def test_a_path_is_absolute_from_the_start(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(store.parent)
    frame = rmqcore.scan("store").select(pl.len())
    monkeypatch.chdir("/")
    assert frame.collect().item() == 2000


def test_damage_is_a_warning(golden: Path) -> None:
    store = golden / "crash_flipped" / "input"
    frame = rmqcore.scan(store).select(pl.len())
    with pytest.warns(DamageWarning) as caught:
        assert frame.collect().item() == 580
    (warning,) = caught
    assert str(warning.message).startswith(
        f"{store} has a damaged range (442 bytes) where a query has read it; it is "
        "commitlog/00000000000000196608@204236: crc"
    )
    assert f"`rmqcore fsck {store}`" in str(warning.message)


def test_damage_can_be_taken_or_left(golden: Path) -> None:
    store = golden / "crash_flipped" / "input"
    found: list[list[DamageRange]] = []
    frame = rmqcore.scan(store, on_damage=lambda ranges: found.append(list(ranges)))
    assert frame.select(pl.len()).collect().item() == 580
    assert frame.select(pl.len()).collect().item() == 580
    assert [[one.kind for one in ranges] for ranges in found] == [["crc"], ["crc"]]
    sound = rmqcore.scan(store, on_damage=lambda ranges: None, verify_crc=True)
    assert sound.select(pl.len()).collect().item() == 579


def test_errors_of_the_store(tmp_path: Path, golden: Path) -> None:
    with pytest.raises(FileNotFoundError):
        rmqcore.scan(tmp_path / "nothing")
    with pytest.raises(NotAStoreError):
        rmqcore.scan(tmp_path)
    with pytest.raises(ValueError, match="unknown column 'stored'"):
        rmqcore.scan(golden / "basic" / "store", ["stored"])


@pytest.mark.parametrize(
    ("wanted", "told"),
    [
        ({"topic": ["a"]}, r"unexpected keyword argument 'topic' \(did you mean 'topics'\?\); known are columns, .* topics, "),
        ({"column": ["a"]}, r"unexpected keyword argument 'column' \(did you mean 'columns'\?\); known are "),
        ({"zzz": 1}, "unexpected keyword argument 'zzz'; known are "),
        ({"topics": [1]}, "topics: expected an iterable of str or None, got int"),
        ({"queue_ids": ["0"]}, "queue_ids: expected int, an iterable of int or None, got str"),
    ],
)  # fmt: skip
def test_wrong_conditions(golden: Path, wanted: dict[str, Any], told: str) -> None:
    """For `topic=` the error named a function of the inside, "Conditions.of()", and not the word that was meant."""
    with pytest.raises(TypeError, match=f"^{told}"):
        rmqcore.scan(golden / "basic" / "store", **wanted)


def test_an_error_in_the_middle_of_a_query(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: StoreReader, columns: Iterable[str], **options: Any) -> Iterator[Any]:
        raise OSError("the disk is gone")

    frame = rmqcore.scan(store)
    monkeypatch.setattr(StoreReader, "batches", broken)
    for engine in ENGINES:
        with pytest.raises((OSError, pl.exceptions.ComputeError), match="the disk is gone"):
            frame.collect(engine=engine)


def test_without_polars(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(ModuleNotFoundError) as caught:
        rmqcore.scan(store)
    assert str(caught.value) == (
        "scan needs polars, which is not installed: pip install 'rmqcore[polars]'"
    )


def test_an_old_polars_is_told(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It handed over a predicate that ended the query with a panic (`sort().head()`)."""
    monkeypatch.setattr(pl, "__version__", "1.43.2")
    with pytest.raises(
        ImportError, match=r"needs Polars 1\.44 or newer, and this is 1\.43\.2: pip install"
    ):
        rmqcore.scan(store)


@pytest.mark.parametrize("engine", ENGINES)
def test_the_largest_rows(store: Path, engine: Any) -> None:
    """Polars narrows a top-k while it runs, by a predicate that no source can evaluate: it must not reach this one."""
    frame = rmqcore.scan(store).filter(col("queue_id") == 1)
    found = (
        frame.sort("msg_size", descending=True).head(3).select("msg_size").collect(engine=engine)
    )
    whole = rmqcore.read(store).to_polars(queue_ids=[1])
    assert found["msg_size"].to_list() == whole["msg_size"].top_k(3).to_list()
