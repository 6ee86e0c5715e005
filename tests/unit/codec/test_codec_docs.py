"""docs/codec.md: its blocks run and print what stands below them, and every name of the codec is on it."""

from __future__ import annotations

import inspect
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from support.pages import Block, fenced_blocks
from support.places import ROOT

from rmqcore import codec

PAGE = "docs/codec.md"
BLOCKS = fenced_blocks(PAGE)
TEXT = (ROOT / PAGE).read_text(encoding="utf-8")
PROGRAMS = [
    (block, behind.text if behind.language == "text" else None)
    for block, behind in zip(BLOCKS, [*BLOCKS[1:], Block(PAGE, 0, "", "")], strict=True)
    if block.language == "python"
]


@pytest.mark.parametrize(("block", "output"), PROGRAMS, ids=[str(block) for block, _ in PROGRAMS])
def test_a_block_prints_what_stands_below_it(
    golden: Path, tmp_path: Path, block: Block, output: str | None
) -> None:
    if "import pyarrow" in block.text:
        pytest.importorskip("pyarrow")
    code = block.text.replace("/data/store", str(golden / "basic" / "store"))
    code = code.replace("Orders/0", "TopicBasicA/0").replace('"ORDER_1"', '"key-0-0"')
    if "rmqcore.read" in code:
        code = code.replace('"Orders"', '"TopicBasicA"')
    elif output is not None:
        code = block.text
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        cwd=tmp_path,
        capture_output=True,
        encoding="utf-8",
        check=False,
        env={**os.environ, "PYTHONIOENCODING": "utf-8"},
    )
    assert (done.returncode, done.stderr) == (0, "")
    if output is not None:
        assert done.stdout == output
    else:
        assert "assert" in code or done.stdout


def test_each_output_belongs_to_a_program() -> None:
    assert {block.language for block in BLOCKS} == {"python", "text"}
    assert sum(block.language == "text" for block in BLOCKS) == sum(
        output is not None for _, output in PROGRAMS
    )


def test_every_name_is_on_the_page() -> None:
    names = codec.__all__
    assert [name for name in names if not re.search(rf"`(codec\.)?{name}\b", TEXT)] == []


def test_every_function_has_its_cost_and_an_example() -> None:
    costs = TEXT.partition("## What a call costs")[2]
    functions = [name for name in codec.__all__ if not isinstance(getattr(codec, name), type)]
    assert functions
    assert [n for n in functions if not re.search(rf"^\|.*`{n}\b", costs, re.MULTILINE)] == []
    programs = "\n".join(block.text for block, _ in PROGRAMS)
    assert [name for name in functions if f"codec.{name}(" not in programs] == []


def test_the_signatures_on_the_page_are_those_of_the_functions() -> None:
    found = re.findall(r"\*\*`(\w+)\(([^)]*)\)`\*\*", TEXT)
    assert len(found) > 8
    for name, parameters in found:
        names = [part.strip().split("=")[0] for part in parameters.split(",")]
        expected = list(inspect.signature(getattr(codec, name)).parameters)
        named = [name for name in names if name not in ("*", "...")]
        if "..." not in names and name not in ("encode_properties", "properties"):
            assert named == expected, name
