"""What an import costs: the core loads NumPy at most, never an extra, in a fresh interpreter."""

from __future__ import annotations

import subprocess
import sys

import pytest

EXTRAS = ["asyncio", "duckdb", "lz4", "polars", "pyarrow", "pyspark", "rich", "typer", "zstandard"]


def loaded(statement: str) -> set[str]:
    """Top-level modules that a fresh interpreter holds after a statement."""
    code = f"{statement}\nimport sys\nprint(*{{name.partition('.')[0] for name in sys.modules}})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


@pytest.mark.parametrize(
    "statement",
    [
        "import rmqcore",
        "import rmqcore.codec",
        "from rmqcore import Message, MessageView, MessageStoreConfig, codec, errors",
        "import rmqcore; rmqcore.read",
        "import rmqcore.offline.fsck",
    ],
)
def test_importing_loads_no_extra(statement: str) -> None:
    modules = loaded(statement)
    assert "rmqcore" in modules
    assert modules.isdisjoint(EXTRAS)


def test_the_extras_would_be_noticed() -> None:
    assert not loaded("import rmqcore.cli, pyarrow, typer").isdisjoint(EXTRAS)
