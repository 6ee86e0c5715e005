"""docs/dataframes.md: its blocks run, and its tables say what is so."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from support.places import ROOT

import rmqcore

PAGE = (ROOT / "docs" / "dataframes.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)

ARROW = {
    "`timestamp[ms, tz=UTC]`": pa.timestamp("ms", "UTC"),
    "`map<string, string>`": pa.map_(pa.string(), pa.string()),
    "`list<string>`": pa.list_(pa.string()),
    "`binary`": pa.binary(),
}


@pytest.mark.parametrize("number", range(len(BLOCKS)))
def test_the_blocks_run(golden: Path, tmp_path: Path, number: int) -> None:
    code = BLOCKS[number].replace("/data/store", str(golden / "basic" / "store"))
    code = code.replace('"Orders"', '"TopicBasicA"').replace("'Orders'", "'TopicBasicA'")
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        cwd=tmp_path, capture_output=True, encoding="utf-8", check=False,
        env={"PYTHONIOENCODING": "utf-8", "PATH": "", "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert "TopicBasicA" in done.stdout or "2023-11-15" in done.stdout or "2000" in done.stdout


def test_the_types(golden: Path) -> None:
    store = golden / "basic" / "store"
    rows = [line.strip("| ").split(" | ") for line in PAGE.splitlines() if line.startswith("| `")]
    types = {
        name: row[1:] for row in rows if len(row) == 5 for name in re.findall(r"`(\w+)`", row[0])
    }
    columns = list(types)
    assert columns == ["store_timestamp", "born_timestamp", "properties", "keys", "body", "raw"]
    reader = rmqcore.read(store)
    arrow, polars = reader.to_arrow(columns).schema, reader.to_polars(columns).schema
    pandas = reader.to_pandas(columns)
    view = rmqcore.duckdb_view(duckdb.connect(), "store", store, columns)
    for name, kind in zip(columns, view.types, strict=True):
        in_arrow, in_polars, in_pandas, in_duckdb = types[name]
        assert in_duckdb == f"`{kind}`"
        assert arrow.field(name).type == ARROW[in_arrow]
        if name.endswith("timestamp"):
            assert (in_polars, in_pandas) == ('`Datetime("ms", "UTC")`', f"`{pandas.dtypes[name]}`")
            assert repr(polars[name]) == "Datetime(time_unit='ms', time_zone='UTC')"
        else:
            assert type(pandas[name][0]).__name__ == {"array": "ndarray"}.get(in_pandas, in_pandas)
