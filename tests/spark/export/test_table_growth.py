"""A table that grows with a log has each record once, whatever the runs' boundaries are."""

from __future__ import annotations

import random
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.doses import examples
from support.spark.table_rows import Row, grow, in_order, rows_in, rows_of, run_here
from support.stores.live_log import LiveLog

from rmqcore.spark.lake.compact import compact
from rmqcore.spark.lake.manifest import table_files

pq = pytest.importorskip("pyarrow.parquet")

NO_SPARK = None
QUIET = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
STEPS = st.lists(
    st.tuples(st.just("append"), st.integers(1, 40))
    | st.tuples(st.just("half"), st.integers(1, 150))
    | st.tuples(st.just("run"), st.integers(0, 30))
    | st.tuples(st.just("bytes"), st.integers(1, 9000))
    | st.tuples(st.just("compact"), st.just(0)),
    min_size=3,
    max_size=14,
)


class Writer:
    """A log that grows by whole and by half records."""

    def __init__(self, root: Path, seed: int) -> None:
        self.log = LiveLog(root)
        self._random = random.Random(seed)
        self._raw = b""

    def append(self, count: int) -> None:
        self._end_half()
        for _ in range(count):
            topic = self._random.choice(["Orders", "a/b", "T" * 120, "007"])
            self.log.append(topic, self._random.randbytes(self._random.randrange(120)))

    def half(self, byte_count: int) -> None:
        """The first bytes of a record: a broker is in the middle of it."""
        self._end_half()
        self._raw = self.log.record("Orders", b"half", properties={"KEYS": "k"})
        self.log.write(self.log.end, self._raw[:byte_count])

    def _end_half(self) -> None:
        if self._raw:
            self.log.write(self.log.end, self._raw)
            self.log.finish(self._raw)
            self._raw = b""


def whole(out: Path) -> Any:
    """All columns of all rows, in the order of a table of one topic."""
    pa = pytest.importorskip("pyarrow")
    return pa.concat_tables(
        [pq.ParquetFile(path).read() for path in in_order(table_files(out))]
    ).combine_chunks()


def check(out: Path, root: Path, end: int, format: str = "parquet") -> None:
    found = rows_of(out, format)
    assert sorted(found) == rows_in(root, end=end)
    if format == "parquet":
        by_topic: dict[str, list[Row]] = defaultdict(list)
        for row in found:
            by_topic[row[2]].append(row)
        assert all(rows == sorted(rows) for rows in by_topic.values())
        listed = sorted(str(path) for path in out.glob("topic_dir=*/day=*/*"))
        assert listed == sorted(table_files(out))


@pytest.mark.slow
@settings(examples(0.25), suppress_health_check=QUIET)
@given(steps=STEPS, seed=st.integers(0, 9))
def test_any_runs_add_up_to_what_a_read_gives(
    steps: list[tuple[str, int]], seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(seed)
    run_here(monkeypatch, lambda: rng.choice([1, 1, 2]))
    with tempfile.TemporaryDirectory() as folder:
        root, out = Path(folder) / "store", Path(folder) / "out"
        writer = Writer(root, seed)
        writer.append(1)
        end = grow(f"b={root}", out).watermarks["b"]
        for kind, number in steps:
            if kind == "append":
                writer.append(number)
            elif kind == "half":
                writer.half(number)
            elif kind == "compact":
                compact(NO_SPARK, out, target_file_bytes=1 << 16)  # type: ignore[arg-type]
            else:
                limit = {"maxRecordsPerTrigger": number or None} if kind == "run" else {"maxBytesPerTrigger": number}  # fmt: skip
                options = {
                    "maxPartitionBytes": rng.choice([700, 3000, 1 << 20]),
                    "splitMode": "walk",
                }
                report = grow(f"b={root}", out, **limit, **options)
                assert report.watermarks["b"] >= end
                end = report.watermarks["b"]
            check(out, root, end)
        writer.append(1)
        report = grow(f"b={root}", out)
        check(out, root, writer.log.end)
        assert report.watermarks["b"] == writer.log.end
        assert grow(f"b={root}", out).rows == 0


@pytest.mark.parametrize("format", ["delta", "iceberg"])
def test_tables_of_other_formats_add_up_too(format: str, tmp_path: Path, in_process: None) -> None:
    pytest.importorskip("deltalake" if format == "delta" else "pyiceberg")
    root, out = tmp_path / "store", tmp_path / ("a # é" if format == "delta" else "a %2F é") / "out"
    writer = Writer(root, 3)
    for number in range(6):
        writer.append(number * 5)
        writer.half(60)
        report = grow(f"b={root}", out, format=format, maxRecordsPerTrigger=9 if number == 3 else None)  # fmt: skip
        check(out, root, report.watermarks["b"], format)
    writer.append(1)
    grow(f"b={root}", out, format=format)
    check(out, root, writer.log.end, format)
    assert grow(f"b={root}", out, format=format).rows == 0
    report = grow(f"b={root}", out, format=format, overwrite=True)
    assert report.rows == writer.log.count
    check(out, root, writer.log.end, format)


def test_a_delta_table_in_a_folder_that_deltalake_cannot_name(
    tmp_path: Path, in_process: None
) -> None:
    """The table's log went to the folder a/b, and its files to a%2Fb."""
    pytest.importorskip("deltalake")
    Writer(tmp_path / "store", 1).append(1)
    with pytest.raises(ValueError, match="two hex digits"):
        grow(f"b={tmp_path / 'store'}", tmp_path / "a%2Fb", format="delta")


def test_what_is_half_written_waits_and_is_reported(tmp_path: Path, in_process: None) -> None:
    writer, out = Writer(tmp_path / "store", 1), tmp_path / "out"
    writer.append(3)
    writer.half(50)
    report = grow(f"b={tmp_path / 'store'}", out)
    assert (report.rows, report.unfinished) == (3, ["b"])
    writer.append(2)
    report = grow(f"b={tmp_path / 'store'}", out)
    assert (report.rows, report.unfinished) == (3, [])


def test_a_store_that_comes_later_and_one_that_is_not_given(
    tmp_path: Path, in_process: None
) -> None:
    out = tmp_path / "out"
    writers = {name: Writer(tmp_path / name, seed) for seed, name in enumerate("abc")}
    paths = [f"{name}={tmp_path / name}" for name in "abc"]
    writers["a"].append(5)
    writers["b"].append(4)
    assert grow(paths[:2], out).rows == 9
    writers["a"].append(1)
    writers["c"].append(7)
    report = grow([paths[0], paths[2]], out)
    assert (report.rows, report.not_given) == (8, ["b"])
    writers["b"].append(2)
    assert grow(paths, out).rows == 2
    expected = sorted(row for name in "abc" for row in rows_in(tmp_path / name, name))
    assert sorted(rows_of(out)) == expected


def test_a_store_on_another_filesystem(tmp_path: Path, in_process: None) -> None:
    fsspec = pytest.importorskip("fsspec")
    log, disk = LiveLog(tmp_path / "store"), fsspec.filesystem("memory")
    for _ in range(3):
        for _ in range(20):
            log.append()
        for file in (tmp_path / "store" / "commitlog").iterdir():
            disk.pipe(f"/grown/commitlog/{file.name}", file.read_bytes())
        report = grow("b=memory://grown", tmp_path / "out", **{"storage.filesystem": "fsspec"})
        assert (report.rows, report.watermarks) == (20, {"b": log.end})
    assert rows_of(tmp_path / "out") == rows_in(tmp_path / "store")
    disk.rm("/grown", recursive=True)


def test_a_store_without_files_is_a_table_without_rows(tmp_path: Path, in_process: None) -> None:
    (tmp_path / "store" / "commitlog").mkdir(parents=True)
    report = grow(f"b={tmp_path / 'store'}", tmp_path / "out")
    assert (report.rows, report.watermarks) == (0, {})
    assert rows_of(tmp_path / "out") == []
    writer = Writer(tmp_path / "store", 1)
    writer.append(2)
    assert grow(f"b={tmp_path / 'store'}", tmp_path / "out").rows == 2


def test_compaction_leaves_large_files_alone_and_keeps_the_order(
    tmp_path: Path, in_process: None
) -> None:
    log, out = LiveLog(tmp_path / "store", file_size=1 << 20), tmp_path / "out"
    rng = random.Random(1)
    for size in (100, 100, 60_000, 100, 100, 100):
        for _ in range(3):
            log.append("Orders", rng.randbytes(size))
        grow(f"b={tmp_path / 'store'}", out)
    before = in_order(table_files(out))
    rows = whole(out)
    report = compact(NO_SPARK, out, target_file_bytes=1 << 17)  # type: ignore[arg-type]
    assert (report.rewritten, report.written, report.files_after) == (5, 2, 3)
    after = in_order(table_files(out))
    assert after[1] == before[2]
    assert whole(out).equals(rows, check_metadata=True)
    check(out, tmp_path / "store", log.end)
    again = compact(NO_SPARK, out, target_file_bytes=1 << 17)  # type: ignore[arg-type]
    assert (again.rewritten, again.files_after) == (0, 3)
    assert in_order(table_files(out)) == after
    log.append()
    assert grow(f"b={tmp_path / 'store'}", out).rows == 1
    check(out, tmp_path / "store", log.end)


def test_a_compaction_to_larger_bytes_makes_more_files_than_there_were(
    tmp_path: Path, in_process: None
) -> None:
    """Names of new files were those of the old ones, in pairs: what came out of zstd as more files than went in had no names."""
    log, out = LiveLog(tmp_path / "store", file_size=1 << 22), tmp_path / "out"
    for _ in range(2):
        log.append("Orders", bytes(600_000))
        log.append("Orders", bytes(600_000))
        grow(f"b={tmp_path / 'store'}", out)
    report = compact(NO_SPARK, out, target_file_bytes=1 << 16, compression="none")  # type: ignore[arg-type]
    assert report.rewritten == 2
    assert report.written > 2
    check(out, tmp_path / "store", log.end)
