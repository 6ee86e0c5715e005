"""docs/reliability.md: every command that it gives is one, and every test and variable that it names is there."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path

import pytest
from support.places import ROOT
from support.reliability_page import PAGE, silent_fields

from rmqcore.testing import byte_flips, torture

TEXT = PAGE.read_text(encoding="utf-8")
COMMANDS = sorted(set(re.findall(r"python -m rmqcore\.testing\.torture[^`\n]*", TEXT)))


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_is_one(command: str) -> None:
    words = shlex.split(command)[3:]
    options = torture.arguments().parse_args([word for word in words if not word.startswith("[")])
    assert options.dir


def test_every_part_of_the_command_is_told_of() -> None:
    assert {part.name for part in torture.all_parts()} == set(
        re.findall(r"--part ([\w-]+)", TEXT)
    ) - {"NAME"}


@pytest.mark.parametrize("variable", sorted(set(re.findall(r"RMQCORE_\w+", TEXT))))
def test_a_variable_is_read_somewhere(variable: str) -> None:
    files = [*(ROOT / "tests").rglob("*.py")]
    assert [path for path in files if f'"{variable}"' in path.read_text(encoding="utf-8")]


@pytest.mark.parametrize("name", sorted(set(re.findall(r"\btests/[\w/.]+\b(?:::\w+)?", TEXT))))
def test_a_test_is_there(name: str) -> None:
    path, _, function = name.partition("::")
    assert (ROOT / path).exists()
    assert not function or f"def {function}(" in (ROOT / path).read_text(encoding="utf-8")


@pytest.mark.parametrize("target", sorted(set(re.findall(r"`(?:\w+=\S+ )*make (\w+)", TEXT))))
def test_a_target_is_there(target: str) -> None:
    assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)


def test_the_nightly_run_has_its_stage() -> None:
    workflow = (ROOT / ".github" / "workflows" / "nightly.yml").read_text(encoding="utf-8")
    assert ".ci/run torture" in workflow
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert "stage_torture()" in script
    assert "torture" not in re.findall(r"stages=\(([\w ]+)\)", script)[0].split()


def test_its_script_is_one() -> None:
    subprocess.run(["bash", "-n", ROOT / "scripts" / "torture.sh"], check=True)


def test_fields_that_no_check_covers_are_fields(tmp_path: Path) -> None:
    for prop_crc, silent in silent_fields().items():
        folder = tmp_path / str(prop_crc)
        folder.mkdir()
        flips = byte_flips.Flips(folder, prop_crc=prop_crc)
        assert silent <= {place.field for place in flips.places()}
