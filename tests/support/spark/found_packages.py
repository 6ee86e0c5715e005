"""The package `pyspark_rmqstore` as an installed one lies: PySpark does not look into an editable install."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path


def installed(folder: Path) -> str:
    """A folder for PYTHONPATH that has it, and nothing else."""
    spec = find_spec("pyspark_rmqstore")
    assert spec is not None and spec.origin is not None
    (folder / "site").mkdir()
    (folder / "site" / "pyspark_rmqstore").symlink_to(Path(spec.origin).parent)
    return str(folder / "site")
