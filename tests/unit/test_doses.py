"""How much a run tries: what RMQCORE_DOSE chooses, and what leaves a test out."""

from __future__ import annotations

import itertools
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import settings
from support import tools
from support.doses import LEVEL, LEVELS, dose, examples
from support.places import ROOT

PROFILE = """
import conftest
from hypothesis import settings
from support.doses import dose, examples
print(settings().derandomize, settings().max_examples, examples(0.5).max_examples)
print(dose("RMQCORE_SOMETHING", test=1, verify=2, night=3))
"""


def shown(code: str, **variables: str) -> str:
    path = os.pathsep.join([str(ROOT / "tests"), str(ROOT), *filter(None, sys.path)])
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": path, **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout if done.returncode == 0 else done.stderr


@pytest.mark.parametrize(
    ("level", "is_repeated", "count", "number"),
    [("test", True, 25, 1), ("verify", False, 100, 2), ("night", False, 1500, 3)],
)
def test_a_level_has_its_examples_and_numbers(
    level: str, is_repeated: bool, count: int, number: int
) -> None:
    """With CI in the environment Hypothesis once repeated its examples at every level, and SEED= did nothing."""
    half = max(1, round(count / 2))
    for ci in ({}, {"CI": "true"}):
        said = shown(PROFILE, RMQCORE_DOSE=level, **ci)
        assert said == f"{is_repeated} {count} {half}\n{number}\n"


def test_a_variable_goes_before_the_level() -> None:
    said = shown(PROFILE, RMQCORE_DOSE="verify", RMQCORE_SOMETHING="17")
    assert said.splitlines()[1] == "17"


SLEEPER = """
from support.doses import dose
from support.eventually import eventually
import time
END = time.monotonic() + dose("RMQCORE_SOMETHING", test=2, verify=2, night=2)
def test_long() -> None:
    eventually(lambda: time.monotonic() > END, within_s=60)
"""


@pytest.mark.parametrize(
    ("variables", "is_stopped"),
    [({}, True), ({"RMQCORE_SOMETHING": "2"}, False), ({"RMQCORE_DOSE": "night"}, False)],
)
def test_a_large_dose_is_not_stopped_for_its_time(
    tmp_path: Path, variables: dict[str, str], is_stopped: bool
) -> None:
    """Half an hour of faults at a broker ended after 15 minutes, with the stacks of its threads, and no night noticed."""
    (tmp_path / "conftest.py").write_text((ROOT / "tests" / "conftest.py").read_text())
    (tmp_path / "test_sleeper.py").write_text(SLEEPER)
    path = os.pathsep.join([str(ROOT / "tests"), str(ROOT), *filter(None, sys.path)])
    words = ["-o", "faulthandler_timeout=0.5", "-o", "faulthandler_exit_on_timeout=true"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *words, tmp_path],
        env={**os.environ, "PYTHONPATH": path, **variables},
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert ("Timeout" in done.stderr, done.returncode != 0) == (is_stopped, is_stopped)


def test_an_unknown_level_is_named() -> None:
    assert "RMQCORE_DOSE is 'ci', expected one of test, verify, night" in shown(
        PROFILE, RMQCORE_DOSE="ci"
    )


def test_no_test_has_a_number_of_its_own() -> None:
    """`@settings(max_examples=N)` goes before every profile: the night tried nothing new there."""
    found = [
        str(path.relative_to(ROOT))
        for path in (ROOT / "tests").rglob("*.py")
        if re.search(r"max_examples=\d", path.read_text(encoding="utf-8"))
        and path.name not in ("conftest.py", Path(__file__).name)
    ]
    assert found == []
    assert LEVEL in LEVELS
    assert examples(1).max_examples == settings().max_examples
    assert dose("RMQCORE_NOT_SET", test=7, verify=7, night=7) == 7


def test_ci_leaves_out_the_long_tests_alone() -> None:
    """Whatever its other marks are, a test that is not `long` is in `make test`, under the sanitizers, or in CI's rest."""
    makefile, ci, sanitize = (
        (ROOT / name).read_text(encoding="utf-8")
        for name in ("Makefile", ".ci/run", "scripts/sanitize.sh")
    )
    chosen = re.findall(r"-m '([a-z ()]+)' tests\)", makefile) + re.findall(r"-m '([a-z ()]+)'", ci)
    assert len(chosen) == 2
    chosen += re.findall(r"-m (\w+) -n", sanitize)
    names = sorted(set(re.findall(r"\w+", " ".join(chosen))) - {"and", "or", "not"})
    assert names == ["long", "outside", "sanitized", "smoke"]
    for marks in itertools.product([False, True], repeat=len(names)):
        found = dict(zip(names, marks, strict=True))
        is_run = any(eval(words, {}, found) for words in chosen)
        assert is_run or found["long"], found


def test_programs_that_are_missing_have_one_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    assert tools.missing(["go", "javac"]) == ["go", "javac"]
    monkeypatch.setattr("sys.platform", "linux")
    assert tools.how_to_install(["go", "javac"]) == (
        "sudo apt-get install --no-install-recommends golang-go openjdk-17-jdk-headless"
    )


LEFT_OUT = """
import pytest

@pytest.mark.needs("go")
def test_of_go():
    pass

def test_of_nothing():
    pass
"""


@pytest.mark.parametrize("in_ci", [False, True])
def test_a_test_without_its_program_is_left_out_and_fails_in_ci(
    tmp_path: Path, in_ci: bool
) -> None:
    """The last lines say which, how many, and what brings the program."""
    folder = ROOT / "tests" / "unit"
    (tmp_path / "test_needs_go.py").write_text(LEFT_OUT)
    environment = {**os.environ, "PATH": "", "RMQCORE_DOSE": "test"}
    environment.pop("CI", None)
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider"),
            *(f"--rootdir={ROOT}", f"-c={ROOT / 'pyproject.toml'}", "-p", "conftest"),
            tmp_path,
        ],
        cwd=folder,
        env={
            **environment,
            "PYTHONPATH": str(ROOT / "tests"),
            **({"CI": "true"} if in_ci else {}),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    told = "sudo apt-get install --no-install-recommends golang-go"
    if in_ci:
        assert done.returncode == 1, done.stdout
        assert f"needs go: {told}" in done.stdout
    else:
        assert done.returncode == 0, done.stdout + done.stderr
        *_, which, command, counts = done.stdout.strip().splitlines()
        assert which.split()[0] == "1"
        assert which.endswith("test_needs_go.py")
        assert command == f"to run them: {told}"
        assert counts.startswith("1 passed, 1 skipped")
