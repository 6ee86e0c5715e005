"""Completion: verbs, formats, and topics of the store named before on the line."""

from __future__ import annotations

import functools
import subprocess
import sys
from pathlib import Path
from typing import Protocol

import pytest
from support.cli.cli_runs import COMMAND, Run, environment

from rmqcore.cli.names import LINE_OF_TYPER


class Completed(Protocol):
    """Answers what a shell is offered at the end of a line."""

    def __call__(self, line: str, shell: str = "bash") -> list[str]: ...


def asked(line: str, shell: str) -> dict[str, str]:
    """The environment in which a shell asks what may stand at the end of a line."""
    return {
        "COMP_WORDS": line,
        "COMP_CWORD": str(len(line.split()) - (not line.endswith(" "))),
        "_TYPER_COMPLETE_ARGS": line if shell == "zsh" else "",
        "_RMQCORE_COMPLETE": f"complete_{shell}",
    }


@pytest.fixture
def completed(rmqcore: Run, monkeypatch: pytest.MonkeyPatch) -> Completed:
    """What a shell is offered, by the command line in this process: a process for each line took most of a second."""

    def complete(line: str, shell: str = "bash") -> list[str]:
        with monkeypatch.context() as patched:
            for name, value in asked(line, shell).items():
                patched.setenv(name, value)
            done = rmqcore()
        assert done.err == ""
        return done.out.decode().split()

    return complete


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_a_process_of_its_own_offers_the_same(
    golden: Path, completed: Completed, shell: str
) -> None:
    line = f"rmqcore cat {golden / 'basic' / 'store'} --topic TopicBasicA"
    done = subprocess.run(
        COMMAND,
        env=environment(**asked(line, shell)),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stderr == ""
    assert "TopicBasicA" in done.stdout
    assert "TopicBasicB" not in done.stdout
    assert done.stdout.split() == completed(line, shell)


@pytest.mark.parametrize("verb", ["cat", "tail", "get", "query", "export", "stats"])
def test_topics_of_the_store(golden: Path, completed: Completed, verb: str) -> None:
    store = golden / "basic" / "store"
    every = ["TopicBasicA", "TopicBasicB", "TopicBasicC"]
    assert completed(f"rmqcore {verb} {store} --topic ") == every
    before = f"--format jsonl --commitlog {store.parent}"  # a directory too, and not the store
    line = f"rmqcore {verb} {before} {store} --follow-links --topic TopicBasicB"
    assert completed(line) == every[1:2]
    assert completed(f"rmqcore {verb} {store} --topic topic") == []


@pytest.mark.parametrize("shell", ["bash", "zsh"])
@pytest.mark.parametrize(
    "name",
    ["z$(touch ran)", "z\\$(touch ran)", "z`id`", "z;id", "z|id", "z a", "z\x1b[31m", "z'", 'z"'],
)
def test_a_name_that_a_shell_would_run_is_not_offered(
    tmp_path: Path, completed: Completed, shell: str, name: str
) -> None:
    """Zsh ran the command in the name of a topic when Tab was pressed behind the path of a stranger's store."""
    (tmp_path / "commitlog").mkdir()
    for topic in (name, "z_sound"):
        (tmp_path / "consumequeue" / topic / "0").mkdir(parents=True)
    offered = " ".join(completed(f"rmqcore cat {tmp_path} --topic z", shell))
    assert "z_sound" in offered
    assert name not in offered
    assert "touch" not in offered


@pytest.mark.parametrize("store", ["/nowhere", "", "'half", "~nobody-of-this-name"])
def test_silence_where_there_is_no_store(tmp_path: Path, completed: Completed, store: str) -> None:
    assert completed(f"rmqcore cat {store} {tmp_path} --topic ") == []


def test_verbs_and_formats(golden: Path, completed: Completed) -> None:
    assert completed("rmqcore ca") == ["cat"]
    assert completed("rmqcore cat STORE --format p") == ["parquet"]


LOADS = """
import os, sys
os.environ["_RMQCORE_COMPLETE"] = "complete_" + {shell!r}
os.environ |= {given!r}
from rmqcore.cli import main, names
names.LINE_OF_TYPER = {line_of_typer!r}
main([])
print("all" if "rmqcore.cli.verbs.fsck" in sys.modules else "one", file=sys.stderr)
"""


@functools.cache  # two tests look at the same processes
def completed_with(shell: str, line_of_typer: str, words: str) -> tuple[str, str]:
    """What is offered, and whether all verbs were loaded for it."""
    given = {"COMP_WORDS": words, "COMP_CWORD": str(len(words.split()) - (not words.endswith(" ")))}
    if shell != "bash":
        given = {"_TYPER_COMPLETE_ARGS": words, "_TYPER_COMPLETE_FISH_ACTION": "get-args"}
    code = LOADS.format(shell=shell, given=given, line_of_typer=line_of_typer)
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment(), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr.strip()


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_only_the_verb_of_the_line_is_loaded(golden: Path, shell: str) -> None:
    """All of them took most of a second, for each tab.

    If this fails for zsh and fish alone, Typer's scripts name the line otherwise: see `rmqcore.cli.names.words_to_complete`.
    """
    words = f"rmqcore cat {golden / 'basic' / 'store'} --topic TopicBasicA"
    offered, loaded = completed_with(shell, LINE_OF_TYPER, words)
    assert loaded == "one"
    assert "TopicBasicA" in offered
    assert "TopicBasicB" not in offered


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_typers_own_variable_decides_on_the_time_alone(golden: Path, shell: str) -> None:
    words = f"rmqcore cat {golden / 'basic' / 'store'} --topic TopicBasicA"
    told = completed_with(shell, LINE_OF_TYPER, words)
    untold = completed_with(shell, "ANOTHER_NAME", words)
    assert (told[0], "all") == untold


def test_options_of_the_verb(completed: Completed) -> None:
    assert completed("rmqcore cat --to") == ["--topic", "--to-phy"]
