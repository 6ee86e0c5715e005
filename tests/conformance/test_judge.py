"""The judge, one test for each part and case, so that a failure names both."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from support.stores.golden_stores import CLEAN

JUDGE = Path(__file__).parent / "judge" / "judge.py"
# fsck is judged only where the format leaves no doubt (judge/part_fsck.py); the other cases are judged by their records.
CRASHED = [
    "crash_running_copy",
    "crash_old_checkpoint",
    "crash_cp90",
    "crash_no_checkpoint",
    "crash_zero_checkpoint",
    "crash_torn",
    "crash_torn_clean_exit",
    "crash_flipped",
    "crash_flipped_clean_exit",
    "crash_no_index",
    "crash_no_index_clean_exit",
    "crash_expired",
    "crash_cq_hole",
    "crash_cq_garbage",
    "crash_last_file_missing",
]
CRASHED_READ_ONLY = [
    "crash_no_cq",
    "crash_no_cq_clean_exit",
    "crash_garbage_tail",
    "crash_stale_tail",
]
JUDGED = [
    *(("read", case) for case in [*CLEAN, *CRASHED, *CRASHED_READ_ONLY]),
    *(("fsck", case) for case in [*CLEAN, *CRASHED]),
    *(("engine", case) for case in CLEAN),
    *(("recover", case) for case in [*CRASHED, *CRASHED_READ_ONLY]),
    *(("replay", case) for case in CLEAN if case != "lmq"),
]


def test_every_case_of_the_set_is_judged(golden: Path) -> None:
    cases = [case["case"] for case in json.loads((golden / "index.json").read_text())["cases"]]
    assert sorted(case for part, case in JUDGED if part == "read") == sorted(cases)


@pytest.mark.parametrize(("part", "case"), JUDGED, ids=[f"{part}-{case}" for part, case in JUDGED])
def test_judge(golden: Path, tmp_path: Path, part: str, case: str) -> None:
    call: list[str | Path] = [sys.executable, JUDGE, golden, "--only", part, "--case", case]
    done = subprocess.run(call, cwd=tmp_path, capture_output=True, text=True, check=False)
    counted = re.search(r"^judge: (\d+) of (\d+) checks hold$", done.stdout, re.MULTILINE)
    assert counted, f"the judge did not finish: {done.stdout}{done.stderr}"
    assert done.returncode == 0, done.stdout
    assert counted[1] == counted[2]
    assert int(counted[2]) > 0, "nothing was judged"
