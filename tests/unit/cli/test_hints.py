"""No hint leads in a circle: each command that one names exists, and gives another answer than the one that named it."""

from __future__ import annotations

import ast
import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer
from support.doses import dose
from support.stores.sick_stores import HARMS, Sick, sound_store

import rmqcore
from rmqcore.cli import main
from rmqcore.cli.app import application
from rmqcore.disk.used_space import DiskSpace
from rmqcore.engine.clean import disks
from rmqcore.maintenance.retention import growing_disks

COMMAND = re.compile(r"`rmqcore ([^`]+)`|(?<!`)\brmqcore ([a-z-]+ STORE\b[^,;(|`]*)")
PACKAGE = Path(rmqcore.__file__).parent
SHOWN_IN_USAGE = {"VERB", "{self._listed_by}"}
"""Where the text stands for any command."""
NOT_OF_FILES = {"files_overdue", "disk_full", "disk_nearly_full", "disk_fills", "unreadable"}
"""Harms of the machine, not of the files: every command answers as for a sound store."""
VERBS = (
    ("info",),
    ("cat",),
    ("stats",),
    ("fsck",),
    ("doctor",),
    ("retention",),
    ("get", "--topic", "T1", "--queue", "0", "--offset", "0"),
    ("query", "--topic", "T1", "--key", "k1"),
    ("export", "--out", "NEW", "--format", "jsonl"),
    ("diff", "SAME"),
    ("backup", "NEW"),
    ("salvage", "NEW"),
    ("rebuild", "--out", "NEW"),
    ("rebuild", "--apply"),
    ("recover",),
    ("recover", "--apply"),
)


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("sound") / "store"
    sound_store(root)
    return root


def commands(text: str) -> list[str]:
    """The commands that a text names, without `rmqcore`."""
    return [(quoted or plain).strip() for quoted, plain in COMMAND.findall(text)]


# ---- each command exists ----------------------------------------------------------------------------


def texts(path: Path) -> Iterator[str]:
    """Each string of a module but its docstrings; what an f-string puts in is {...}."""
    tree = ast.parse(path.read_text())
    inside = {
        id(part)
        for node in ast.walk(tree)
        if isinstance(node, ast.JoinedStr)
        for part in ast.walk(node)
        if part is not node
    }
    docstrings = {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    for node in ast.walk(tree):
        if id(node) in inside or id(node) in docstrings:
            continue
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
        elif isinstance(node, ast.JoinedStr):
            yield "".join(
                str(part.value)
                if isinstance(part, ast.Constant)
                else "{" + ast.unparse(part.value) + "}"
                for part in node.values
                if isinstance(part, ast.Constant | ast.FormattedValue)
            )


def test_each_command_in_a_message_exists() -> None:
    program = typer.main.get_command(application([], lambda code: code))
    found = 0
    for path in sorted(PACKAGE.rglob("*.py")):
        for quoted in (quoted for text in texts(path) for quoted in commands(text)):
            words, command = quoted.split(), program
            if words[0] in SHOWN_IN_USAGE:
                continue
            while words and not words[0].startswith("-") and hasattr(command, "commands"):
                assert words[0] in command.commands, (path, quoted)
                command = command.commands[words.pop(0)]
                if words and words[0] in SHOWN_IN_USAGE:
                    break
            options = {name for one in command.params for name in one.opts}
            wrong = {word for word in words if word.startswith("--")} - options - {"--help"}
            assert not wrong, (path, quoted)
            found += 1
    assert found > 30


# ---- each command helps -----------------------------------------------------------------------------


def typed(words: str, store: Path, base: Path) -> list[str]:
    """What a user types who reads a hint: the store in place of STORE, new folders in place of the others."""
    new = iter(range(9))
    done = [
        str(store)
        if word == "STORE"
        else str(base / f"hint{next(new)}")
        if word in ("OUT", "DIR", "DEST", "NEW")
        else word
        for word in shlex.split(words)
    ]
    return done if str(store) in done else [done[0], str(store), *done[1:]]


EACH = [
    (name, number)
    for name, harms in HARMS.items()
    if name not in NOT_OF_FILES
    for number in range(len(harms))
]
EVERY = dose("RMQCORE_HINTS", test=5, verify=1, night=1)
"""Of the harms each so many-th is tried."""


@pytest.mark.parametrize(("name", "number"), EACH[::EVERY])
def test_no_hint_leads_in_a_circle(
    sound: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    name: str,
    number: int,
) -> None:
    monkeypatch.setattr(disks, "used_percent", lambda _: 10)
    monkeypatch.setattr(growing_disks, "disk_space", lambda _: DiskSpace(1 << 30, 9 << 30))
    sick = Sick(Path(shutil.copytree(sound, tmp_path / "sick" / "store")), monkeypatch)
    HARMS[name][number](sick)
    for verb in VERBS:
        shutil.rmtree(tmp_path / "run", ignore_errors=True)
        store = Path(shutil.copytree(sick.root, tmp_path / "run" / "store", symlinks=True))
        words = [str({"NEW": store.parent / "new", "SAME": sound}.get(word, word)) for word in verb]
        code = main([words[0], str(store), *words[1:]])
        said = capsys.readouterr().err
        hints = [line for line in said.splitlines() if line.startswith("Hint: ")]
        assert code in (0, 1, 2), (verb, said)
        for hint in hints:
            for command in commands(hint):
                next_words = typed(command, store, store.parent)
                then = main(next_words)
                answer = capsys.readouterr().err
                assert then in (0, 2), f"{verb}: {said}\n{next_words}: {answer}"
                assert hint not in answer.splitlines(), (
                    f"{verb} and {next_words} lead to each other: {answer}"
                )
    for held in sick.held:
        held.close()
