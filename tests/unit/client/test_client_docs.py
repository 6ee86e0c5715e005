"""docs/client.md: its programs run against a broker and print what stands below them, and every public name is on it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.pages import Block, fenced_blocks
from support.places import ROOT

import rmqcore.client
from rmqcore.client import Admin
from rmqcore.testing.served_broker import ServedBroker

PAGE = "docs/client.md"
BLOCKS = fenced_blocks(PAGE)
TEXT = (ROOT / PAGE).read_text(encoding="utf-8")
PROGRAMS = [
    (block, behind.text if behind.language == "text" else None)
    for block, behind in zip(BLOCKS, [*BLOCKS[1:], Block(PAGE, 0, "", "")], strict=True)
    if block.language == "python"
]


@pytest.fixture
def namesrv(tmp_path: Path) -> Iterator[str]:
    with ServedBroker(tmp_path) as broker:
        yield broker.namesrv


@pytest.mark.parametrize(("block", "output"), PROGRAMS, ids=[str(block) for block, _ in PROGRAMS])
def test_a_program_prints_what_stands_below_it(
    namesrv: str, tmp_path: Path, block: Block, output: str | None
) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", block.text.replace("127.0.0.1:9876", namesrv)],
        cwd=tmp_path,
        capture_output=True,
        encoding="utf-8",
        check=False,
        env={**os.environ, "PYTHONIOENCODING": "utf-8", "PYTHONPATH": str(ROOT)},
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert output is not None, "the page does not say what it prints"
    assert done.stdout == output


def test_each_output_belongs_to_a_program() -> None:
    assert {block.language for block in BLOCKS} == {"python", "text"}
    assert sum(block.language == "text" for block in BLOCKS) == len(PROGRAMS)


def test_every_class_of_a_client_is_on_the_page() -> None:
    names = [
        name for name in rmqcore.client.__all__ if name.endswith(("Producer", "Consumer", "Admin"))
    ]
    assert names
    assert [name for name in names if f"`{name}`" not in TEXT] == []


def test_every_call_of_an_administrator_is_on_the_page() -> None:
    calls = [name for name in vars(Admin) if not name.startswith("_") and name != "close"]
    assert len(calls) > 9
    assert [name for name in calls if f"`{name}(" not in TEXT] == []
