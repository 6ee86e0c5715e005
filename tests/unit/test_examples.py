"""The scripts in examples/ and the README's Python and console blocks, run over stores that RocketMQ wrote."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support.places import ROOT

from rmqcore.testing.served_broker import ServedBroker

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


def readme_blocks() -> list[str]:
    """The README's blocks of code, without those about Spark, which tests/spark runs, and those that need a broker."""
    return [
        block
        for block in python_blocks()
        if not re.search("rmqcore.spark|rmqcore.client|rocketmq_broker", block)
    ]


def python_blocks() -> list[str]:
    return re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)


def test_the_client_of_the_readme_runs(tmp_path: Path) -> None:
    (code,) = [block for block in python_blocks() if "rmqcore.client" in block]
    with ServedBroker(tmp_path) as broker:
        code = code.replace("127.0.0.1:9876", broker.namesrv)
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, encoding="utf-8", check=False
        )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith("[b'paid']\n")


MY_APPLICATION = """
from rmqcore.client import Producer

def send_order(namesrv):
    with Producer(namesrv, group="orders") as producer:
        producer.send("Orders", b"paid", tags="A")
"""


def test_the_fixture_of_the_readme_runs(tmp_path: Path) -> None:
    (code,) = [block for block in python_blocks() if "rocketmq_broker" in block]
    (tmp_path / "my_application.py").write_text(MY_APPLICATION)
    (tmp_path / "test_orders.py").write_text(f"import my_application\n\n{code}")
    paths = os.pathsep.join(path for path in sys.path if path)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "pytest_rmqcore", "test_orders.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{paths}", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        encoding="utf-8",
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed" in done.stdout


@pytest.mark.parametrize("number", range(len(readme_blocks())))
def test_the_python_of_the_readme_runs(golden: Path, tmp_path: Path, number: int) -> None:
    code = readme_blocks()[number]
    if "/data/store" in code:
        code = code.replace("/data/store", str(golden / "basic" / "store"))
        code = code.replace('"Orders"', '"TopicBasicA"')
    if "duckdb" in code:
        pytest.importorskip("duckdb")
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "assert" in code or done.stdout


def readme_commands() -> list[str]:
    """The README's lines with the command; Make and pip are not for a test, and `serve` ends with a signal."""
    blocks = re.findall(r"```console\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    lines = [
        line.removeprefix("$ ").split("#")[0].strip()
        for block in blocks
        for line in block.splitlines()
    ]
    return [line for line in lines if line.startswith("rmqcore ") and " serve " not in line]


def test_the_readme_has_commands() -> None:
    assert {command.split()[1] for command in readme_commands()} >= {
        "info",
        "fsck",
        "cat",
        "export",
    }


@pytest.mark.parametrize("command", readme_commands(), ids=lambda command: command.split()[1])
def test_the_commands_of_the_readme_run(golden: Path, tmp_path: Path, command: str) -> None:
    pytest.importorskip("typer")
    store = str(golden / "basic" / "store")
    names = {
        **dict.fromkeys(("/data/store", "/data/master", "/data/slave"), store),
        "/backup/store": str(tmp_path / "backup"),
        "Orders": "TopicBasicA",
        "ORDER_1": "key-0-0",
    }
    arguments = [names.get(word, word) for word in command.split()[1:]]
    if "parquet" in arguments:
        pytest.importorskip("pyarrow")
    done = subprocess.run(
        [sys.executable, "-m", "rmqcore.cli", *arguments],
        cwd=tmp_path,
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout
