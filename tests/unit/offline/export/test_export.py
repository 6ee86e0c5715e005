"""Export: every message once, in the partition of its topic and day, and nothing half done."""

from __future__ import annotations

import csv
import json
from collections import Counter
from pathlib import Path
from urllib.parse import unquote

import pytest
from conftest import StoreCopy
from support.stores.live_log import LiveLog

from rmqcore.errors import TargetNotEmptyError
from rmqcore.offline.export import parquet_parts, part_files
from rmqcore.offline.export.export import ExportFormat, export
from rmqcore.offline.export.message_rows import FIELDS
from rmqcore.offline.export.partitions import partition_folder
from rmqcore.offline.reader import StoreReader

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
ds = pytest.importorskip("pyarrow.dataset")

ODD_TOPICS = [
    "%RETRY%group",
    "a/b",
    "..",
    "x=1",
    "colon:star*",
    "日本",
    "new\nline",
    "back\\slash",
    "quote'\"",
    "#?",
    "T" * 300,
    "T" * 299 + "U",
    "界" * 120,
]


@pytest.fixture
def odd_store(tmp_path: Path) -> Path:
    log = LiveLog(tmp_path / "odd")
    for number in range(3):
        for topic in ODD_TOPICS:
            log.append(topic, f"{number} of {topic}".encode(), tags="TagA" if number else None)
    return log.root


def topics_of(folder: Path) -> Counter[str]:
    """Rows by topic, as a reader of partitioned Parquet sees them."""
    table = ds.dataset(folder, format="parquet", partitioning="hive").to_table()
    return Counter(table.column("topic").to_pylist())


def test_a_golden_store_comes_back_whole(golden: Path, tmp_path: Path) -> None:
    reader = StoreReader(golden / "basic" / "store")
    report = export(reader, tmp_path / "out")
    table = pq.read_table(tmp_path / "out")
    whole = pa.table(reader.batches())
    assert report.rows == table.num_rows == whole.num_rows == 2000
    assert set(table.column_names) == {*FIELDS, "topic_dir", "day"}
    table = table.sort_by("phy_offset")
    for name in FIELDS:
        assert table.column(name).to_pylist() == whole.column(name).to_pylist(), name
    assert set(table.column("day").to_pylist()) == {"2023-11-15"}
    assert report.exit_code == 0


def test_odd_topics_have_folders_that_readers_decode(odd_store: Path, tmp_path: Path) -> None:
    report = export(StoreReader(odd_store), tmp_path / "out")
    assert report.rows == 3 * len(ODD_TOPICS)
    folders = {path.parent.parent.name for path in (tmp_path / "out").rglob("*.parquet")}
    assert len(folders) == len(ODD_TOPICS)
    assert all(len(name.encode()) <= 255 for name in folders)
    short = [topic for topic in ODD_TOPICS if len(topic.encode()) < 200]
    assert {unquote(name.removeprefix("topic_dir=")) for name in folders} >= set(short)
    found = topics_of(tmp_path / "out")
    assert {topic: found[topic] for topic in short} == dict.fromkeys(short, 3)
    whole_names = {
        pq.ParquetFile(path).schema_arrow.metadata[b"topic"].decode()
        for path in (tmp_path / "out").rglob("*.parquet")
    }
    assert whole_names == set(ODD_TOPICS)


@pytest.mark.parametrize("file_format", ["csv", "jsonl"])
def test_text_parts_hold_the_same(
    odd_store: Path, tmp_path: Path, file_format: ExportFormat
) -> None:
    report = export(
        StoreReader(odd_store), tmp_path / "out", file_format=file_format, body="base64"
    )
    rows: list[dict[str, str]] = []
    for path in (tmp_path / "out").rglob(f"part-*.{file_format}"):
        with path.open(newline="", encoding="utf-8") as part:
            found = (
                list(csv.DictReader(part))
                if file_format == "csv"
                else [json.loads(line) for line in part]
            )
        assert {tuple(row) for row in found} == {FIELDS}
        folder = partition_folder(
            found[0]["topic"], int(found[0]["store_timestamp_ms"]) // 86_400_000
        )
        assert path.parent == tmp_path / "out" / folder
        rows += found
    assert Counter(row["topic"] for row in rows) == Counter(ODD_TOPICS * 3)
    assert report.rows == len(rows)
    assert report.files == report.partitions == len(ODD_TOPICS)


def test_small_budgets_change_nothing_but_the_row_groups(
    golden: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Chunks, spills, direct row groups, closed writers and new parts: all of them with a store of 800 KiB."""
    reader = StoreReader(golden / "basic" / "store")
    export(reader, tmp_path / "large")
    sizes = {"CHUNK_BYTES": 60_000, "ROW_GROUP_BYTES": 40_000, "DIRECT_BYTES": 26_000}
    for name, value in {**sizes, "OPEN_WRITERS": 2, "ROW_GROUPS_A_FILE": 3}.items():
        monkeypatch.setattr(parquet_parts, name, value)
    small = parquet_parts.ParquetParts(tmp_path / "small", "snappy")
    for batch in reader.batches(FIELDS, batch_rows=50):
        small.write(pa.record_batch(batch))
    small.close()
    assert len(small.names.places) > 6
    for topic in ("TopicBasicA", "TopicBasicB", "TopicBasicC"):
        large = pq.ParquetFile(
            *(tmp_path / "large" / f"topic_dir={topic}").rglob("*.parquet")
        ).read()
        parts = [
            path for path, place in small.names.places if place.startswith(f"topic_dir={topic}/")
        ]
        assert pa.concat_tables(pq.ParquetFile(path).read() for path in parts).equals(large)
    assert not list((tmp_path / "small" / "spill").iterdir())


def test_small_budgets_of_text(
    golden: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = StoreReader(golden / "basic" / "store")
    export(reader, tmp_path / "large", file_format="csv")
    monkeypatch.setattr(part_files, "PENDING_BYTES", 30_000)
    export(reader, tmp_path / "small", file_format="csv")
    for path in (tmp_path / "large").rglob("*.csv"):
        [other] = (tmp_path / "small" / path.parent.relative_to(tmp_path / "large")).glob("*.csv")
        assert other.read_bytes() == path.read_bytes()


def test_days_are_utc_days_of_the_store_time(tmp_path: Path) -> None:
    log = LiveLog(tmp_path / "store")
    log.count = 50 * 3600 // 2
    for _ in range(4):
        log.append()
        log.count += 12 * 3600
    report = export(StoreReader(log.root), tmp_path / "out", file_format="jsonl")
    days = sorted(path.parent.name for path in (tmp_path / "out").rglob("part-*"))
    assert days == ["day=2023-11-15", "day=2023-11-16", "day=2023-11-17"]
    assert report.rows == 4


@pytest.mark.parametrize("day", [-1, 2_932_897, 2**40])
def test_a_day_that_no_calendar_has(day: int) -> None:
    assert partition_folder("T", day) == "topic_dir=T/day=__HIVE_DEFAULT_PARTITION__"


def test_an_empty_topic_and_the_last_day() -> None:
    folder, day = partition_folder("", 2_932_896).split("/")
    assert folder.startswith("topic_dir=__HIVE_DEFAULT_PARTITION__~")
    assert day == "day=9999-12-31"


def test_long_names_stay_apart_and_whole_characters() -> None:
    names = {
        partition_folder(topic, 0)
        for topic in ("T" * 300, "T" * 301, "%" * 300, "界" * 120, "a" + "界" * 120)
    }
    assert len(names) == 5
    for name in names:
        folder = name.partition("/")[0]
        assert 200 < len(folder.encode()) <= 255
        assert "%2~" not in folder
        assert "%~" not in folder


@pytest.mark.parametrize("file_format", ["parquet", "jsonl"])
def test_damage_is_reported_and_the_rest_exported(
    golden: Path, tmp_path: Path, file_format: ExportFormat
) -> None:
    reader = StoreReader(golden / "crash_flipped" / "input")
    report = export(reader, tmp_path / "all", file_format=file_format)
    assert (report.rows, report.exit_code, report.damaged_bytes) == (580, 2, 442)
    report = export(reader, tmp_path / "sound", file_format=file_format, verify_crc=True)
    assert (report.rows, report.exit_code) == (579, 2)
    assert json.dumps(report.as_dict())


def test_filters_and_no_bodies(golden: Path, tmp_path: Path) -> None:
    reader = StoreReader(golden / "basic" / "store")
    report = export(reader, tmp_path / "out", topics=["TopicBasicB"], tags=["TagA"], body="none")
    table = pq.read_table(tmp_path / "out")
    found = list(reader.messages(topics=["TopicBasicB"], tags=["TagA"]))
    assert report.rows == table.num_rows == len(found) > 0
    assert "body" not in table.column_names


def test_nothing_matches(golden: Path, tmp_path: Path) -> None:
    report = export(StoreReader(golden / "basic" / "store"), tmp_path / "out", topics=["none"])
    assert (report.rows, report.files, report.exit_code) == (0, 0, 0)
    assert not list((tmp_path / "out").iterdir()) if (tmp_path / "out").exists() else True


def test_a_folder_with_something_in_it_is_refused(golden: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "notes.txt").write_text("mine")
    with pytest.raises(TargetNotEmptyError, match=r"notes\.txt"):
        export(StoreReader(golden / "basic" / "store"), tmp_path / "out")
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["notes.txt"]


def test_overwrite_replaces_an_earlier_export_and_leaves_the_rest(
    golden: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    export(StoreReader(golden / "basic" / "store"), out)
    (out / "notes.txt").write_text("mine")
    (out / "topic_dir=TopicBasicA" / "notes.txt").write_text("mine")
    (out / ".rmqcore-export-dead").mkdir()
    report = export(StoreReader(golden / "lmq" / "store"), out, overwrite=True, file_format="jsonl")
    assert not list(out.rglob("*.parquet"))
    assert len(list(out.rglob("*.jsonl"))) == report.files
    assert (
        (out / "notes.txt").read_text()
        == (out / "topic_dir=TopicBasicA" / "notes.txt").read_text()
        == "mine"
    )
    assert not list(out.glob(".rmqcore-export-*"))
    assert not (out / "topic_dir=TopicBasicB").exists()


def test_a_failure_leaves_an_earlier_export_alone(
    golden: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    export(StoreReader(golden / "basic" / "store"), out, file_format="jsonl")
    before = {path: path.read_bytes() for path in out.rglob("part-*")}

    def no_room(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(part_files.TextParts, "close", no_room)
    with pytest.raises(OSError, match="No space"):
        export(StoreReader(golden / "lmq" / "store"), out, file_format="jsonl", overwrite=True)
    assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == before
    with pytest.raises(OSError, match="No space"):
        export(StoreReader(golden / "lmq" / "store"), tmp_path / "new", file_format="jsonl")
    assert not (tmp_path / "new").exists()


def test_the_store_is_not_touched(store_copy: StoreCopy, tmp_path: Path) -> None:
    store = store_copy("basic")
    before = {
        path: (path.stat().st_mtime_ns, path.read_bytes())
        for path in store.rglob("*")
        if path.is_file()
    }
    export(StoreReader(store), tmp_path / "out")
    assert {
        path: (path.stat().st_mtime_ns, path.read_bytes())
        for path in store.rglob("*")
        if path.is_file()
    } == before


def test_parquet_has_no_text_bodies(golden: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="base64"):
        export(StoreReader(golden / "basic" / "store"), tmp_path / "out", body="base64")
    assert not (tmp_path / "out").exists()
