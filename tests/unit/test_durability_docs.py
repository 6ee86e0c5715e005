"""docs/durability.md names the tests that show what it promises: they are there; and its numbers are the defaults."""

from __future__ import annotations

import ast
import re

from support.places import ROOT

from rmqcore import MessageStoreConfig
from rmqcore.services.group_commit import GATHER

PAGE = (ROOT / "docs" / "durability.md").read_text(encoding="utf-8")
NAMED = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", PAGE)
ANSWERS = PAGE[PAGE.index("## What an answer") : PAGE.index("## After a failure")]


def test_each_test_that_is_named_is_there() -> None:
    """The page promised FLUSH_SLAVE_TIMEOUT, which no line of the package could answer: it named nothing that would show it."""
    assert NAMED
    missing = []
    for path in sorted({path for path, _ in NAMED}):
        tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
        there = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
        missing += [f"{one}::{name}" for one, name in NAMED if one == path and name not in there]
    assert missing == []


def test_every_answer_is_shown() -> None:
    """Each row of the first table has its row in the second one."""
    answers = re.findall(
        r"^\| [^|]+ \| ([A-Z_]{4,}|StoreFailedError|another status)", ANSWERS, re.MULTILINE
    )
    shown = ANSWERS[ANSWERS.index("is shown by") :]
    for answer in answers:
        names = {
            "FLUSH_SLAVE_TIMEOUT": "| SYNC_MASTER |",
            "SERVICE_NOT_AVAILABLE": "| a follower |",
        }
        assert names.get(answer, answer) in shown, answer
    assert len(set(answers)) == 7


def test_numbers_are_the_defaults() -> None:
    config = MessageStoreConfig()
    assert f"up to {config.flush_interval_commit_log} ms" in ANSWERS
    assert f"at least {config.flush_commit_log_least_pages} pages" in ANSWERS
    assert f"up to {config.flush_commit_log_thorough_interval // 1000} s" in ANSWERS
    assert f"about {GATHER * 1000:.0f} ms later" in ANSWERS
