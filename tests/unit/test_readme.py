"""Every fenced block of README.md runs, in an empty folder; one that cannot is named here with its reason.

Only paths, ports and a program of the reader's own stand for others: ``/data`` and ``/backup`` are folders of the test.
"""

from __future__ import annotations

import os
import re
import select
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support.pages import Block, commands, fenced_blocks
from support.places import ROOT

import rmqcore
from rmqcore import Message
from rmqcore.testing.served_broker import ServedBroker

BLOCKS = fenced_blocks("README.md")

NOT_RUN = {
    "make demo": "builds an environment and runs half a minute: tests/spark/session/test_demo.py runs the program",
    "make test": "is what runs this test",
    "pip install '.[all]'": "fetches 600 MB from PyPI: scripts/check_wheel.sh installs the wheel with each extra",
}
"""Commands of the README that no test runs, and why."""

ELSEWHERE = {
    "import rmqcore.spark": "tests/spark/session/test_spark_examples.py::test_the_readme",
}
"""What marks a block that another test runs, because it needs a Java, and that test."""

MY_APPLICATION = """
from rmqcore.client import Producer

def send_order(namesrv):
    with Producer(namesrv, group="orders") as producer:
        producer.send("Orders", b"paid", tags="A")
"""


def way_of(block: Block) -> str | None:
    """How a block is run, None where nobody does."""
    if block.language == "console":
        known = all(
            command.words[0] == "rmqcore" or " ".join(command.line.split("#")[0].split()) in NOT_RUN
            for command in commands(block)
        )
        return "console" if known else None
    if block.language != "python":
        return None
    if any(mark in block.text for mark in ELSEWHERE):
        return "elsewhere"
    if "rocketmq_broker" in block.text:
        return "fixture"
    return "client" if "rmqcore.client" in block.text else "python"


def blocks(way: str) -> list[Block]:
    return [block for block in BLOCKS if way_of(block) == way]


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """An empty folder."""
    folder = tmp_path / "here"
    folder.mkdir()
    return folder


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """What ``/data`` is in the README: a store with a thousand orders, and a master and slave that have the same."""
    data = tmp_path / "data"
    with rmqcore.open(data / "store", mapped_file_size_commit_log=1 << 20) as store:
        orders = [
            Message("Orders", b"order %d" % n, n % 4, tags="A", keys=[f"ORDER_{n}"])
            for n in range(1_000)
        ]
        store.put_many(orders).raise_for_status()
        assert store.wait_dispatched(60)
    for name in ("master", "slave"):
        shutil.copytree(data / "store", data / name)
    return data


def at(text: str, data: Path) -> str:
    """The text of a block with the folders of this test."""
    text = re.sub(r"(?<![\w/])/data/", f"{data}/", text)
    return re.sub(r"(?<![\w/])/backup/", f"{data.parent}/backup/", text)


def run(words: list[str], folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        words,
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        encoding="utf-8",
        check=False,
    )


@pytest.mark.parametrize("block", BLOCKS, ids=str)
def test_every_block_is_run_or_named(block: Block) -> None:
    assert way_of(block) is not None, (
        f"{block}: no test runs this block of {block.language or 'no language'}; make one, or say in NOT_RUN why there is none"
    )


def test_what_is_named_is_there() -> None:
    """A line that has left the README leaves the lists here too."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    for line in NOT_RUN:
        assert f"\n$ {line}" in text
    for mark, test in ELSEWHERE.items():
        assert len([block for block in BLOCKS if mark in block.text]) == 1
        page, _, name = test.partition("::")
        assert f"def {name}(" in (ROOT / page).read_text(encoding="utf-8")


def test_a_block_that_nobody_runs_is_noticed() -> None:
    assert way_of(Block("README.md", 1, "console", "$ apt-get install rmqcore\n")) is None
    assert way_of(Block("README.md", 1, "toml", "[tool]\n")) is None
    assert way_of(Block("README.md", 1, "", "what?\n")) is None


@pytest.mark.parametrize("block", blocks("console"), ids=str)
def test_commands(block: Block, here: Path, data: Path) -> None:
    """One after the other, as they stand there; each ends well and says something, and what the README shows of it."""
    pytest.importorskip("typer")
    pytest.importorskip("pyarrow")
    for command in commands(block):
        words = [at(word, data) for word in command.words]
        if words[0] != "rmqcore":
            continue
        if words[1] == "serve":
            serve(words[1:], here)
            continue
        done = run([sys.executable, "-m", "rmqcore.cli", *words[1:]], here)
        assert (done.returncode, done.stderr) == (0, ""), command.line
        assert done.stdout
        if command.output:
            assert done.stdout == at(command.output, data)


def serve(words: list[str], here: Path) -> None:
    """A broker and a name server on ports that are free; they say where they are, and end by a signal."""
    call = [sys.executable, "-m", "rmqcore.cli", *words, "--port", "0"]
    with subprocess.Popen(call, cwd=here, stdout=subprocess.PIPE, encoding="utf-8") as process:
        assert process.stdout is not None
        assert select.select([process.stdout], [], [], 120)[0], "not ready after two minutes"
        line = process.stdout.readline()
        process.send_signal(signal.SIGTERM)
        process.wait(120)
    assert process.returncode == 0
    assert re.search(r"broker 127\.0\.0\.1:[1-9]", line)
    assert re.search(r"namesrv 127\.0\.0\.1:[1-9]", line)


@pytest.mark.parametrize("block", blocks("python"), ids=str)
def test_python(block: Block, here: Path, data: Path) -> None:
    if "duckdb" in block.text:
        pytest.importorskip("duckdb")
    done = run([sys.executable, "-c", at(block.text, data)], here)
    assert (done.returncode, done.stderr) == (0, "")
    assert "assert" in block.text or done.stdout


@pytest.mark.parametrize("block", blocks("client"), ids=str)
def test_python_that_needs_a_broker(block: Block, here: Path, tmp_path: Path) -> None:
    with ServedBroker(tmp_path) as broker:
        done = run(
            [sys.executable, "-c", block.text.replace("127.0.0.1:9876", broker.namesrv)], here
        )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith("[b'paid']\n")


@pytest.mark.parametrize("block", blocks("fixture"), ids=str)
def test_the_fixture(block: Block, here: Path, tmp_path: Path) -> None:
    (here / "my_application.py").write_text(MY_APPLICATION)
    (here / "test_orders.py").write_text(f"import my_application\n\n{block.text}")
    paths = os.pathsep.join([str(here), *filter(None, sys.path)])
    options = ["-q", "-p", "no:cacheprovider", "-p", "pytest_rmqcore", "test_orders.py"]
    options.append(
        f"--basetemp={tmp_path / 'base'}"
    )  # else it clears away what older runs have left
    done = run(
        [sys.executable, "-m", "pytest", *options],
        here,
        PYTHONPATH=paths,
        PYTEST_DISABLE_PLUGIN_AUTOLOAD="1",
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed" in done.stdout
