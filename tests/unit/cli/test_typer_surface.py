"""The command line stands on what Typer documents."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.places import ROOT

typer = pytest.importorskip("typer")

PACKAGE = ROOT / "rmqcore"
FILES = sorted(path.relative_to(PACKAGE) for path in PACKAGE.rglob("*.py"))


def test_only_what_typer_documents_is_used() -> None:
    """``import typer`` and its public names; what Typer has inside has moved four times since it holds a copy of Click."""
    files = [file for file in FILES if "cli" in file.parts]
    assert len(files) > 20
    wrong = [f"{file}:{use}" for file in files for use in undocumented(PACKAGE / file)]
    assert not wrong, "\n".join(wrong)


def undocumented(path: Path) -> Iterator[str]:
    """Give line and text of each use of what Typer does not document."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        match node:
            case ast.ImportFrom(module=module):
                wrong = (module or "").partition(".")[0] in ("typer", "click")
            case ast.Import(names=names):
                wrong = any(
                    name.name.partition(".")[0] == "click" or name.name.startswith("typer.")
                    for name in names
                )
            case ast.Attribute(value=value, attr=attr) if ast.unparse(value).startswith("typer"):
                wrong = (
                    attr.startswith("_")
                    or not isinstance(value, ast.Name)
                    or not hasattr(typer, attr)
                )
            case _:
                continue
        if wrong:
            yield f"{node.lineno}: {ast.unparse(node)}"
