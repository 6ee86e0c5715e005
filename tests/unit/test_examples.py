"""The scripts in examples/, run over stores that RocketMQ wrote."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support.places import ROOT

import rmqcore
from rmqcore.offline.fsck import fsck

if TYPE_CHECKING:
    from conftest import StoreCopy

EXAMPLES = ROOT / "examples"


def run(script: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(EXAMPLES / script), *map(str, arguments)]
    environment = {**os.environ, "PYTHONIOENCODING": "utf-8"}
    return subprocess.run(
        command, capture_output=True, encoding="utf-8", env=environment, check=False
    )


@pytest.mark.parametrize("script", sorted(path.name for path in EXAMPLES.glob("*.py")))
def test_without_arguments_an_example_says_its_usage(script: str) -> None:
    """They ended in tracebacks."""
    if script == "demo.py":
        pytest.skip("it takes none, and runs for minutes")
    done = run(script)
    if "No module named" in done.stderr:
        pytest.skip("it needs a package that is not here")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"Usage: python {script} ")


def test_duckdb(golden: Path) -> None:
    pytest.importorskip("duckdb")
    done = run("duckdb_over_store.py", golden / "basic" / "store")
    assert (done.returncode, done.stderr) == (0, "")
    rows = re.findall(r"(TopicBasic\w) *│ *(\d+)", done.stdout)
    assert sorted(rows) == [("TopicBasicA", "658"), ("TopicBasicB", "668"), ("TopicBasicC", "674")]


def test_a_log_through_a_pipe(store_copy: StoreCopy, tmp_path: Path) -> None:
    store, copy = store_copy("basic"), tmp_path / "copy"
    script = [sys.executable, str(EXAMPLES / "follow.py")]
    with subprocess.Popen([*script, "send", str(store)], stdout=subprocess.PIPE) as sender:
        taken = subprocess.run(
            [*script, "take", str(copy)], stdin=sender.stdout, capture_output=True, check=False
        )
    assert (sender.returncode, taken.returncode, taken.stderr) == (0, 0, b"")
    assert rmqcore.diff(store, copy).exit_code == 0
    assert fsck(copy).exit_code == 0


def test_polars(golden: Path) -> None:
    pytest.importorskip("polars")
    done = run("polars_over_store.py", golden / "basic" / "store")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("2000 messages\n")
    assert "4226" in done.stdout


def test_a_key_by_the_index_and_by_the_log(store_copy: StoreCopy) -> None:
    store = store_copy("basic")
    arguments = (store, "TopicBasicA", "key-0-0")
    by_index = run("find_key.py", *arguments)
    assert (by_index.returncode, by_index.stderr) == (0, "")
    assert by_index.stdout.startswith("index: ")
    for file in (store / "index").iterdir():
        file.unlink()
    by_log = run("find_key.py", *arguments)
    assert by_log.stdout == by_index.stdout.replace("index: ", "log: ")
    assert run("find_key.py", store, "TopicBasicA", "no-such-key").returncode == 1


def test_damage_is_told(golden: Path) -> None:
    done = run("find_key.py", golden / "crash_flipped" / "input", "TopicCrashA", "no-such-key")
    assert re.search(r"commitlog/\d{20}@204236: crc, 442 bytes", done.stderr)
