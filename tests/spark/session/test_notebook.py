"""The notebook of examples/, run from its first cell to its last in a fresh folder; an error in any cell fails the test."""

from __future__ import annotations

import base64
import warnings
from pathlib import Path
from typing import Any

import pytest
from support.places import ROOT

for needed in ("pyspark", "matplotlib", "ipykernel"):
    pytest.importorskip(needed)
nbclient = pytest.importorskip("nbclient")
nbformat = pytest.importorskip("nbformat")

PAGE = ROOT / "examples" / "spark_audit.ipynb"
PNG = b"\x89PNG\r\n\x1a\n"


def outputs(notebook: Any, kind: str) -> list[Any]:
    return [
        output.data[kind]
        for cell in notebook.cells
        for output in cell.get("outputs", [])
        if kind in output.get("data", {})
    ]


def test_it_is_stored_without_outputs() -> None:
    notebook = nbformat.read(PAGE, 4)
    nbformat.validate(notebook)
    for cell in notebook.cells:
        assert not cell.get("outputs")
        assert cell.get("execution_count") is None


@pytest.mark.slow
def test_every_cell_runs(tmp_path: Path) -> None:
    notebook = nbformat.read(PAGE, 4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of Jupyter's own packages, which change often
        nbclient.NotebookClient(
            notebook, timeout=300, resources={"metadata": {"path": str(tmp_path)}}
        ).execute()
    plots = [base64.b64decode(image) for image in outputs(notebook, "image/png")]
    assert [plot[:8] for plot in plots] == [PNG, PNG]
    assert min(map(len, plots)) > 10_000
    shown = "\n".join(outputs(notebook, "text/plain"))
    assert "BODYCRC" in shown  # the flipped bit
    assert "ORDERS_47000" in shown
    assert list(tmp_path.iterdir()) == []
