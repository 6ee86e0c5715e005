"""Write the table of docs/compat.md about the stores of other releases of RocketMQ: `python scripts/versiontable.py`."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "compat.md"
sys.path.insert(0, str(ROOT / "tests"))

from interop.versions.releases import TITLE, table  # noqa: E402


def written(page: str) -> str:
    """Return the page with the table of the releases in place of the one that it has."""
    head, _, rest = page.partition(f"{TITLE}\n")
    text, _, behind = rest.partition("\n| RocketMQ |")
    after = behind[behind.index("\n\n") :] if "\n\n" in behind else "\n"
    return "".join([head, TITLE, "\n", text, "\n", "\n".join(table()), after])


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text()))
