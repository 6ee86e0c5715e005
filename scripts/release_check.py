"""Says whether tag, version and CHANGELOG agree, and the package says where its repository is; exit code 1 where they do not.

Usage: python scripts/release_check.py [TAG]. Without a tag, what a tag of the present version would meet.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
URLS = ("Source", "Issues", "Changelog", "Documentation")


def problems(tag: str | None, version: str, changelog: str) -> list[str]:
    """What keeps a version from being released under a tag."""
    found = []
    if tag is not None and tag != f"v{version}":
        found.append(f"the tag is {tag}, rmqcore/__init__.py has __version__ = {version!r}")
    if not re.fullmatch(r"\d+\.\d+\.\d+((a|b|rc)\d+)?", version):
        found.append(
            f"rmqcore/__init__.py: {version!r} is no version of a release, as 1.2.3 or 1.2.3rc1"
        )
    sections = re.split(r"^## ", changelog, flags=re.MULTILINE)[1:]
    newest = sections[0] if sections else ""
    heading = newest.partition("\n")[0]
    match = re.fullmatch(r"(\S+) \((.*)\)", heading)
    if not match or match[1] != version:
        found.append(
            f"CHANGELOG.md: the newest heading is {heading!r}, expected '{version} (YYYY-MM-DD)'"
        )
    elif not _is_day(match[2]):
        found.append(
            f"CHANGELOG.md: {version} is {match[2]!r}, expected the day of the release as YYYY-MM-DD"
        )
    if "### On-disk format" not in newest:
        found.append(f"CHANGELOG.md: {heading!r} has no 'On-disk format', not even 'unchanged'")
    return found


def url_problems(project: Mapping[str, Any]) -> list[str]:
    """What is wrong with [project.urls], which PyPI shows beside the project; `project` is [project] of pyproject.toml."""
    urls = project.get("urls", {})
    found = []
    missing = [name for name in URLS if name not in urls]
    if missing:
        found.append(
            f"pyproject.toml: [project.urls] lacks {', '.join(missing)}: docs/releasing.md says how they are filled in"
        )
    odd = {name: url for name, url in urls.items() if not url.startswith("https://")}
    found += [
        f"pyproject.toml: the URL {name} is {url!r}, expected https://" for name, url in odd.items()
    ]
    return found


def _is_day(text: str) -> bool:
    try:
        return date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False


def version() -> str:
    """The version of the checkout, without importing it: nothing needs to be built for this."""
    text = (ROOT / "rmqcore" / "__init__.py").read_text(encoding="utf-8")
    match = re.search(r'^__version__ = "(.*)"$', text, re.MULTILINE)
    assert match, "rmqcore/__init__.py has no __version__"
    return match[1]


if __name__ == "__main__":
    given = sys.argv[1] if len(sys.argv) > 1 else None
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    metadata = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    wrong = problems(given, version(), text) + url_problems(metadata["project"])
    for problem in wrong:
        print(f"release_check: {problem}", file=sys.stderr)
    sys.exit(1 if wrong else 0)
