"""Completion: verbs, formats, and topics of the store named before on the line."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from support.cli.cli_runs import COMMAND, environment


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
    assert completed(f"rmqcore {verb} --limit 3 {store} --key k --topic TopicBasicB") == every[1:2]
    assert completed(f"rmqcore {verb} {store} --topic topic") == []


def test_another_shell(golden: Path) -> None:
    offered = completed(f"rmqcore cat {golden / 'basic' / 'store'} --topic TopicBasicA", "zsh")
    assert "TopicBasicA" in " ".join(offered)
    assert "TopicBasicB" not in " ".join(offered)


@pytest.mark.parametrize("store", ["/nowhere", "", "'half", "~nobody-of-this-name"])
def test_silence_where_there_is_no_store(tmp_path: Path, store: str) -> None:
    assert completed(f"rmqcore cat {store} {tmp_path} --topic ") == []


def test_verbs_and_formats(golden: Path) -> None:
    assert completed("rmqcore ca") == ["cat"]
    assert completed("rmqcore cat STORE --format p") == ["parquet"]


def test_only_the_verb_of_the_line_is_loaded() -> None:
    """All of them took most of a second, for each tab."""
    code = (
        "import os, sys; os.environ['_RMQCORE_COMPLETE'] = 'complete_bash';"
        "os.environ |= {'COMP_WORDS': 'rmqcore cat --to', 'COMP_CWORD': '2'};"
        "from rmqcore.cli import main; main([]);"
        "sys.exit('rmqcore.cli.verbs.fsck' in sys.modules or 'rmqcore.cli.verbs.cat' not in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["--topic", "--to-phy"]
