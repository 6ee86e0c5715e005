"""info, fsck and export: one JSON object, JSON Lines, tables, exit codes."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest
from conftest import StoreCopy
from support.cli.cli_runs import Run
from support.stores.store_maker import make_store, sample_records

from rmqcore.offline.reader import StoreReader
from rmqcore.offline.waiting import count_waiting

FSCK = [
    ("basic/store", 0),
    ("delay/store", 0),
    ("crash_running_copy/input", 0),
    ("crash_flipped/input", 2),
    ("crash_torn/input", 2),
    ("crash_cq_hole/recovered", 2),
    ("crash_last_file_missing/input", 2),
]


def test_info(rmqcore: Run, golden: Path) -> None:
    store = golden / "basic" / "store"
    done = rmqcore("info", store, "--json")
    assert (done.code, done.err) == (0, "")
    reader = StoreReader(store)
    assert done.object == {
        **json.loads(json.dumps(reader.info().as_dict())),
        "waiting": count_waiting(reader.paths).as_dict(),
        "queues": [queue.as_dict() for queue in reader.queues()],
        "compacted": [],
        "index_files": [file.as_dict() for file in reader.index_files()],
        "unreadable": [],
        "damage": [],
    }
    assert done.object["max_phy_offset"] == 848491
    assert (
        [rmqcore("info", store).object]
        == rmqcore("info", store, "--format", "jsonl").lines
        == [done.object]
    )
    assert len(done.out.splitlines()) == 1


def test_info_table(rmqcore: Run, golden: Path) -> None:
    text = rmqcore("info", golden / "basic" / "store", "--format", "table").out.decode()
    for word in (
        "7 files of 128.0 KiB",
        "0 to 848491",
        "cleanly closed",
        "TopicBasicC",
        "0..170",
        "20261121024847562",
    ):
        assert word in text
    text = rmqcore("info", golden / "crash_torn" / "input", "--format", "table").out.decode()
    assert "in use, or not cleanly closed" in text


@pytest.mark.parametrize(("case", "code"), FSCK)
def test_fsck(rmqcore: Run, golden: Path, case: str, code: int) -> None:
    done = rmqcore("fsck", golden / case, "--json")
    assert (done.code, done.object["exit_code"], done.err) == (code, code, "")
    assert len(done.out.splitlines()) == 1
    lines = rmqcore("fsck", golden / case)
    assert lines.code == code
    *findings, summary = lines.lines
    assert findings == done.object["findings"]
    assert summary["kind"] == "summary"
    assert summary["counts"] == done.object["counts"]


@pytest.mark.parametrize(("case", "code"), FSCK)
def test_fsck_table_ends_with_a_verdict(rmqcore: Run, golden: Path, case: str, code: int) -> None:
    done = rmqcore("fsck", golden / case, "--format", "table")
    assert done.code == code
    text = done.out.decode()
    assert text.splitlines()[-1].startswith("damaged: " if code else "sound: ")
    for finding in rmqcore("fsck", golden / case, "--json").object["findings"]:
        assert finding["message"] in text


def test_fsck_shows_some_of_many_and_counts_all(rmqcore: Run, tmp_path: Path) -> None:
    made = make_store(sample_records(200))
    for name, data in made.files.items():
        if name.startswith("consumequeue/TopicA/0/"):
            made.files[name] = bytes(
                byte ^ (position % 20 == 19) for position, byte in enumerate(data)
            )
    store = made.write(tmp_path / "store")
    report = rmqcore("fsck", store, "--json").object
    count = report["totals"]["cq_entry"]["error"]
    assert count > 20
    text = rmqcore("fsck", store, "--format", "table").out.decode()
    assert f"cq_entry ({count})" in text
    assert f"and {count - 10} more" in text
    few = rmqcore("fsck", store, "--json", "--max-findings", "3").object
    assert sum(finding["kind"] == "cq_entry" for finding in few["findings"]) == 3
    assert few["totals"] == report["totals"]


def test_markup_in_names_is_text(rmqcore: Run, store_copy: StoreCopy) -> None:
    store = store_copy("basic")
    (store / "commitlog" / "[bold]00000000000000000000[link=file:x]").write_bytes(b"x")
    (store / "consumequeue" / "[red]Topic[").mkdir()
    text = rmqcore("fsck", store, "--format", "table").out.decode()
    assert "[bold]00000000000000000000[link=file:x]" in text
    assert rmqcore("info", store, "--format", "table").code == 0


@pytest.mark.parametrize("kind", ["parquet", "csv", "jsonl"])
def test_export(rmqcore: Run, golden: Path, tmp_path: Path, kind: str) -> None:
    if kind == "parquet":
        pytest.importorskip("pyarrow")
    done = rmqcore(
        "export", golden / "basic" / "store", "--format", kind, "-o", tmp_path / "out", "--json"
    )
    assert (done.code, done.err) == (0, "")
    summary = done.object
    assert (summary["rows"], summary["stored_bytes"], summary["partitions"], summary["damage"]) == (
        2000,
        847672,
        3,
        [],
    )
    parts = list((tmp_path / "out").rglob(f"part-*.{kind}"))
    assert summary["files"] == len(parts)
    assert summary["file_bytes"] == sum(part.stat().st_size for part in parts)
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        f"topic_dir=TopicBasic{letter}" for letter in "ABC"
    ]


def test_export_of_a_damaged_store_is_2(rmqcore: Run, golden: Path, tmp_path: Path) -> None:
    done = rmqcore(
        "export", golden / "crash_flipped" / "input", "--format", "jsonl", "-o", tmp_path / "out"
    )
    assert done.code == 2
    assert (done.object["rows"], done.object["damaged_bytes"], done.object["exit_code"]) == (
        580,
        442,
        2,
    )
    assert done.err.startswith("damaged: 204236..204678 ")


def test_export_refuses_a_folder_that_is_not_empty(
    rmqcore: Run, golden: Path, tmp_path: Path
) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    store = golden / "basic" / "store"
    words = ["export", str(store), "--format", "jsonl", "-o", str(tmp_path)]
    done = rmqcore(*words)
    assert done.code == 1
    assert "notes.txt" in done.err
    assert "--overwrite" in done.err
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]
    assert rmqcore(*words, "--overwrite").code == 0
    assert rmqcore(*words).code == 1
    assert rmqcore(*words, "--overwrite", "--topic", "TopicBasicA").code == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "notes.txt",
        "topic_dir=TopicBasicA",
    ]


def test_export_into_a_file_is_wrong_usage(rmqcore: Run, golden: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    assert (
        rmqcore("export", golden / "basic" / "store", "-o", tmp_path / "file", "--overwrite").code
        == 64
    )
    assert (tmp_path / "file").read_text() == "mine"


def test_a_copy_of_the_log_alone(rmqcore: Run, golden: Path, tmp_path: Path) -> None:
    """`fsck` had an error for each record, that it cannot be fetched, and nobody said that the queues were not copied."""
    shutil.copytree(golden / "basic" / "store" / "commitlog", tmp_path / "copy" / "commitlog")
    for place in (tmp_path / "copy", tmp_path / "copy" / "commitlog"):
        done = rmqcore("fsck", place, "--json")
        assert (done.code, done.object["totals"]) == (0, {"log_only": {"info": 1}})
        assert done.object["counts"]["records"] == 2000
        assert "rmqcore rebuild" in done.object["findings"][0]["message"]
        table = rmqcore("info", place, "--format", "table").out.decode()
        assert "log only" in table
        assert "cleanly closed" not in table


def test_an_empty_index_file_has_no_time(rmqcore: Run, store_copy: StoreCopy) -> None:
    """Its header is zeros, and they were shown as 1970."""
    store = store_copy("basic")
    size = next((store / "index").iterdir()).stat().st_size
    for file in (store / "index").iterdir():
        file.write_bytes(bytes(size))
    text = rmqcore("info", store, "--format", "table").out.decode()
    assert "1970" not in text
    assert len(re.findall(r"^\d{17} +- +- +0 +- ", text, re.MULTILINE)) == len(
        list((store / "index").iterdir())
    )


def test_one_is_no_plural(rmqcore: Run, golden: Path) -> None:
    text = rmqcore("info", golden / "compressed" / "store", "--format", "table").out.decode()
    assert not re.search(r"\b1 (files|topics|queues)\b", text)


def test_errors_name_what_was_typed(rmqcore: Run, golden: Path, tmp_path: Path) -> None:
    """They named ``.rows.csv.4711.tmp``, which nobody had typed."""
    out = tmp_path / "none" / "rows.csv"
    done = rmqcore("query", golden / "basic" / "store", "--topic", "T", "--key", "k", "-o", out)
    assert (done.code, done.err) == (1, f"Error: {out}: No such file or directory\n")


def test_wrong_settings_are_told_in_our_words(rmqcore: Run, golden: Path, tmp_path: Path) -> None:
    """They were Pydantic's: "Input should be a valid integer, unable to parse string as an integer"."""
    config = tmp_path / "broker.conf"
    for line in ("fileReservedTime=soon", "mappedFileSizeCommitLog=12", "flushDiskType=SOMETIMES"):
        config.write_text(line)
        done = rmqcore("doctor", golden / "basic" / "store", "--config", config)
        assert done.code == 1
        assert done.err.startswith(f"Error: {config}:1: {line.partition('=')[0]}: ")
        assert "expected" in done.err
        assert "Input should" not in done.err
