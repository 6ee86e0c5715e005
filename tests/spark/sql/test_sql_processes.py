"""Sessions of their own: Spark Connect, and a cluster of processes that finds the source by itself."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support.places import ROOT
from support.spark.found_packages import installed
from support.spark.spark_rows import store_of

from rmqcore.spark.runtime.java import set_java_home

pytest.importorskip("pyspark.sql.datasource")
pytestmark = [pytest.mark.slow, pytest.mark.long]
PROGRAMS = ROOT / "tests" / "support" / "spark"
DEFAULTS = """
spark.ui.enabled false
spark.executor.memory 1g
spark.sql.shuffle.partitions 2
spark.driver.extraJavaOptions -XX:TieredStopAtLevel=1 -XX:+UseSerialGC
spark.executor.extraJavaOptions -XX:TieredStopAtLevel=1 -XX:+UseSerialGC
"""


def spark_home(folder: Path) -> str:
    """A SPARK_HOME whose folder `work`, where executors run, does not lie among the installed packages."""
    import pyspark

    home = folder / "home"
    home.mkdir()
    for entry in Path(pyspark.__file__).parent.iterdir():
        (home / entry.name).symlink_to(entry)
    return str(home)


def run(program: str, folder: Path, *arguments: Path, **environment: str) -> dict[str, Any]:
    """Run a program in an empty folder; give what it tells."""
    set_java_home()
    work, conf = folder / "work", folder / "conf"
    work.mkdir()
    conf.mkdir()
    (conf / "spark-defaults.conf").write_text(DEFAULTS)
    done = subprocess.run(
        [sys.executable, "-W", "error::UserWarning", str(PROGRAMS / program), *map(str, arguments)],
        cwd=work,
        env={
            **os.environ,
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_CONF_DIR": str(conf),
            **environment,
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-5000:]
    return dict(json.loads(done.stdout[done.stdout.index("told ") + 5 :]))


def test_spark_connect(golden: Path, tmp_path: Path) -> None:
    """The page said that it was not tried; `session()` failed where SPARK_REMOTE is set, since it also named a master."""
    pytest.importorskip("grpc_status")
    stores = store_of(golden, "basic"), golden / "crash_flipped" / "input"
    # SPARK_TESTING: the server takes any free port.
    found = run("connect_program.py", tmp_path, *stores, tmp_path, SPARK_TESTING="1")
    error = found.pop("error")
    assert "commitlog/00000000000000196608@204236: BODYCRC is" in error
    assert found == {
        "session": "pyspark.sql.connect.session",
        "read": 658,
        "table": 658,
        "warnings": [
            (
                "the frame is not optimized: Spark Connect does not expose its plans. Name the "
                "columns that it needs"
            )
        ],
        "damage": ["crc"],
        "export": 2000,
        "written": 658,
    }


def test_a_cluster_of_processes_finds_the_source_by_itself(golden: Path, tmp_path: Path) -> None:
    path = os.pathsep.join([installed(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    store, home = store_of(golden, "basic"), spark_home(tmp_path)
    found = run("cluster_program.py", tmp_path, store, PYTHONPATH=path, SPARK_HOME=home)
    assert found.pop("partitions") > 2
    assert found == {"rows": 2000, "table": 658, "read": 2000, "executors": ["0", "1"]}
