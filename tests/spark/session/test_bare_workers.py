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

OF_A_SESSION = ["session", "register", "read", "job"]
"""Ways that begin with a look at the workers."""
OF_TASKS = ["source", "frame", "udf", "write"]
"""Ways whose tasks look, in a session that no call has looked at, or on a node that was not looked at."""

PROGRAM = """
import json, sys
import pyspark.sql
import rmqcore.spark
from rmqcore.spark import udf
from rmqcore.spark.runtime import worker_check

store, out, looked, *wanted = sys.argv[1:]
spark = pyspark.sql.SparkSession.builder.master("local[1]").getOrCreate()
if looked == "True":
    worker_check._CHECKED.add(spark)  # at another node
    rmqcore.spark.register(spark)
ways = {
    "session": lambda: rmqcore.spark.session(),
    "register": lambda: rmqcore.spark.register(spark),
    "read": lambda: rmqcore.spark.read(spark, store),
    "job": lambda: rmqcore.spark.audit(spark, store),
    "source": lambda: spark.read.format("rmqstore").load(store).count(),
    "frame": lambda: rmqcore.spark.audit(spark, store).count(),
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


def told(
    python: Path, ways: list[str], store: Path, tmp_path: Path, *, looked: bool = False
) -> dict[str, list[str]]:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    paths = os.pathsep.join(path for path in sys.path if path)
    code = f"import sys; sys.path[:0] = {paths.split(os.pathsep)!r}; exec(open({str(program)!r}).read())"
    java.set_java_home()
    env = {**os.environ, "PYSPARK_PYTHON": str(python), "PYSPARK_DRIVER_PYTHON": sys.executable}
    env.pop("PYTHONPATH", None)  # the workers would inherit it
    done = subprocess.run(
        [sys.executable, "-c", code, str(store), str(tmp_path / "out"), str(looked), *ways],
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


def expected(python: Path, lacking: str) -> list[str]:
    version = ".".join(map(str, sys.version_info[:3]))
    told = (
        f"ImportError: the Python of Spark's workers on {gethostname()} ({python}, {version}) cannot "
        f"import {lacking}. Install it there ({python} -m pip install 'rmqcore[spark]' "
        "on every node, or spark.archives), or set spark.pyspark.python to a Python that has it"
    )
    return ["SparkJobError", told]


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.long
def test_a_session_whose_workers_lack_packages_is_refused(
    bare: Path, golden: Path, tmp_path: Path
) -> None:
    """PySpark said "No module named 'pyarrow'" or 'rmqcore', of some node of a cluster and some Python on it."""
    found = told(bare, OF_A_SESSION, golden / "basic" / "store", tmp_path)
    assert found == dict.fromkeys(OF_A_SESSION, expected(bare, "rmqcore, numpy, pyarrow"))


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.long
def test_a_task_on_a_node_without_rmqcore_says_so(bare: Path, golden: Path, tmp_path: Path) -> None:
    """The driver's node, where reads are planned, has rmqcore, and so has the node that was looked at; this one lacks it."""
    packages = Path(pytest.__file__).parents[1]
    home = next((tmp_path / "bare").glob("lib/python*/site-packages"))
    for package in packages.iterdir():
        if not package.name.lower().startswith(("rmqcore", "__editable__", "pyspark", "_")):
            (home / package.name).symlink_to(package)
    python = tmp_path / "python"
    python.write_text(
        f'#!/bin/sh\ncase "$*" in\n*pyspark.worker) exec {bare} "$@" ;;\nesac\nexec {sys.executable} "$@"\n'
    )
    python.chmod(0o755)
    found = told(python, OF_TASKS, golden / "basic" / "store", tmp_path, looked=True)
    wanted = dict.fromkeys(OF_TASKS, expected(bare, "rmqcore"))
    if pyspark_version() < PUSH_FILTERS:
        # PySpark 4.0 runs a source that it has found by itself with the driver's Python, in the workers too.
        wanted |= {"source": ["none", "2000"], "write": ["none", "None"]}
    assert found == wanted
