"""Names of topics that look like numbers, dates or nothing come back from an export as they are."""

from __future__ import annotations

import csv
import json
from collections import Counter
from pathlib import Path

import pytest
from support.stores.built_store import BuiltStore

from rmqcore.offline.export.export import export
from rmqcore.offline.reader import StoreReader

pa = pytest.importorskip("pyarrow")
ds = pytest.importorskip("pyarrow.dataset")
pq = pytest.importorskip("pyarrow.parquet")

NAMES = [
    *("007", "7", "1e5", "1e400", "2024-01-01", "null", "true", "NaN", "", " "),
    *("__HIVE_DEFAULT_PARTITION__", "%41", "A", "T" * 250),
]


def store_of(root: Path, names: list[str]) -> StoreReader:
    store = BuiltStore(root, log_file_size=1 << 16)
    for number, name in enumerate(names):
        store.put(name.encode(), body=b"%d" % number)
    store.write_log()
    return StoreReader(root)


@pytest.mark.parametrize("names", [NAMES, ["007", "08"], ["null"], [""]], ids=str)
def test_parquet(tmp_path: Path, names: list[str]) -> None:
    out = tmp_path / "out"
    export(store_of(tmp_path / "store", names), out)
    expected = Counter(names)
    assert Counter(pq.read_table(out)["topic"].to_pylist()) == expected
    for partitioning in ("hive", None):
        table = ds.dataset(out, partitioning=partitioning).to_table()
        assert table.schema.field("topic").type == pa.string()
        assert Counter(table["topic"].to_pylist()) == expected


def test_polars_duckdb_and_pandas(tmp_path: Path) -> None:
    polars, duckdb = pytest.importorskip("polars"), pytest.importorskip("duckdb")
    pandas = pytest.importorskip("pandas")
    out = tmp_path / "out"
    export(store_of(tmp_path / "store", ["007", "08", "1e5"]), out)
    expected = ["007", "08", "1e5"]
    assert sorted(polars.read_parquet(out / "**" / "*.parquet")["topic"]) == expected
    assert sorted(pandas.read_parquet(out)["topic"]) == expected
    rows = duckdb.sql(f"select topic from read_parquet('{out}/**/*.parquet')").fetchall()
    assert sorted(topic for (topic,) in rows) == expected


def test_csv_and_json_lines(tmp_path: Path) -> None:
    reader = store_of(tmp_path / "store", NAMES)
    export(reader, tmp_path / "csv", file_format="csv")
    export(reader, tmp_path / "jsonl", file_format="jsonl")
    rows = []
    for path in (tmp_path / "csv").rglob("*.csv"):
        with path.open(newline="") as part:
            rows += [row["topic"] for row in csv.DictReader(part)]
    assert Counter(rows) == Counter(NAMES)
    lines = [
        json.loads(line)["topic"]
        for path in (tmp_path / "jsonl").rglob("*.jsonl")
        for line in path.read_text().splitlines()
    ]
    assert Counter(lines) == Counter(NAMES)


def test_an_export_of_an_earlier_version_is_replaced(tmp_path: Path) -> None:
    out = tmp_path / "out"
    earlier = out / "topic=007" / "day=2023-11-15"
    earlier.mkdir(parents=True)
    (earlier / "part-00000.parquet").write_bytes(b"x")
    export(store_of(tmp_path / "store", ["007"]), out, overwrite=True)
    assert [path.name for path in out.iterdir()] == ["topic_dir=007"]


def test_the_typed_reading_of_csv_in_docs(tmp_path: Path) -> None:
    polars = pytest.importorskip("polars")
    export(store_of(tmp_path / "store", ["007", "1e5"]), tmp_path / "csv", file_format="csv")
    found = polars.read_csv(f"{tmp_path}/csv/**/*.csv", schema_overrides={"topic": polars.String})
    assert sorted(found["topic"]) == ["007", "1e5"]
