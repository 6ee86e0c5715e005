"""docs/architecture.md is the map of the tree: every file and folder that it names is there."""

from __future__ import annotations

import re
import runpy
import xml.etree.ElementTree as ET

from support.places import ROOT

PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
NAMED = re.findall(r"`([\w./]+(?:\.(?:py|pyx|c|h|md|toml)|/))`", PAGE)
STORE_FOLDERS = {"commitlog/", "cut/"}
BASES = ["", "rmqcore", "src/rmqcore/_native"]


def found(name: str) -> bool:
    """Whether a file or folder of this name is there, as the page abbreviates it."""
    if any((ROOT / base / name).exists() for base in BASES):
        return True
    return "/" not in name.rstrip("/") and bool([*(ROOT / "rmqcore").rglob(name)])


def test_what_the_page_names_is_there() -> None:
    names = set(NAMED) - STORE_FOLDERS
    assert names
    assert [name for name in sorted(names) if not found(name)] == []


def test_the_tables_that_a_change_touches_are_there() -> None:
    named = re.findall(r"`([A-Z_]{4,})` of `([\w./]+\.py)`", PAGE)
    assert len(named) >= 8
    for name, path in named:
        text = (ROOT / path).read_text(encoding="utf-8")
        assert re.search(rf"^{name}\b.* = ", text, re.MULTILINE), f"{path} has no {name}"


def test_every_change_has_a_row() -> None:
    rows = PAGE.partition("## Ten changes")[2].partition("\n\nA change")[0]
    assert rows.count("\n| ") == 10 + 1  # and the heads of the columns


def test_the_page_names_every_room() -> None:
    """A room that is made later is put on the map."""
    packages = [
        path.parent.relative_to(ROOT / "rmqcore")
        for path in (ROOT / "rmqcore").rglob("__init__.py")
        if path.parent.name != "_native"
    ]
    rooms = {part for package in packages for part in package.parts}
    assert {room for room in rooms if f"{room}/" not in PAGE} == set()


def test_every_package_says_what_lives_there() -> None:
    for path in (ROOT / "rmqcore").rglob("__init__.py"):
        assert path.read_text(encoding="utf-8").startswith('"""'), path


def test_the_picture_is_what_the_contracts_say() -> None:
    """A stale picture is drawn anew by: python scripts/architecture.py."""
    script = runpy.run_path(str(ROOT / "scripts" / "architecture.py"))
    assert script["PICTURE"].read_text(encoding="utf-8") == script["picture"]()


def test_the_picture_shows_every_package_at_the_top() -> None:
    picture = ET.parse(ROOT / "docs" / "img" / "architecture.svg")
    shown = {"".join(part.itertext()) for part in picture.iter("{http://www.w3.org/2000/svg}text")}
    packages = [path.parent for path in (ROOT / "rmqcore").glob("*/__init__.py")]
    names = {f"rmqcore/{path.name}/" for path in packages if path.name != "_native"}
    assert len(names) > 15
    assert names - shown == set()
