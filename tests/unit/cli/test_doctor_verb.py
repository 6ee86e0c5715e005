"""``rmqcore doctor``: text, JSON, exit codes."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from conftest import StoreCopy
from support.cli.cli_runs import Run, in_terminal

from rmqcore.engine.clean import disks


@pytest.fixture(autouse=True)
def roomy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever disk the tests run on, it has room."""
    monkeypatch.setattr(disks, "used_percent", lambda _: 10)


@pytest.mark.parametrize(
    ("case", "code", "names"),
    [
        ("basic/store", 0, set()),
        ("crash_running_copy/input", 0, {"unclean_exit"}),
        ("crash_flipped/input", 2, {"damaged_log", "unclean_exit"}),
        ("crash_no_cq_clean_exit/input", 2, {"queues_missing"}),
        ("crash_garbage_tail/input", 0, {"torn_tail", "unclean_exit"}),
    ],
)
def test_json_and_exit_codes(
    rmqcore: Run, golden: Path, case: str, code: int, names: set[str]
) -> None:
    done = rmqcore("doctor", golden / case, "--json")
    assert (done.code, done.err) == (code, "")
    assert {found["name"] for found in done.object["diagnoses"]} == names
    assert done.object["exit_code"] == code
    for found in done.object["diagnoses"]:
        assert found["evidence"][0]["path"]
    assert len(rmqcore("doctor", golden / case).out.splitlines()) == 1


def test_thorough_finds_what_lies_in_the_middle(rmqcore: Run, store_copy: StoreCopy) -> None:
    store = store_copy("basic")
    index_file = min((store / "index").iterdir())
    slot_count = 500
    with index_file.open("r+b") as file:
        file.seek(40 + 4 * slot_count + 20 * 5 + 4)  # PHYOFFSET of the fifth entry
        file.write((9).to_bytes(8, "big"))
    assert rmqcore("doctor", store).code == 0
    done = rmqcore("doctor", store, "--thorough", "--json")
    assert done.code == 2
    assert "fsck_errors" in {found["name"] for found in done.object["diagnoses"]}


def test_text_fits_the_terminal(store_copy: StoreCopy) -> None:
    store = store_copy("basic")
    (store / "abort").touch()
    (store / "commitlog" / "odd \x1b[31m name").touch()
    code, text, _ = in_terminal("doctor", store, streams="stdout", COLUMNS="80", NO_COLOR="1")
    assert code == 2
    assert "\x1b[31m" not in text
    assert "odd \\x1b[31m name" in text
    plain = [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in text.splitlines()]
    long_lines = [line for line in plain if len(line) > 80]
    # What is to be typed, and paths, stay in one piece.
    assert all(line.startswith(("  $ rmqcore ", "store ")) for line in long_lines)
    # The second warning is that of a disk which is used by more than 75 %: the tests' own may be.
    assert re.match("sick: 1 error, (1 warning|2 warnings) in ", plain[-1])
    assert text.index("log_file_name") < text.index("unclean_exit")


def test_the_broker_conf_is_compared(rmqcore: Run, golden: Path, tmp_path: Path) -> None:
    conf = tmp_path / "broker.conf"
    conf.write_text("mappedFileSizeCommitLog=1048576\n")
    done = rmqcore("doctor", golden / "basic" / "store", "--config", conf, "--json")
    assert done.code == 2
    (found,) = done.object["diagnoses"]
    assert found["name"] == "config_sizes"
    seen = json.dumps(found["evidence"])
    assert "mappedFileSizeCommitLog=1048576" in seen
    assert "131072, as the files have" in seen
