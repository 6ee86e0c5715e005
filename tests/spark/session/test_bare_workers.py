"""Workers without the packages: what they lack is said with host, Python and the line that installs it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import venv
from pathlib import Path
from socket import gethostname

import pytest

from rmqcore.spark.runtime import java
from rmqcore.spark.runtime.versions import PUSH_FILTERS, pyspark_version

OF_THE_SOURCE = {"load": "2000", "read": "2000", "write": "None"}
"""Ways that run the data source in workers, and what they answer where nothing is missing."""

PROGRAM = """
import json, sys
import rmqcore.spark
from rmqcore.spark import udf

store, out, *wanted = sys.argv[1:]
spark = rmqcore.spark.session("local[1]")
ways = {
    "read": lambda: rmqcore.spark.read(spark, store).count(),
    "load": lambda: spark.read.format("rmqstore").load(store).count(),
    "job": lambda: rmqcore.spark.audit(spark, store).count(),
    "udf": lambda: spark.range(1).selectExpr("cast('x' as binary) b").select(udf.body_crc("b")).collect(),
    "write": lambda: spark.range(1).selectExpr("'t' topic", "cast('x' as binary) body")
        .write.format("rmqstore").mode("append").save(out),
}
for name in wanted:
    try:
        told = ["none", str(ways[name]())]
    except Exception as error:
        short = rmqcore.spark.short_error(error)
        told = [type(short).__name__, str(short)]
    print("told " + json.dumps({name: told}), flush=True)
"""


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    """A Python without packages. Only Spark's own code is on its path, which Java gives to workers."""
    venv.create(tmp_path / "bare", with_pip=False)
    return tmp_path / "bare" / "bin" / "python"


def told(python: Path, ways: list[str], store: Path, tmp_path: Path) -> dict[str, list[str]]:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    paths = os.pathsep.join(path for path in sys.path if path)
    code = f"import sys; sys.path[:0] = {paths.split(os.pathsep)!r}; exec(open({str(program)!r}).read())"
    java.set_java_home()
    env = {**os.environ, "PYSPARK_PYTHON": str(python), "PYSPARK_DRIVER_PYTHON": sys.executable}
    env.pop("PYTHONPATH", None)  # the workers would inherit it
    done = subprocess.run(
        [sys.executable, "-c", code, str(store), str(tmp_path / "out"), *ways],
        capture_output=True,
        text=True,
        check=False,
        env=env,
        cwd=tmp_path,
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("told ")]
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, list[str]] = {}
    for line in lines:
        found |= json.loads(line.removeprefix("told "))
    return found


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize(
    ("lacks", "ways"), [("planner", ["load"]), ("worker", ["read", "job", "udf", "write"])]
)
def test_workers_without_packages(
    lacks: str, ways: list[str], bare: Path, golden: Path, tmp_path: Path
) -> None:
    """PySpark said "No module named 'pyarrow'" or 'rmqcore', of some node of a cluster and some Python on it.

    On a cluster the driver's node, where reads are planned, has the packages, and a worker's has not.
    """
    python = bare
    if lacks == "worker":
        python = tmp_path / "python"
        python.write_text(
            f'#!/bin/sh\ncase "$*" in\n*pyspark.worker) exec {bare} "$@" ;;\nesac\nexec {sys.executable} "$@"\n'
        )
        python.chmod(0o755)
    found = told(python, ways, golden / "basic" / "store", tmp_path)
    version = ".".join(map(str, sys.version_info[:3]))
    expected = (
        f"ImportError: the Python of Spark's workers on {gethostname()} ({bare}, {version}) cannot "
        f"import rmqcore, numpy, pyarrow. Install it there ({bare} -m pip install 'rmqcore[spark]' "
        "on every node, or spark.archives), or set spark.pyspark.python to a Python that has it"
    )
    wanted = {way: ["SparkJobError", expected] for way in ways}
    if pyspark_version() < PUSH_FILTERS:
        # PySpark 4.0 runs a source that it has found by itself with the driver's Python, in the workers too.
        wanted |= {way: ["none", told] for way, told in OF_THE_SOURCE.items() if way in ways}
    assert found == wanted
