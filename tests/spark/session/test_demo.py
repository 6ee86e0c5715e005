"""What `make demo` shows, run in a folder of its own: the whole story, and nothing that nobody needs."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support.places import ROOT

for needed in ("pyspark", "duckdb", "polars", "typer"):
    pytest.importorskip(needed)

NOISE = re.compile(r"WARN|log4j|incubator|Traceback|\x1b|^\{", re.MULTILINE)
ARCHIVE = Path("tests") / "conformance" / "golden.tar.xz"


@pytest.mark.slow
@pytest.mark.long
def test_the_demo_is_whole_and_quiet(tmp_path: Path) -> None:
    """Six lines of Spark's log stood in it, and in a pipe an export was a line of JSON as long as a paragraph."""
    (tmp_path / "examples").mkdir()
    (tmp_path / ARCHIVE).parent.mkdir(parents=True)
    shutil.copy(ROOT / "examples" / "demo.py", tmp_path / "examples")
    shutil.copy(ROOT / ARCHIVE, tmp_path / ARCHIVE)
    done = subprocess.run(
        [sys.executable, tmp_path / "examples" / "demo.py"],
        capture_output=True,
        encoding="utf-8",
        timeout=500,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    assert not NOISE.search(done.stdout)
    for verb in ("info", "cat", "fsck", "doctor", "salvage", "export", "backup", "diff"):
        assert f"\n$ rmqcore {verb} demo-out/" in done.stdout
    assert "Spark's log are in demo-out/." in done.stdout
    assert "log4j" in (tmp_path / "demo-out" / "spark.log").read_text(encoding="utf-8")
