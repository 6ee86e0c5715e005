"""What many tests share: the golden stores, unpacked once a session, and copies of them that a test may break.

support/doses.py says how much a test tries: RMQCORE_DOSE chooses.
"""

from __future__ import annotations

import functools
import os
import shutil
import signal
import tarfile
from pathlib import Path
from typing import Any, Protocol

import pytest
from hypothesis import HealthCheck, settings
from support.doses import LEVEL
from xdist.scheduler import LoadFileScheduling

_common: dict[str, Any] = {
    "deadline": None,
    "print_blob": True,
    "suppress_health_check": [HealthCheck.too_slow, HealthCheck.data_too_large],
}
# The same examples in every run: what fails for one person fails for all.
settings.register_profile("test", max_examples=25, derandomize=True, database=None, **_common)
# Examples by the seed that `make verify` prints; a failure also prints the line that repeats it alone.
settings.register_profile("verify", max_examples=100, database=None, **_common)
settings.register_profile("night", max_examples=1500, **_common)
settings.load_profile(LEVEL)

# A shell without job control starts background commands with SIGINT ignored, and children inherit that: tests of
# Ctrl-C failed there and nowhere else.
signal.signal(signal.SIGINT, signal.default_int_handler)

ROOT = Path(__file__).parent.parent
GOLDEN_ARCHIVE = Path(__file__).parent / "conformance" / "golden.tar.xz"


class StoreCopy(Protocol):
    """Copies a golden store; a case has the part "store", or the parts "input" and "recovered"."""

    def __call__(self, case: str, part: str = "store") -> Path: ...


@pytest.fixture(scope="session")
def golden(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of the golden set: `golden / CASE / "store"`. Only for reading: every test sees the same files."""
    folder = tmp_path_factory.mktemp("golden")
    with tarfile.open(GOLDEN_ARCHIVE) as archive:
        # The filter is None where Python is too old to have it (Debian's 3.11.2): the archive is ours, see test_golden.py.
        archive.extraction_filter = getattr(tarfile, "data_filter", None)
        archive.extractall(folder)
    return folder / "golden"


@pytest.fixture
def store_copy(golden: Path, tmp_path: Path) -> StoreCopy:
    """A store of the golden set that belongs to this test alone."""

    def copy(case: str, part: str = "store") -> Path:
        target = tmp_path / f"{case}_{part}"
        shutil.copytree(golden / case / part, target, copy_function=shutil.copyfile)
        return target

    return copy


class ByFile(LoadFileScheduling):  # type: ignore[misc] # xdist has no types
    """Gives one process all tests of a file, and one process all files that share what is expensive to start."""

    def _split_scope(self, nodeid: str) -> str:
        return scope_of(nodeid)


def scope_of(nodeid: str) -> str:
    """The file of a test, or ``spark`` for files that use the Spark session and ``java`` for those that use RocketMQ's JVM.

    By the file's text, since xdist decides in a process that knows nothing but names. Not by xdist's groups: version 3.8 loses
    them with pytest 9.2.
    """
    file = nodeid.partition("::")[0]
    if file.startswith("tests/interop/"):
        return "java"
    return "spark" if _names_spark_session(file) else file


@functools.cache
def _names_spark_session(file: str) -> bool:
    return "spark: SparkSession" in (ROOT / file).read_text()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """One process more than there are cores: brokers and killed programs are mostly waited for."""
    return min(4, (os.cpu_count() or 1) + 1)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> ByFile | None:
    if config.getoption("dist") != "loadfile":
        return None
    config.option.loadscopereorder = False  # the order is that of `pytest_collection_modifyitems`
    return ByFile(config, log)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Where several processes share the tests, start with those that take long: one that began last would end alone."""
    if not hasattr(config, "workerinput"):
        return
    strays = {i.path for i in items if "spark" in i.fixturenames and scope_of(i.nodeid) != "spark"}  # type: ignore[attr-defined]
    assert not strays, f"a test takes `spark: SparkSession`, by this name: {strays}"
    slow = {scope_of(item.nodeid) for item in items if item.get_closest_marker("slow")}
    ranks = {"spark": 0, **dict.fromkeys(slow, 1), "java": 2}
    items.sort(key=lambda item: ranks.get(scope_of(item.nodeid), 3))
