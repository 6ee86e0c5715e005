"""Layers that import-linter cannot see: what the extension modules import, and C kernels without Python.

An extension sits below all Python modules. It may raise the package's errors, which import nothing; every other arrow
up is listed here with its reason.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
NATIVE = ROOT / "src" / "rmqcore" / "_native"
ALLOWED_UP = {
    ("codec", "rmqcore.errors"): "errors import nothing, so that native code may raise them",
    ("mapped_file", "rmqcore.errors"): "likewise",
    ("commitlog", "rmqcore.errors"): "likewise",
    ("commitlog", "rmqcore.status"): "status imports nothing, so that native code may answer it",
    ("get", "rmqcore.status"): "likewise",
    (
        "codec",
        "rmqcore.compression",
    ): "MessageView.decompress(), inside the call: ZLIB, LZ4 and ZSTD are Python's",
}
ALLOWED_BETWEEN = {
    ("codec", "kernels"),
    ("scan", "kernels"),
    ("scan", "codec"),
    ("commitlog", "codec"),
    ("commitlog", "kernels"),
    ("commitlog", "mapped_file"),
    ("commitlog", "message"),
    ("get", "codec"),
    ("get", "kernels"),
    ("get", "mapped_file"),
    ("get", "queues"),
    ("query", "codec"),
    ("query", "commitlog"),
    ("query", "mapped_file"),
    ("query", "mapped_index"),
    ("queues", "cq"),
    ("queues", "kernels"),
    ("queues", "scan"),
    ("arrow_put", "commitlog"),
    ("mapped_index", "kernels"),
    ("mapped_index", "mapped_file"),
    ("mapped_index", "scan"),
    ("mapped_index", "index"),
    ("value_columns", "codec"),
    ("value_columns", "kernels"),
    ("value_columns", "scan"),
}
STATEMENT = re.compile(
    r"^\s*(?:from\s+([\w.]+)\s+c?import\b|c?import\s+([\w., ]+))",
    re.MULTILINE,
)


def names(source: str) -> set[str]:
    """Modules that a Cython source imports or cimports, each once."""
    found = set()
    for start, plain in STATEMENT.findall(source):
        parts = [start] if start else [part.split(" as ")[0].strip() for part in plain.split(",")]
        found.update(parts)
    return found


def ours(source: str) -> set[str]:
    """Of these the package's own: a sibling by its name, everything else with the package."""
    found = set()
    for name in names(source):
        if name.startswith((".", "rmqcore._native")):
            found.add(name.removeprefix("rmqcore._native").removeprefix("."))
        elif name.partition(".")[0] == "rmqcore":
            found.add(name)
    return found


@pytest.mark.parametrize("path", sorted(NATIVE.glob("*.p[yx][xd]")), ids=lambda path: path.name)
def test_extensions_import_siblings_below_and_errors(path: Path) -> None:
    for name in ours(path.read_text(encoding="utf-8")):
        if name.startswith("rmqcore"):
            assert (path.stem, name) in ALLOWED_UP
        elif name != path.stem:
            assert (path.stem, name) in ALLOWED_BETWEEN


def test_every_allowed_arrow_is_still_there() -> None:
    up = {
        (path.stem, name)
        for path in NATIVE.glob("*.pyx")
        for name in ours(path.read_text(encoding="utf-8"))
    }
    assert set(ALLOWED_UP) <= up
    assert up - set(ALLOWED_UP) == ALLOWED_BETWEEN


def test_the_reader_of_imports_knows_every_form() -> None:
    source = "cimport a.b\nfrom .c cimport x\nimport d, e as f\n    from rmqcore._native.g import (\n# import h\nfrom . import i"
    assert names(source) == {"a.b", ".c", "d", "e", "rmqcore._native.g", "."}


@pytest.mark.parametrize("path", sorted(NATIVE.glob("*.[ch]")), ids=lambda path: path.name)
def test_kernels_know_no_python(path: Path) -> None:
    included = re.findall(
        r"^\s*#\s*include\s*[<\"]([^>\"]+)", path.read_text(encoding="utf-8"), re.MULTILINE
    )
    assert "Python.h" not in included
    assert not [name for name in included if name.startswith("numpy")]


@pytest.mark.parametrize(
    "path", sorted((ROOT / "rmqcore").rglob("*.py")), ids=lambda path: str(path.relative_to(ROOT))
)
def test_inside_the_package_modules_are_named_and_not_taken_from_the_top(path: Path) -> None:
    """`from rmqcore import read` in a low module would reach up where import-linter cannot see it."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module == "rmqcore":
            for alias in node.names:
                module = ROOT / "rmqcore" / alias.name
                assert (
                    module.with_suffix(".py").exists()
                    or module.is_dir()
                    or alias.name == "__version__"
                ), alias.name
