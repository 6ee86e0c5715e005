"""docs/architecture.md is the map of the tree: every file and folder that it names is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from support.places import ROOT

PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
NAMED = re.findall(r"`([\w./]+(?:\.(?:py|pyx|c|h|md|toml)|/))`", PAGE)
STORE_FOLDERS = {"commitlog/", "cut/"}
BASES = ["", "rmqcore", "src/rmqcore/_native", "src/rmqcore/_native/kernels"]


def found(name: str) -> bool:
    """Whether a file or folder of this name is there, as the page abbreviates it."""
    if any((ROOT / base / name).exists() for base in BASES):
        return True
    return "/" not in name.rstrip("/") and bool([*(ROOT / "rmqcore").rglob(name)])


@pytest.mark.parametrize("name", sorted(set(NAMED) - STORE_FOLDERS))
def test_what_the_page_names_is_there(name: str) -> None:
    assert found(name)


def test_the_page_names_every_room() -> None:
    """A room that is made later is put on the map."""
    packages = [
        path.parent.relative_to(ROOT / "rmqcore")
        for path in (ROOT / "rmqcore").rglob("__init__.py")
        if path.parent.name != "_native"
    ]
    rooms = {part for package in packages for part in package.parts}
    assert {room for room in rooms if f"{room}/" not in PAGE} == set()


def test_no_room_is_full() -> None:
    """Eighteen modules are what a reader takes in; a longer list wants rooms of its own."""
    full = {
        str(folder.relative_to(ROOT)): count
        for top in ("rmqcore", "src/rmqcore")
        for folder in [ROOT / top, *(ROOT / top).rglob("*/")]
        if (count := len(modules(folder))) > 18
    }
    assert full == {}


def modules(folder: Path) -> set[str]:
    """Names of modules or kernels: a header and its source are one."""
    return {
        path.stem
        for path in folder.iterdir()
        if path.suffix in (".py", ".pyx", ".c", ".h") and path.name != "__init__.py"
    }


@pytest.mark.parametrize("suffix", ["py", "pyx", "c", "h"])
def test_no_source_file_is_longer_than_500_lines(suffix: str) -> None:
    files = [*(ROOT / "rmqcore").rglob(f"*.{suffix}"), *(ROOT / "src").rglob(f"*.{suffix}")]
    lengths = {str(path.relative_to(ROOT)): len(path.read_bytes().splitlines()) for path in files}
    assert {name: lines for name, lines in lengths.items() if lines > 500} == {}


def test_every_package_says_what_lives_there() -> None:
    for path in (ROOT / "rmqcore").rglob("__init__.py"):
        assert path.read_text(encoding="utf-8").startswith('"""'), path
