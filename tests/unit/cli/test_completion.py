"""Completion: verbs, formats, and topics of the store named before on the line."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from support.cli.cli_runs import COMMAND, environment

from rmqcore.cli.names import LINE_OF_TYPER


def completed(line: str, shell: str = "bash") -> list[str]:
    """What a shell is offered at the end of a line."""
    given = {
        "COMP_WORDS": line,
        "COMP_CWORD": str(len(line.split()) - (not line.endswith(" "))),
        "_TYPER_COMPLETE_ARGS": line if shell == "zsh" else "",
        "_RMQCORE_COMPLETE": f"complete_{shell}",
    }
    done = subprocess.run(
        COMMAND, env=environment(**given), capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stderr == ""
    return done.stdout.split()


@pytest.mark.parametrize("verb", ["cat", "tail", "get", "query", "export", "stats"])
def test_topics_of_the_store(golden: Path, verb: str) -> None:
    store = golden / "basic" / "store"
    every = ["TopicBasicA", "TopicBasicB", "TopicBasicC"]
    assert completed(f"rmqcore {verb} {store} --topic ") == every
    before = f"--format jsonl --commitlog {store.parent}"  # a directory too, and not the store
    line = f"rmqcore {verb} {before} {store} --follow-links --topic TopicBasicB"
    assert completed(line) == every[1:2]
    assert completed(f"rmqcore {verb} {store} --topic topic") == []


def test_another_shell(golden: Path) -> None:
    offered = completed(f"rmqcore cat {golden / 'basic' / 'store'} --topic TopicBasicA", "zsh")
    assert "TopicBasicA" in " ".join(offered)
    assert "TopicBasicB" not in " ".join(offered)


@pytest.mark.parametrize("shell", ["bash", "zsh"])
@pytest.mark.parametrize(
    "name",
    ["z$(touch ran)", "z\\$(touch ran)", "z`id`", "z;id", "z|id", "z a", "z\x1b[31m", "z'", 'z"'],
)
def test_a_name_that_a_shell_would_run_is_not_offered(
    tmp_path: Path, shell: str, name: str
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
def test_silence_where_there_is_no_store(tmp_path: Path, store: str) -> None:
    assert completed(f"rmqcore cat {store} {tmp_path} --topic ") == []


def test_verbs_and_formats(golden: Path) -> None:
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


def test_options_of_the_verb() -> None:
    assert completed("rmqcore cat --to") == ["--topic", "--to-phy"]
