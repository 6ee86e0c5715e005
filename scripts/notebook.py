"""Runs examples/spark_audit.ipynb and keeps in the file what it shows: python scripts/notebook.py.

Needs the dependency group `notebook`, and Java. What is only of this machine is left out: the folder of the run is named /data,
and what is written to stderr, such as Spark's log, goes.
"""

from __future__ import annotations

import re
import sys
import tempfile
from pathlib import Path
from typing import Any

import nbclient
import nbformat

PAGE = Path(__file__).resolve().parent.parent / "examples" / "spark_audit.ipynb"
FOLDER = re.compile(r"/[\w/.+-]*/rmqcore-[\w]+(?=[/<'\"]|$)")
"""Where the notebook puts its store: a temporary folder, `rmqcore-` and something."""


def executed(page: Path, folder: str | Path) -> Any:
    """Give the notebook as it is after a run in a folder."""
    notebook: Any = nbformat.read(page, 4)  # type: ignore[no-untyped-call]
    metadata = notebook.metadata.copy()
    nbclient.NotebookClient(
        notebook, timeout=600, resources={"metadata": {"path": str(folder)}}
    ).execute()
    notebook.metadata = metadata  # a run adds the version of Python
    return notebook


def kept(notebook: Any) -> Any:
    """Leave in a notebook what its reader wants."""
    for cell in notebook.cells:
        cell.metadata = {}  # a run adds its times
        if cell.cell_type == "code":
            cell.outputs = [kept_output(output) for output in cell.outputs if wanted(output)]
    return notebook


def wanted(output: Any) -> bool:
    """Whether somebody wants it: not what is written to stderr."""
    return not (output.output_type == "stream" and output.name == "stderr")


def kept_output(output: Any) -> Any:
    """Name the folder of the run as nobody's."""
    for kind, value in output.get("data", {}).items():
        if kind.startswith("text/"):
            output.data[kind] = FOLDER.sub("/data", value)
    return output


def main() -> None:
    """Run it and write the file anew."""
    with tempfile.TemporaryDirectory() as folder:
        notebook = kept(executed(PAGE, folder))
    nbformat.validate(notebook)
    text: str = nbformat.writes(notebook)  # type: ignore[no-untyped-call]
    PAGE.write_text(text, encoding="utf-8")
    outputs = sum(len(cell.get("outputs", [])) for cell in notebook.cells)
    print(f"{PAGE.name}: {outputs} outputs, {PAGE.stat().st_size / 1000:.0f} kB", file=sys.stderr)


if __name__ == "__main__":
    main()
