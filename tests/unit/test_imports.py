"""What an import costs: the core loads NumPy at most, never an extra, in a fresh interpreter."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support.places import ROOT

EXTRAS = [
    "asyncio",
    "duckdb",
    "lz4",
    "polars",
    "pyarrow",
    "matplotlib",
    "pyspark",
    "rich",
    "typer",
    "zstandard",
]


def loaded(statement: str) -> set[str]:
    """Top-level modules that a fresh interpreter holds after a statement."""
    code = f"{statement}\nimport sys\nprint(*{{name.partition('.')[0] for name in sys.modules}})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


@pytest.mark.parametrize(
    "statement",
    [
        "import rmqcore",
        "import rmqcore.codec",
        "from rmqcore import Message, MessageView, MessageStoreConfig, codec, errors",
        "import rmqcore; rmqcore.read",
        "import rmqcore.offline.fsck",
    ],
)
def test_importing_loads_no_extra(statement: str) -> None:
    modules = loaded(statement)
    assert "rmqcore" in modules
    assert modules.isdisjoint(EXTRAS)


def test_the_threads_of_a_store_load_nothing_of_the_engine() -> None:
    """They know MessageStore as a type alone."""
    code = "import sys, rmqcore.services; print(*(n for n in sys.modules if '.engine' in n))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_the_extras_would_be_noticed() -> None:
    assert not loaded("import rmqcore.cli, pyarrow, typer").isdisjoint(EXTRAS)


def fails(folder: Path, statement: str) -> str:
    """The last lines that a Python says whose package lies in a folder, and where nothing is built."""
    code = f"import sys; sys.path.insert(0, {str(folder)!r}); {statement}"
    done = subprocess.run(
        [sys.executable, "-P", "-c", code], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    return done.stderr[done.stderr.rindex("\nImportError: ") :]


@pytest.fixture
def unbuilt(tmp_path: Path) -> Path:
    """A folder with the package's Python files and no extension."""
    shutil.copytree(
        ROOT / "rmqcore", tmp_path / "rmqcore", ignore=shutil.ignore_patterns("*.so", "__pycache__")
    )
    return tmp_path


@pytest.mark.parametrize("statement", ["import rmqcore", "import rmqcore.offline.fsck"])
def test_a_checkout_that_is_not_built_says_how_to_build_it(unbuilt: Path, statement: str) -> None:
    (unbuilt / "setup.py").touch()
    (unbuilt / "src" / "rmqcore" / "_native").mkdir(parents=True)
    message = fails(unbuilt, statement)
    assert str(unbuilt / "rmqcore" / "_native" / "format" / "codec.") in message
    assert "rmqcore was not built" in message
    assert sys.executable in message
    assert f"cd {unbuilt} && {sys.executable} -m pip install --editable ." in message


def test_extensions_of_another_python_are_named(unbuilt: Path) -> None:
    other = "codec.cpython-39-x86_64-linux-gnu.so"
    (unbuilt / "rmqcore" / "_native" / "format" / other).touch()
    message = fails(unbuilt, "import rmqcore")
    assert f"only {other}: rmqcore was built for another Python" in message
    assert "pip install --force-reinstall rmqcore" in message


def test_a_worker_of_spark_says_that_rmqcore_is_not_built(unbuilt: Path) -> None:
    source = (unbuilt / "rmqcore" / "spark" / "runtime" / "shipping.py").read_text(encoding="utf-8")
    (unbuilt / "sent.py").write_text(source, encoding="utf-8")  # as pickled: not as part of rmqcore
    message = fails(unbuilt, "import sent; sent.prepare_worker()")
    assert "finds rmqcore but cannot load it" in message
    assert "rmqcore was not built" in message
    assert "Install it there" not in message


def test_a_worker_without_rmqcore_says_that_it_is_missing(unbuilt: Path) -> None:
    source = (unbuilt / "rmqcore" / "spark" / "runtime" / "shipping.py").read_text(encoding="utf-8")
    (unbuilt / "sent.py").write_text(source, encoding="utf-8")
    blocked = "import sys; sys.modules['rmqcore'] = None; import sent; sent.prepare_worker()"
    assert "Install it there" in fails(unbuilt, blocked)
