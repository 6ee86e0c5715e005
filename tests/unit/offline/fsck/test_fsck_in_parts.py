"""A store that has more queues than there is memory for: the log is walked over again for each part of them.

1.8 KiB of each queue were in memory, and each name that a record or a directory made up: two million of them took 4 GB.
"""

from __future__ import annotations

import json
import os
import random
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from support.stores.built_store import BuiltStore
from support.stores.golden_stores import CLEAN, CRASHED

from rmqcore.offline.fsck import file_kinds, fsck, log_pass, queue_names, queue_pass, queue_state
from rmqcore.offline.fsck.log_pass import LogAudit
from rmqcore.testing.random_damage import damage

CASES = [(case, "store") for case in CLEAN] + [(case, "input") for case in CRASHED]


def checked(root: Path, **limits: int) -> tuple[dict[str, Any], int]:
    """The report with findings in an order of their own, and how often the log was walked over again."""
    walks: list[int] = []
    again = LogAudit.batches_again

    def counted(log: LogAudit) -> Any:
        walks.append(1)
        return again(log)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LogAudit, "batches_again", counted)
        for name, most in limits.items():
            module = (
                queue_pass
                if name == "MOST_KEYS"
                else log_pass
                if name == "TOPIC_ROOM"
                else queue_state
            )
            patch.setattr(module, name, most)
        report = json.loads(json.dumps(fsck(root, max_findings=100_000).as_dict()))
    report["findings"].sort(key=json.dumps)
    del report["seconds"]
    return report, len(walks)


def compare(root: Path, **limits: int) -> int:
    whole, none = checked(root)
    parted, walks = checked(root, **limits)
    # Whether dispatch had come to a record is known once all queues were looked at.
    if (root / "abort").exists():
        for report in (whole, parted):
            report["totals"].pop("cq_missing", None)
            report["findings"] = [one for one in report["findings"] if one["kind"] != "cq_missing"]
    assert none == 0
    assert parted == whole
    return walks


ONE_QUEUE = {"MOST_BYTES": 1, "MOST_KEYS": 2, "TOPIC_ROOM": 100}


@pytest.mark.parametrize(("case", "part"), CASES)
def test_golden_stores(golden: Path, case: str, part: str) -> None:
    root = golden / case / part
    queues = len([path for path in (root / "consumequeue").glob("*/*") if path.is_dir()])
    assert compare(root, **ONE_QUEUE) == max(0, queues - 1)


@pytest.mark.parametrize("seed", range(12))
def test_damaged_stores(golden: Path, tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    case, part = rng.choice(CASES)
    root = shutil.copytree(golden / case / part, tmp_path / "store")
    for _ in range(3):
        damage(root, rng, ("commitlog", "consumequeue"))
    (root / "abort").unlink(missing_ok=True)
    compare(root, MOST_BYTES=1, MOST_KEYS=2)  # where batches end may divide what is found


def wide_store(root: Path, queues: int = 30) -> BuiltStore:
    store = BuiltStore(root, log_file_size=1 << 15)
    for number in range(4 * queues):
        store.put(f"t{number % 7}", number % queues)
    return store


def test_several_queues_a_part(tmp_path: Path) -> None:
    store = wide_store(tmp_path / "store")
    root = store.write()
    assert compare(root, MOST_BYTES=20_000) in range(3, 12)
    shutil.rmtree(root / "consumequeue" / "t3")
    shutil.rmtree(root / "consumequeue" / "t4" / "4")
    store.change_entry("t5", 5, 0, (1, 2, 3))
    store.change_entry("t6", 6, 0, (0, 0, 0))
    for limits in ({"MOST_BYTES": 20_000}, ONE_QUEUE):
        assert compare(root, **limits) > 2
    report, _ = checked(root, **ONE_QUEUE)
    assert report["totals"]["cq_missing"] == {"warning": 17, "error": 1 + 1}


@pytest.mark.parametrize("abort", [False, True])
def test_queues_of_which_only_records_speak(tmp_path: Path, abort: bool) -> None:
    """Behind those that there is memory for they are counted together; what is an error stays one."""
    store = wide_store(tmp_path / "store")
    for number in range(20):
        store.put(
            "\N{GRINNING FACE}" * 3 + "x" * 300 + str(number), number
        )  # no name of a directory
    for place in [place for place in store.queues if len(place[0]) > 255]:
        del store.queues[place]
    root = store.write(abort=abort)
    shutil.rmtree(root / "consumequeue" / "t4" / "4")
    whole, _ = checked(root)
    for limits in (
        {"MOST_WITHOUT_FILES": 0},
        {"MOST_WITHOUT_FILES": 3000},
        {"MOST_WITHOUT_FILES": 0, **ONE_QUEUE},
    ):
        report, _ = checked(root, **limits)
        totals, expected = (Counter(one["totals"]["cq_missing"]) for one in (report, whole))
        assert totals.total() == expected.total()
        assert abort or totals == expected
        assert report["exit_code"] == whole["exit_code"]
        assert report["counts"] == whole["counts"]
        lost, all_lost = (one["would_be_lost"]["unreachable"] for one in (report, whole))
        assert {name: lost[name] for name in ("records", "bytes")} == {
            name: all_lost[name] for name in ("records", "bytes")
        }
        assert len(whole["findings"]) > len(report["findings"])
        assert lost.get("in_other_queues", 0) + sum(
            queue["records"] for queue in lost["queues"]
        ) == (0 if abort else lost["records"])
    assert all(len(one["path"]) < 300 for one in whole["findings"])


def test_lost_queues_that_are_named(tmp_path: Path) -> None:
    store = wide_store(tmp_path / "store")
    root = store.write()
    shutil.rmtree(root / "consumequeue" / "t3")
    whole, _ = checked(root)
    some, _ = checked(root, MOST_LOST_BYTES=1000)
    lost, all_lost = (one["would_be_lost"]["unreachable"] for one in (some, whole))
    named = sum(queue["records"] for queue in lost["queues"])
    assert 0 < len(lost["queues"]) < len(all_lost["queues"])
    assert lost["in_other_queues"] == lost["records"] - named == all_lost["records"] - named
    assert "in_other_queues" not in all_lost


def test_sizes_and_names_are_looked_at_without_a_list(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = wide_store(tmp_path / "store")
    root = store.write()
    assert checked(root)[0]["findings"] == []
    folder = root / "consumequeue" / "t1"
    queues = sorted(folder.iterdir())
    for number, queue in enumerate(queues[:4]):
        with (queue / f"{0:020}").open("ab") as file:
            file.write(bytes(20 * number + 20))
    (queues[0] / f"{160:020}").touch()
    (queues[1] / "odd").touch()
    (folder / "queue").mkdir()
    whole, _ = checked(root)
    assert {kind: sum(counts.values()) for kind, counts in whole["totals"].items()} == {
        "cq_file_size": 5,
        "file_name": 2,
    }
    monkeypatch.setattr(queue_names, "MOST_SIZES", 2)
    assert checked(root)[0] == whole


def test_files_with_several_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A backup by hard links gives all files two names; only those with two names in the store are held by name, and not all."""
    store = wide_store(tmp_path / "store")
    root = store.write()
    shutil.copytree(root, tmp_path / "backup", copy_function=os.link)
    monkeypatch.setattr(file_kinds, "MOST_FIRST_NAMES", 2)
    assert checked(root)[0]["findings"] == []
    before = checked(root)[0]["counts"]
    queues = sorted(path for path in (root / "consumequeue" / "t2").iterdir())
    for queue in queues[:4]:
        os.link(queue / f"{0:020}", queue / f"{160:020}")
    report, _ = checked(root)
    # Of two files the second name is left out, of two more both.
    assert report["totals"]["file_kind"] == {"error": 2 + 4}
    assert report["counts"]["records"] == before["records"]
    assert report["exit_code"] == 2
