"""docs/reliability.md: every command that it gives is one, and every test and variable that it names is there."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path

import pytest
from support.faults import byte_flips
from support.places import ROOT
from support.reliability_page import PAGE, silent_fields

from rmqcore.testing import torture

TEXT = PAGE.read_text(encoding="utf-8")
COMMANDS = sorted(set(re.findall(r"python -m rmqcore\.testing\.torture[^`\n]*", TEXT)))


def test_each_command_is_one() -> None:
    assert COMMANDS
    for command in COMMANDS:
        words = [word for word in shlex.split(command)[3:] if not word.startswith("[")]
        try:
            options = torture.arguments().parse_args(words)
        except SystemExit:
            pytest.fail(f"the program does not take the words of {command}")
        assert options.dir, command


def test_every_part_of_the_command_is_told_of() -> None:
    assert {part.name for part in torture.all_parts()} == set(
        re.findall(r"--part ([\w-]+)", TEXT)
    ) - {"NAME"}


def test_each_variable_is_read_somewhere() -> None:
    variables = set(re.findall(r"RMQCORE_\w+", TEXT))
    assert variables
    for path in (ROOT / "tests").rglob("*.py"):
        variables -= set(re.findall(r'"(RMQCORE_\w+)"', path.read_text(encoding="utf-8")))
    assert variables == set()


def test_each_test_is_there() -> None:
    named = set(re.findall(r"\btests/[\w/.]+\b(?:::\w+)?", TEXT))
    assert named
    assert sorted(name for name in named if not is_there(*name.partition("::")[::2])) == []


def is_there(path: str, function: str) -> bool:
    found = ROOT / path
    return found.exists() and (
        not function or f"def {function}(" in found.read_text(encoding="utf-8")
    )


def test_each_target_is_there() -> None:
    targets = set(re.findall(r"`(?:\w+=\S+ )*make (\w+)", TEXT))
    assert targets
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert targets - set(re.findall(r"^(\w+):", makefile, re.MULTILINE)) == set()


def test_the_nightly_run_has_its_stage() -> None:
    workflow = (ROOT / ".github" / "workflows" / "nightly.yml").read_text(encoding="utf-8")
    assert ".ci/run torture" in workflow
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert "stage_torture()" in script
    assert "torture" not in re.findall(r"stages=\(([\w+, ]+)\)", script)[0]


def test_its_script_is_one() -> None:
    subprocess.run(["bash", "-n", ROOT / "scripts" / "torture.sh"], check=True)


def test_fields_that_no_check_covers_are_fields(tmp_path: Path) -> None:
    for prop_crc, silent in silent_fields().items():
        folder = tmp_path / str(prop_crc)
        folder.mkdir()
        flips = byte_flips.Flips(folder, prop_crc=prop_crc)
        assert silent <= {place.field for place in flips.places()}
