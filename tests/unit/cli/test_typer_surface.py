"""The command line stands on what Typer documents."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from support.places import ROOT

typer = pytest.importorskip("typer")

PACKAGE = ROOT / "rmqcore"
FILES = sorted(path.relative_to(PACKAGE) for path in PACKAGE.rglob("*.py"))


@pytest.mark.parametrize("file", [file for file in FILES if "cli" in file.parts], ids=str)
def test_only_what_typer_documents_is_used(file: Path) -> None:
    """``import typer`` and its public names; what Typer has inside has moved four times since it holds a copy of Click."""
    for node in ast.walk(ast.parse((PACKAGE / file).read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            assert (node.module or "").partition(".")[0] not in ("typer", "click"), node.lineno
        if isinstance(node, ast.Import):
            for name in node.names:
                root, inside, _ = name.name.partition(".")
                assert root != "click" and not (root == "typer" and inside), node.lineno
        if isinstance(node, ast.Attribute) and ast.unparse(node.value).startswith("typer"):
            assert not node.attr.startswith("_"), node.lineno
            assert isinstance(node.value, ast.Name), node.lineno
            assert hasattr(typer, node.attr), node.lineno
