"""docs/config.md has a line for every setting, and each line is true: who reads the setting, or what is said of it."""

from __future__ import annotations

import ast
import dataclasses
import re
from collections.abc import Iterator
from typing import NamedTuple

from support.places import ROOT

import rmqcore
from rmqcore import MessageStoreConfig
from rmqcore.config.broker_conf import java_name
from rmqcore.config.fields import rule_of
from rmqcore.config.unused import LEFT_TO_JAVA, NOT_SERVED_KEYS, REFUSED_KEYS, UNUSED

PAGE = (ROOT / "docs" / "config.md").read_text(encoding="utf-8")
FIELDS = {f.name: f.default for f in dataclasses.fields(MessageStoreConfig) if f.name != "extra"}
NOT_IN_JAVA = {f.name for f in dataclasses.fields(MessageStoreConfig) if not rule_of(f).in_java}


class Line(NamedTuple):
    """One line of a table."""

    java: str | None
    default: str
    does: str
    since: str


LINES = {
    match[1]: Line(*match.groups()[1:])
    for match in re.finditer(
        r"^\| `(\w+)` \| (?:`(\w+)`)? ?\| `([^`]*)` \| (.+) \| (\S+) \|$", PAGE, re.MULTILINE
    )
}


def readers() -> dict[str, list[str]]:
    """Places of the package where an attribute with the name of a field is read."""
    found: dict[str, list[str]] = {name: [] for name in FIELDS}
    for path in sorted((ROOT / "rmqcore").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
                found.get(node.attr, []).append(f"{path.relative_to(ROOT)}:{node.lineno}")
    for path in sorted((ROOT / "src").rglob("*.pyx")):
        for match in re.finditer(r"\bconfig\.(\w+)", path.read_text(encoding="utf-8")):
            found.get(match[1], []).append(str(path.relative_to(ROOT)))
    return found


READERS = readers()


def test_every_field_has_a_line_and_every_line_a_field() -> None:
    """A setting that is on no list is a setting of which nobody knows what it does."""
    assert set(LINES) == set(FIELDS), "docs/config.md: a line for each field of MessageStoreConfig"
    assert PAGE.count("\n| `") == len(FIELDS), "a line that this test cannot read"


def test_each_line_is_true() -> None:
    assert [text for name in FIELDS for text in lies(name)] == []


def lies(name: str) -> Iterator[str]:
    """What is not true of a field's line, in words."""
    line = LINES[name]
    if line.default != str(FIELDS[name]):
        yield f"{name}: the default is {FIELDS[name]}, not {line.default}"
    java = None if name in NOT_IN_JAVA else java_name(name)
    if line.java != java:
        yield f"{name}: in Java it is {java}, not {line.java}"
    if line.since > rmqcore.__version__:
        yield f"{name}: {line.since} is yet to come"
    if name in UNUSED:
        if line.does != f"**nothing** (warning): {UNUSED[name]}":
            yield f"{name}: it does nothing: {UNUSED[name]}"
        if READERS[name]:
            yield f"{name}: {READERS[name]} read it: take it out of rmqcore/config/unused.py"
    else:
        if line.does.startswith("**"):
            yield f"{name}: it is not without use"
        if not READERS[name]:
            yield f"{name}: nothing reads it: implement it or warn"


def test_what_is_said_of_no_field_is_not_there() -> None:
    assert set(UNUSED) <= set(FIELDS)
    assert all(f"`{key}" in PAGE for key in (*REFUSED_KEYS, *LEFT_TO_JAVA, *NOT_SERVED_KEYS))
