"""The notebook of examples/, run from its first cell to its last in a fresh folder; an error in any cell fails the test."""

from __future__ import annotations

import base64
import importlib.util
import re
import warnings
from pathlib import Path
from typing import Any

import pytest
from support.places import ROOT

for needed in ("pyspark", "matplotlib", "ipykernel", "nbclient", "polars"):
    pytest.importorskip(needed)
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


def shown(notebook: Any) -> dict[str, list[list[str]]]:
    """What each cell shows, as the words of its text; an empty list for a picture. How a table is drawn may change."""
    return {
        cell.id: [
            [] if "image/png" in output.data else re.findall(r"\w+", output.data["text/plain"])
            for output in cell.outputs
        ]
        for cell in notebook.cells
        if cell.cell_type == "code"
    }


def test_it_keeps_its_outputs_and_nothing_of_a_machine() -> None:
    """GitHub shows the file as it is: it was stored without a picture. `scripts/notebook.py` makes them."""
    notebook = nbformat.read(PAGE, 4)
    nbformat.validate(notebook)
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    assert [bool(cell.outputs) for cell in cells] == [False, *[True] * (len(cells) - 2), False]
    check_plots(notebook)
    assert len(outputs(notebook, "text/html")) >= 6
    assert {output.output_type for cell in cells for output in cell.outputs} <= {
        "display_data",
        "execute_result",
    }
    for cell in notebook.cells:
        assert cell.metadata == {}
        for output in cell.get("outputs", []):
            text = "".join(value for kind, value in output.data.items() if kind != "image/png")
            assert not re.search(r"/(?:tmp|home|root|work|Users|var)\b", text), cell.id
    assert PAGE.stat().st_size < 250_000


def check_plots(notebook: Any) -> None:
    plots = [base64.b64decode(image) for image in outputs(notebook, "image/png")]
    assert [plot[:8] for plot in plots] == [PNG, PNG]
    assert min(map(len, plots)) > 10_000


@pytest.mark.slow
@pytest.mark.long
def test_every_cell_runs_and_shows_what_the_file_has(tmp_path: Path) -> None:
    """Times and random numbers are the same in every run: what differs is a change that `scripts/notebook.py` has to follow."""
    script = script_module()
    stored = nbformat.read(PAGE, 4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of Jupyter's own packages, which change often
        notebook = script.kept(script.executed(PAGE, tmp_path))
    check_plots(notebook)
    assert shown(notebook) == shown(stored)
    text = "\n".join(outputs(notebook, "text/plain"))
    assert "BODYCRC" in text  # the flipped bit
    assert "ORDERS_47000" in text
    assert list(tmp_path.iterdir()) == []


def script_module() -> Any:
    spec = importlib.util.spec_from_file_location("notebook", ROOT / "scripts" / "notebook.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
