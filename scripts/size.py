"""Advises which folders and source files have grown large: python scripts/size.py. It fails for none of them."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parent.parent
TOPS = ("rmqcore", "src/rmqcore")
SUFFIXES = (".py", ".pyx", ".c", ".h")
MANY_MODULES = 18
"""What a reader takes in at one look; a longer list is easier to read in rooms."""
MANY_LINES = 500


def modules(folder: Path) -> set[str]:
    """Names of modules or kernels: a header and its source are one."""
    return {
        path.stem
        for path in folder.iterdir()
        if path.suffix in SUFFIXES and path.name != "__init__.py"
    }


def main() -> None:
    """Print a line for each large folder and file."""
    for top in TOPS:
        for folder in (ROOT / top, *sorted((ROOT / top).rglob("*/"))):
            count = len(modules(folder))
            if count > MANY_MODULES:
                print(f"{folder.relative_to(ROOT)}/: {count} modules, consider rooms")
        for path in sorted((ROOT / top).rglob("*")):
            if path.suffix not in SUFFIXES:
                continue
            lines = len(path.read_bytes().splitlines())
            if lines > MANY_LINES:
                print(f"{path.relative_to(ROOT)}: {lines} lines, consider parts")


if __name__ == "__main__":
    main()
