"""What fsck says about every store that Java wrote, clean, damaged, and recovered by Java."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.stores.golden_stores import CLEAN

from rmqcore import read
from rmqcore.offline.fsck import fsck
from rmqcore.offline.fsck.findings import KINDS

ABORT = {"abort": "info"}
# What Java's own recovery leaves: keys that it did not index again.
GAPS = {"index_missing": "warning"}
EXPECTED: dict[tuple[str, str], tuple[int, dict[str, str]]] = {
    **{(case, "store"): (0, {}) for case in CLEAN},
    ("crash_running_copy", "input"): (0, ABORT),
    ("crash_running_copy", "recovered"): (0, GAPS),
    ("crash_old_checkpoint", "input"): (0, ABORT),
    ("crash_old_checkpoint", "recovered"): (0, GAPS),
    ("crash_cp90", "input"): (0, ABORT),
    ("crash_cp90", "recovered"): (0, GAPS),
    ("crash_expired", "input"): (0, {}),
    ("crash_expired", "recovered"): (0, {}),
    ("crash_no_checkpoint", "input"): (0, ABORT | {"checkpoint": "warning"}),
    # Two index files made in the same millisecond become one (docs/format/index.md): the second has chains of the first.
    ("crash_no_checkpoint", "recovered"): (0, GAPS | {"index_chain": "warning"}),
    ("crash_zero_checkpoint", "input"): (0, ABORT),
    ("crash_zero_checkpoint", "recovered"): (0, GAPS | {"index_chain": "warning", "index_header": "warning"}),
    ("crash_no_index", "input"): (0, ABORT | {"index_missing": "info"}),
    ("crash_no_index", "recovered"): (0, GAPS),
    ("crash_no_index_clean_exit", "input"): (0, {"index_missing": "info"}),
    ("crash_no_index_clean_exit", "recovered"): (0, {"index_missing": "info"}),
    ("crash_cq_garbage", "input"): (0, ABORT | {"cq_missing": "warning"}),
    ("crash_cq_garbage", "recovered"): (0, GAPS),
    ("crash_flipped", "input"): (2, ABORT | {"crc": "error"}),
    ("crash_flipped", "recovered"): (2, GAPS | {"crc": "error"}),
    ("crash_flipped_clean_exit", "input"): (2, {"crc": "error"}),
    ("crash_flipped_clean_exit", "recovered"): (2, {"crc": "error"}),
    ("crash_torn", "input"): (2, ABORT | {"torn_tail": "warning", "cq_beyond": "error"}),
    ("crash_torn", "recovered"): (2, GAPS | {"torn_tail": "warning", "cq_beyond": "error"}),
    ("crash_torn_clean_exit", "input"): (2, {"torn_tail": "warning", "cq_beyond": "error", "checkpoint": "error"}),
    ("crash_torn_clean_exit", "recovered"): (
        2, {"torn_tail": "warning", "cq_beyond": "error", "checkpoint": "error"},
    ),
    ("crash_last_file_missing", "input"): (2, ABORT | {"cq_beyond": "error", "index_entry": "error"}),
    ("crash_last_file_missing", "recovered"): (2, GAPS | {"cq_beyond": "error"}),
    ("crash_cq_hole", "input"): (2, {"cq_hole": "error"}),
    ("crash_cq_hole", "recovered"): (2, {"cq_hole": "error"}),
    ("crash_garbage_tail", "input"): (0, ABORT | {"torn_tail": "warning"}),
    ("crash_garbage_tail", "recovered"): (0, GAPS | {"torn_tail": "warning"}),
    ("crash_stale_tail", "input"): (0, ABORT | {"torn_tail": "warning"}),
    ("crash_stale_tail", "recovered"): (0, GAPS | {"torn_tail": "warning"}),
    ("crash_no_cq", "input"): (0, ABORT | {"cq_missing": "warning"}),
    # Java indexes and queues again only the last files: older messages stay out of reach.
    ("crash_no_cq", "recovered"): (2, GAPS | {"cq_missing": "error"}),
    ("crash_no_cq_clean_exit", "input"): (2, {"cq_missing": "error"}),
    ("crash_no_cq_clean_exit", "recovered"): (2, {"cq_missing": "error"}),
}  # fmt: skip


def test_every_golden_directory_is_expected(golden: Path) -> None:
    parts = ("store", "input", "recovered")
    there = {
        (case.name, part) for case in golden.iterdir() for part in parts if (case / part).is_dir()
    }
    assert there == set(EXPECTED)


@pytest.mark.parametrize(("case", "part"), EXPECTED, ids=lambda value: value)
def test_verdict_and_kinds(golden: Path, case: str, part: str) -> None:
    report = fsck(golden / case / part)
    exit_code, kinds = EXPECTED[case, part]
    worst = {
        kind: min(counts, key=("error", "warning", "info").index)
        for kind, counts in report.totals.items()
    }
    assert (report.exit_code, worst) == (exit_code, kinds)
    assert {finding.kind for finding in report.findings} == set(kinds) <= set(KINDS)


@pytest.mark.parametrize("case", CLEAN)
def test_everything_is_looked_at(golden: Path, case: str) -> None:
    manifest = json.loads((golden / case / "manifest.json").read_text())
    report = fsck(golden / case / "store")
    messages = [message for message in manifest["messages"] if message["type"] == "MSG"]
    assert report.counts["records"] == len(messages)
    assert report.counts["record_bytes"] == sum(message["storeSize"] for message in messages)
    assert report.counts["cq_entries"] == sum(queue["maxOffset"] for queue in manifest["queues"])
    reader = read(golden / case / "store")
    assert report.counts["index_entries"] == sum(file.entry_count for file in reader.index_files())
    assert report.counts["prop_crcs"] == (len(messages) if case == "propcrc" else 0)
    assert report.would_be_lost["unreachable"] == {"records": 0, "bytes": 0, "queues": []}
    assert report.would_be_lost["broker_start"]["cut_bytes"] == 0


# (case, recovered) -> where Java's load cut the log, and how many queue entries point behind
CUTS = {"crash_torn": "afterLoad", "crash_flipped": "afterLoad", "crash_garbage_tail": "afterLoad"}


@pytest.mark.parametrize("case", CUTS)
def test_a_broker_start_cuts_where_java_did(golden: Path, case: str) -> None:
    manifest = json.loads((golden / case / "manifest.json").read_text())
    start = fsck(golden / case / "input").would_be_lost["broker_start"]
    assert start["cut_phy_offset"] == manifest["afterLoad"]["maxPhyOffset"]


def test_the_report_is_one_json_object(golden: Path) -> None:
    report = fsck(golden / "crash_flipped" / "input")
    again = json.loads(json.dumps(report.as_dict()))
    assert again["exit_code"] == 2
    assert again["findings"][0]["kind"] == "crc"
    assert again["damage"][0]["end_phy_offset"] - again["damage"][0]["start_phy_offset"] == 442
    # 21 records lie behind the start of the damaged record, itself among them.
    assert again["would_be_lost"]["broker_start"]["cut_records"] == 21


def test_lost_messages_of_a_missing_queue_file_are_counted(golden: Path) -> None:
    lost = fsck(golden / "crash_cq_hole" / "input").would_be_lost["unreachable"]
    assert lost["queues"] == [{"topic": "TopicCrashA", "queue_id": 0, "records": 30}]
    assert lost["records"] == 30


def test_nothing_is_written(golden: Path) -> None:
    root = golden / "crash_torn" / "input"
    before = {path: path.stat().st_mtime_ns for path in root.rglob("*")}
    fsck(root)
    assert {path: path.stat().st_mtime_ns for path in root.rglob("*")} == before
