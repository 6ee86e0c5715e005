"""The micro benches run, on the package that was asked for, and `make bench-compare` names what it needs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from support.places import ROOT


def benches(tree: Path, tmp_path: Path) -> subprocess.CompletedProcess[str]:
    """Each bench once, without a measurement."""
    options = ["-p", "no:cacheprovider", "-q", "--benchmark-disable"]
    return subprocess.run(
        [sys.executable, "-m", "pytest", *options, ROOT / "bench" / "micro"],
        cwd=ROOT,
        env={**os.environ, "RMQCORE_BENCH_TREE": str(tree), "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )


def test_every_bench_does_what_it_measures(tmp_path: Path) -> None:
    import rmqcore

    done = benches(Path(rmqcore.__file__).parent.parent, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "21 passed" in done.stdout


def test_another_package_than_that_of_the_tree_is_refused(tmp_path: Path) -> None:
    done = benches(tmp_path, tmp_path)
    assert done.returncode != 0
    assert "rmqcore/__init__.py" in done.stdout + done.stderr


def test_a_commit_that_is_none_is_named(tmp_path: Path) -> None:
    done = subprocess.run(
        ["bash", ROOT / "scripts" / "bench_compare.sh", "no-such-commit"],
        env={**os.environ, "PYTHON": sys.executable},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (
        64,
        "bench_compare: git knows no commit no-such-commit\n",
    )
