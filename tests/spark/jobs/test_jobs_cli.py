"""``rmqcore spark VERB`` with a session that runs already: what it prints and answers."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from support.stores.built_store import BuiltStore
from support.stores.live_log import LiveLog

import rmqcore
from rmqcore.cli import main
from rmqcore.disk.paths import StorePaths
from rmqcore.maintenance.rebuild.rebuild import rebuild

pytest.importorskip("typer")
pytest.importorskip("pyspark")

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def run(spark: SparkSession, capfdbinary: pytest.CaptureFixture[bytes]) -> Any:
    def call(*words: object) -> tuple[int, Any, str]:
        code = main(["spark", *map(str, words), "--no-progress"])
        out, err = capfdbinary.readouterr()
        return code, json.loads(out) if out else None, err.decode()

    return call


def test_audit(run: Any, golden: Path) -> None:
    store = golden / "crash_flipped" / "input"
    code, found, err = run("audit", store)
    reader = rmqcore.read(store)
    messages = list(reader.messages())
    assert (code, found["records"]) == (2, len(messages))
    assert found["damage"] == [{"broker": "input", **damage.as_dict()} for damage in reader.damage]
    assert "damaged: 204236..204678" in err


def test_statistics_and_find(run: Any, golden: Path) -> None:
    store = golden / "basic" / "store"
    messages = list(rmqcore.read(store).messages())
    code, found, _ = run("topic-stats", store)
    assert code == 0
    assert sum(row["messages"] for row in found["topics"]) == len(messages)
    assert {row["hour"] for row in found["topics"]} == {
        datetime.fromtimestamp(message.store_timestamp_ms // 3_600_000 * 3600, UTC).isoformat(
            timespec="milliseconds"
        )
        for message in messages
    }
    view = messages[7]
    code, found, _ = run("find", f"b={store}", "--id", view.msg_id, "--body", "none")
    (row,) = found["messages"]
    assert (code, row["broker"], row["uniq_key"], row["body"]) == (0, "b", view.uniq_key, None)
    code, found, _ = run("find", store, "--key", "no such key", "--use-index")
    assert (code, found) == (0, {"messages": []})


def test_a_time_that_no_calendar_has(run: Any, tmp_path: Path) -> None:
    """One message stored in the year 10000 ended both verbs with "year 10000 is out of range": PySpark has no such time."""
    store = BuiltStore(tmp_path).fill(3)
    store.write_log()
    year_10000 = 253_402_300_800_000
    # Behind the place of STORETIMESTAMP in a record with IPv4 hosts there is no checksum over it.
    store.change_log(store.records[1].phy_offset + 56, year_10000.to_bytes(8, "big"))
    code, found, _ = run("find", tmp_path, "--key", "K1")
    assert (code, [row["store_timestamp"] for row in found["messages"]]) == (0, [year_10000])
    code, found, _ = run("topic-stats", tmp_path)
    assert code == 0
    assert {row["hour"] for row in found["topics"]} >= {year_10000, "2023-11-14T22:00:00.000+00:00"}


def test_compare(run: Any, golden: Path) -> None:
    left, right = golden / "crash_flipped" / "input", golden / "crash_running_copy" / "input"
    assert run("compare", left, left)[:1] == (0,)
    code, found, _ = run("compare", left, right)
    assert code == 2
    assert found["differences"][0]["kind"] in ("damaged_left", "different", "missing_right")


def test_export(run: Any, spark: SparkSession, golden: Path, tmp_path: Path) -> None:
    store, out = golden / "basic" / "store", tmp_path / "out"
    code, found, _ = run("export-parquet", store, "-o", out, "--topic", "TopicBasicA")
    assert code == 0
    frame = spark.read.parquet(str(out))
    messages = [
        message for message in rmqcore.read(store).messages() if message.topic == "TopicBasicA"
    ]
    assert found["rows"] == len(messages)
    rows = {row.phy_offset: row for row in frame.collect()}
    assert {at: (row.topic, bytes(row.body), row.tags) for at, row in rows.items()} == {
        message.phy_offset: (message.topic, message.body, message.tags) for message in messages
    }
    code, _, err = run("export", store, "-o", out)
    assert code == 1
    assert "is not empty" in err
    assert "Traceback" not in err


def test_rebuild(run: Any, golden: Path, tmp_path: Path) -> None:
    store = golden / "basic" / "store"
    code, _, _ = run("rebuild-consume-queues", store, "-o", tmp_path / "out")
    assert code == 0
    built = {
        path.relative_to(tmp_path / "out"): path.read_bytes()
        for path in (tmp_path / "out" / "consumequeue").rglob("*")
        if path.is_file()
    }
    assert built == {
        path.relative_to(store): path.read_bytes()
        for path in (store / "consumequeue").rglob("*")
        if path.is_file()
    }


def test_rebuild_of_the_index_goes_beside_the_queues(
    run: Any, golden: Path, tmp_path: Path
) -> None:
    """The index files are the same as one process makes; only their names differ: here they are the times of the messages."""
    store, out = golden / "basic" / "store", tmp_path / "out"
    assert run("rebuild-consume-queues", store, "-o", out)[0] == 0
    code, printed, _ = run("rebuild-index", store, "-o", out)
    assert code == 0
    rebuild(StorePaths(store), tmp_path / "one", queues=False)
    built, expected = sorted((out / "index").iterdir()), sorted((tmp_path / "one/index").iterdir())
    assert [path.read_bytes() for path in built] == [path.read_bytes() for path in expected]
    assert printed["index_files"] == len(expected) == 4
    assert (out / "consumequeue").is_dir()


def test_an_error_of_a_task_is_one_line(run: Any, golden: Path) -> None:
    store = golden / "crash_flipped" / "input"
    code, _, err = run("topic-stats", store, "--option", "verifyCrc=fail")
    assert code == 2
    lines = [line for line in err.splitlines() if line.startswith(("Error:", "Hint:"))]
    assert len(lines) == 2
    assert "BODYCRC is" in lines[0]


def test_ctrl_c(run: Any, golden: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("rmqcore.spark.jobs.audit.run_tasks", interrupted)
    assert run("audit", golden / "basic" / "store")[:2] == (130, None)


def test_a_table_and_its_compaction(run: Any, tmp_path: Path) -> None:
    log, out = LiveLog(tmp_path / "store", file_size=1 << 16), tmp_path / "out"
    store = f"b={tmp_path / 'store'}"
    for count in (30, 10):
        for _ in range(count):
            log.append()
        code, found, err = run("export-table", store, "-o", out)
        assert (code, found["rows"], found["watermarks"], err) == (0, count, {"b": log.end}, "")
    log.write(log.end, log.record()[:40])
    code, found, err = run("export-table", store, "-o", out)
    assert (code, found["rows"], found["unfinished"]) == (0, 0, ["b"])
    assert "b: the log ends in an incomplete record" in err
    code, found, _ = run("compact", out)
    assert (code, found["rewritten"], found["written"], found["rows"]) == (0, 2, 1, 40)
    code, _, err = run("compact", tmp_path / "store")
    assert code == 1
    assert "is not empty" in err
    code, _, err = run("compact", out, "--option", "topics=T")
    assert code == 64
