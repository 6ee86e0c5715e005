"""`stats` beside a loop over messages: golden stores, made ones, filters, damage, and names that are too many."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.doses import examples
from support.oracle import records as oracle
from support.oracle import stats as slow
from support.oracle.strategies import int64
from support.stores.golden_stores import CLEAN, CRASHED
from support.stores.store_maker import START_MS, make_store, sample_records

from rmqcore.errors import LinkError, NotAStoreError
from rmqcore.offline.reader import StoreReader
from rmqcore.offline.stats import (
    StatsReport,
    count,
    groups,
    pair_counts,
    stats,
    tag_counts,
    timeline,
)
from rmqcore.offline.stats.report import GroupStats

BYS: list[tuple[str, ...]] = [(), ("hour",), ("queue",), ("hour", "queue")]


def compare(root: Path, by: tuple[str, ...] = (), **conditions: Any) -> StatsReport:
    """Check all that is told of the messages against a loop."""
    reader = StoreReader(root)
    views = list(reader.messages(**conditions))
    report = stats(root, by=by, **conditions)
    assert report.damage == reader.damage
    assert report.exit_code == (2 if reader.damage else 0)
    expected = slow.grouped(views, by)
    found = {(one.topic, one.hour_ms, one.queue_id): one for one in report.groups}
    assert set(found) == set(expected)
    assert len(found) == len(report.groups)
    size = sum(view.msg_size for view in views)
    for key, one in found.items():
        slow.check(one, expected[key], size)  # type: ignore[index]
    if not views:
        assert (report.total, report.timeline, report.largest) == (None, [], [])
        return report
    check_total(report, views)
    assert sum(bucket.messages for bucket in report.timeline) == len(views)
    assert sum(bucket.bytes for bucket in report.timeline) == size
    assert len(report.timeline) <= 240
    largest = sorted(views, key=lambda view: (-view.msg_size, view.phy_offset))[:10]
    assert [one.phy_offset for one in report.largest] == [view.phy_offset for view in largest]
    newest = views[:-11:-1]
    assert [
        (one.topic, one.queue_id, one.queue_offset, one.phy_offset, one.msg_size, one.tags, one.keys)
        for one in report.newest
    ] == [
        (view.topic, view.queue_id, view.queue_offset, view.phy_offset, view.msg_size, view.tags, tuple(view.keys))
        for view in newest
    ]  # fmt: skip
    json.dumps(report.as_dict())
    return report


def check_total(report: StatsReport, views: list[Any]) -> None:
    total = report.total
    assert total is not None
    exact = slow.expected(views)
    assert {name: getattr(total, name) for name in exact if "tags" not in name} == {
        name: value for name, value in exact.items() if "tags" not in name
    }
    assert (total.topic, total.share) == (None, 1.0)


@pytest.mark.parametrize("case", CLEAN)
@pytest.mark.parametrize("by", BYS, ids="-".join)
def test_golden_stores(golden: Path, case: str, by: tuple[str, ...]) -> None:
    report = compare(golden / case / "store", by)
    assert report.by == ("topic", *by)
    assert not report.more_groups


@pytest.mark.parametrize("case", CRASHED)
def test_damaged_golden_stores(golden: Path, case: str) -> None:
    compare(golden / case / "input", ("queue",))


RECORDS = st.lists(
    st.builds(
        oracle.Record,
        st.sampled_from([b"A", b"B", b"%RETRY%G", b"\xff", b"\xfe"]) | st.binary(min_size=1, max_size=4),
        st.binary(max_size=40),
        st.sampled_from([b"", b"TAGS\x01Aa\x02", b"TAGS\x01BB\x02", b"KEYS\x01a b\x02TAGS\x01\xff\x02", b"TAGS\x01\xfe"]),
        queue_id=st.sampled_from([0, 1, -1, 2**31 - 1]),
        born_timestamp_ms=st.just(START_MS) | int64,
        store_timestamp_ms=st.integers(START_MS, START_MS + 10**7) | int64,
    ),
    max_size=30,
)  # fmt: skip


def write_log(root: Path, records: list[oracle.Record]) -> Path:
    """A log alone: topics may be no names of directories."""
    made = make_store(records)
    made.files = {name: data for name, data in made.files.items() if name.startswith("commitlog/")}
    (root / "commitlog").mkdir()
    return made.write(root)


@examples(0.6)
@given(records=RECORDS, by=st.sampled_from(BYS), rows=st.sampled_from([1, 3, 1 << 16]))
def test_made_stores(
    tmp_path_factory: pytest.TempPathFactory,
    records: list[oracle.Record],
    by: tuple[str, ...],
    rows: int,
) -> None:
    """Batches of any size, timestamps of damage, names that are no UTF-8 and then the same, hashes that are the same."""
    root = write_log(tmp_path_factory.mktemp("store"), records)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(count, "BATCH_ROWS", rows)
        patch.setattr(count, "NAME_ROOM", 100 * rows)
        patch.setattr(pair_counts, "MOST_WAITING", 3 * rows)
        patch.setattr(timeline, "MOST_BUCKETS", 8)
        compare(root, by)


@pytest.mark.parametrize(
    "conditions",
    [
        {"topics": ["TopicA"]},
        {"queue_ids": [1]},
        {"tags": ["Tag1"]},
        {"keys": ["k3"]},
        {"since_ms": START_MS + 7000, "until_ms": START_MS + 30_000},
        {"start_phy_offset": 5000, "end_phy_offset": 20_000},
        {"topics": ["nothing"]},
    ],
    ids=str,
)
def test_filters(tmp_path: Path, conditions: dict[str, Any]) -> None:
    compare(make_store(sample_records(90)).write(tmp_path), ("hour", "queue"), **conditions)


def test_damage_is_told(tmp_path: Path) -> None:
    root = make_store(sample_records(60)).write(tmp_path)
    path = root / "commitlog" / f"{0:020}"
    data = bytearray(path.read_bytes())
    data[900:950] = b"\xff" * 50
    path.write_bytes(data)
    report = compare(root)
    assert report.exit_code == 2
    assert report.total is not None
    assert report.total.messages < 60


def test_a_log_alone_and_an_empty_store(tmp_path: Path) -> None:
    store = make_store(sample_records(20))
    store.write(tmp_path / "store")
    assert compare(tmp_path / "store" / "commitlog").path == str(tmp_path / "store" / "commitlog")
    (tmp_path / "empty" / "commitlog").mkdir(parents=True)
    assert compare(tmp_path / "empty").groups == []


def test_what_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotAStoreError):
        stats(tmp_path)
    with pytest.raises(FileNotFoundError):
        stats(tmp_path / "nothing")
    with pytest.raises(ValueError, match=r"by \['tag'\]: expected hour or queue"):
        stats(tmp_path, by=["tag"])
    (tmp_path / "commitlog").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(LinkError):
        stats(tmp_path)


def test_by_may_be_one_word(tmp_path: Path) -> None:
    root = make_store(sample_records(9)).write(tmp_path)
    assert stats(root, by="queue").by == ("topic", "queue")


# ---- bounds -----------------------------------------------------------------------------------------


def of_topics(root: Path, number: int) -> Path:
    return make_store(
        [
            oracle.Record(b"T%d" % (i % number), b"x" * i, b"TAGS\x01t%d\x02" % i, store_timestamp_ms=START_MS + i)
            for i in range(60)
        ]
    ).write(root)  # fmt: skip


def others_of(report: StatsReport) -> GroupStats:
    assert report.more_groups
    assert report.groups[-1].topic is None
    assert all(one.topic is not None for one in report.groups[:-1])
    return report.groups[-1]


@pytest.mark.parametrize("by", BYS, ids="-".join)
def test_groups_that_there_is_no_memory_for_are_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by: tuple[str, ...]
) -> None:
    monkeypatch.setattr(groups, "MOST_GROUPS", 5)
    report = stats(of_topics(tmp_path, 20), by=by)
    others = others_of(report)
    assert len(report.groups) == 6
    assert others.messages == 45
    assert sum(one.messages for one in report.groups) == 60
    assert sum(one.bytes for one in report.groups) == report.total.bytes  # type: ignore[union-attr]
    assert others.first_store_timestamp_ms == START_MS + 5
    assert (others.hour_ms, others.queue_id) == (None, None)


def test_long_names_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(groups, "MOST_NAME_BYTES", 7)
    report = stats(of_topics(tmp_path, 20))
    assert sorted(one.topic or "" for one in report.groups) == ["", "T0", "T1", "T2"]
    assert others_of(report).messages == 51


@pytest.mark.parametrize(("name", "most"), [("MAX_TAGS", 4), ("MOST_TAGS", 4), ("MOST_BYTES", 8)])
def test_tags_are_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, most: int
) -> None:
    monkeypatch.setattr(tag_counts, name, most)
    (one,) = stats(of_topics(tmp_path, 1)).groups
    assert (one.messages, one.distinct_tags, one.all_tags_counted) == (60, 4, False)
    assert [tag.messages for tag in one.top_tags] == [1] * 4


def test_histograms_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pair_counts, "MOST_PAIRS", 10)
    report = stats(of_topics(tmp_path, 20))
    assert {one.msg_size_p50 for one in report.groups} == {None}
    assert report.total is not None
    assert report.total.msg_size_p50 is not None
    assert max(one.msg_size_max for one in report.groups) == report.total.msg_size_max
