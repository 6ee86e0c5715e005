"""What many tests share: the golden stores, unpacked once a session, and copies of them that a test may break.

support/doses.py says how much a test tries: RMQCORE_DOSE chooses.
"""

from __future__ import annotations

import faulthandler
import functools
import gc
import os
import random
import shutil
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any, Protocol

import pytest
from hypothesis import HealthCheck, settings
from support.doses import LEVEL, may_take_hours
from support.stores.archives import unpack
from support.tools import how_to_install, missing
from xdist.scheduler import LoadFileScheduling

_common: dict[str, Any] = {
    "deadline": None,
    "print_blob": True,
    "suppress_health_check": [HealthCheck.too_slow, HealthCheck.data_too_large],
}
# The same examples in every run: what fails for one person fails for all.
settings.register_profile("test", max_examples=25, derandomize=True, database=None, **_common)
# Examples by the seed that `make verify` prints; a failure also prints the line that repeats it alone.
# derandomize: where CI is set, Hypothesis begins with a profile of its own that repeats its examples.
_new = {"derandomize": False, "database": None, **_common}
settings.register_profile("verify", max_examples=100, **_new)
settings.register_profile("night", max_examples=1500, **_new)
settings.load_profile(LEVEL)

# A shell without job control starts background commands with SIGINT ignored, and children inherit that: tests of
# Ctrl-C failed there and nowhere else.
signal.signal(signal.SIGINT, signal.default_int_handler)

ROOT = Path(__file__).parent.parent
MEMORY, MEMORY_BYTES = "/dev/shm", 4 << 30
"""Where the folders of tests lie if it has this room: the tests sync some ten thousand files, and a disk takes milliseconds
for each. The night uses the disk, and so do tests that are about it: `disk_path`."""


def memory_serves(folder: str = MEMORY) -> bool:
    """Say whether tests may have their folders in memory: with room for their stores, and for programs that they compile."""
    try:
        found = os.statvfs(folder)
    except OSError:
        return False
    return found.f_bavail * found.f_frsize >= MEMORY_BYTES and not found.f_flag & os.ST_NOEXEC


if LEVEL != "night" and sys.platform == "linux" and memory_serves():
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", MEMORY)
os.environ.setdefault("SPARK_CONF_DIR", str(ROOT / "tests" / "support" / "spark" / "conf"))
OUTSIDE = ("faults", "interop", "stateful")
"""Of these folders `make test` runs what is marked `smoke`; of tests/spark, too, if a test needs the session or takes
long. Of all others it leaves out what is marked `large`."""
SANITIZED = ("property", "unit", "native_c")
"""Folders that feed bytes to native code: scripts/sanitize.sh runs their tests."""
NOT_SANITIZED = (
    "unit/cli",
    "unit/client",
    "unit/offline/remote",
    "unit/services",
    "unit/testing",
)
"""Tests that start programs of their own, which are not instrumented, and tests of Python code alone. The tests of the
repository and its documents, which lie in tests/unit itself, are left out too."""
NEEDS = "needs "
# What one JVM with RocketMQ serves is a chain of tests that no second process may share, and so is what one Spark session serves.
# Of each there are two chains, which take about as long: the modules named here, and the others. All smokes of Spark are in one.
JAVA_A = frozenset(
    f"test_{name}"
    for name in (
        "broker",
        "client",
        "consumers",
        "mqadmin",
        "other_languages",
        "pulls",
        "sends",
        "spark_sink",
        "takeover",
    )
)
"""Those that start brokers and clients, and mostly wait for them; the others compare stores, and use the processor."""
SPARK_A = frozenset(
    f"test_{name}"
    for name in (
        "jobs",
        "jobs_cli",
        "pruning_plans",
        "pruning_rows",
        "sink_spark",
        "sink_stream",
        "source_spark",
        "sql_tables",
        "stream_spark",
    )
)
GOLDEN_ARCHIVE = Path(__file__).parent / "conformance" / "golden.tar.xz"


class StoreCopy(Protocol):
    """Copies a golden store; a case has the part "store", or the parts "input" and "recovered"."""

    def __call__(self, case: str, part: str = "store") -> Path: ...


@pytest.fixture(scope="session")
def golden(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of the golden set: `golden / CASE / "store"`. Only for reading: every test sees the same files."""
    folder = tmp_path_factory.mktemp("golden")
    return unpack(GOLDEN_ARCHIVE, folder) / "golden"


@pytest.fixture
def store_copy(golden: Path, tmp_path: Path) -> StoreCopy:
    """A store of the golden set that belongs to this test alone."""

    def copy(case: str, part: str = "store") -> Path:
        target = tmp_path / f"{case}_{part}"
        shutil.copytree(golden / case / part, target, copy_function=shutil.copyfile)
        return target

    return copy


@pytest.fixture
def disk_path() -> Iterator[Path]:
    """Return an empty folder on the disk, for tests of the system's cache and of what it writes back."""
    with tempfile.TemporaryDirectory(prefix="rmqcore-") as name:
        yield Path(name)


class Rand(random.Random):
    """Shows its seed when a test fails; RMQCORE_SEED repeats it."""

    def __init__(self, start: int) -> None:
        super().__init__(start)
        self.start = start

    def __repr__(self) -> str:
        return f"<RMQCORE_SEED={self.start}>"


@pytest.fixture
def rng() -> random.Random:
    """A generator of choices: the same for the same commit, others with RMQCORE_SEED, as every night."""
    return Rand(int(os.environ.get("RMQCORE_SEED", "7")))


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Leave out a test whose programs are missing. In CI that is a failure: a skipped test looks like a passed one.

    Pytest ends a process whose test takes a quarter of an hour (`faulthandler_timeout`). A large dose may take longer.
    """
    if may_take_hours():
        faulthandler.cancel_dump_traceback_later()
    needed = [name for mark in item.iter_markers("needs") for name in mark.args]
    lacking = missing(dict.fromkeys(needed))
    if not lacking:
        return
    why = NEEDS + " ".join(lacking)
    if os.environ.get("CI"):
        pytest.fail(f"{why}: {how_to_install(lacking)}", pytrace=False)
    pytest.skip(why)


def pytest_report_header(config: pytest.Config) -> str:
    """Say how much this run tries, and how to try the same again."""
    return again(config) or f"doses: {LEVEL}"


def again(config: pytest.Config) -> str:
    """Return the line that draws the examples of this run again; empty if every run has the same."""
    seed = config.getoption("hypothesis_seed", None)
    return "" if seed is None else f"doses: {LEVEL}; the same examples again: SEED={seed}"


@pytest.hookimpl(wrapper=True, tryfirst=True)  # behind all that others have to say
def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> Generator[None]:
    """End with how to repeat a failure, what was left out for a missing program, and the one command that brings it all."""
    yield
    failures = terminalreporter.getreports("failed") + terminalreporter.getreports("error")
    if failures and again(config):
        terminalreporter.line(again(config))
    left_out: Counter[tuple[str, str]] = Counter()
    for report in terminalreporter.getreports("skipped"):
        reason = str(report.longrepr[2]).removeprefix("Skipped: ")  # file, line, reason
        if reason.startswith(NEEDS):
            left_out[reason.removeprefix(NEEDS), report.nodeid.partition("::")[0]] += 1
    if not left_out:
        return
    terminalreporter.section("left out, because programs are missing")
    programs = sorted({names for names, _ in left_out})
    for names in programs:
        files = {file: count for (lacking, file), count in left_out.items() if lacking == names}
        terminalreporter.line(f"{sum(files.values())} tests need {names.replace(' ', ' and ')}:")
        for file, count in sorted(files.items()):
            terminalreporter.line(f"  {count:5d} in {file}")
    all_names = dict.fromkeys(name for names in programs for name in names.split())
    terminalreporter.line(f"to run them: {how_to_install(all_names)}")


class ByFile(LoadFileScheduling):  # type: ignore[misc] # xdist has no types
    """Gives one process all tests of a file, and one process all files that share what is expensive to start."""

    def _split_scope(self, nodeid: str) -> str:
        return scope_of(nodeid)


def scope_of(nodeid: str) -> str:
    """Return the file of a test, or the chain of files that share the Spark session or RocketMQ's JVM.

    By the file's text, since xdist decides in a process that knows nothing but names. Not by xdist's groups: version 3.8 loses
    them with pytest 9.2.
    """
    file = nodeid.partition("::")[0]
    if file.startswith("tests/interop/versions/"):
        return file  # each of its tests starts JVMs of its own
    if file.startswith("tests/interop/"):
        return "java-a" if Path(file).stem in JAVA_A else "java-b"
    if _names(file, "spark: SparkSession"):
        return "spark-a" if Path(file).stem in SPARK_A else "spark-b"
    return file


@functools.cache
def _names(file: str, text: str) -> bool:
    return text in (ROOT / file).read_text()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Two processes more than there are cores: brokers, sessions and killed programs are mostly waited for."""
    return min(6, (os.cpu_count() or 1) + 2)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> ByFile | None:
    if config.getoption("dist") != "loadfile":
        return None
    config.option.loadscopereorder = False  # the order is that of `pytest_collection_modifyitems`
    return ByFile(config, log)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the tests that `make test` leaves to `make verify`; start with what takes long.

    Where several processes share the tests, one that takes long and began last would end alone.
    """
    for item in items:
        if is_outside(item):
            item.add_marker("outside")
        if is_sanitized(item):
            item.add_marker("sanitized")
        if item.path.is_relative_to(ROOT / "tests" / "interop"):
            item.add_marker(pytest.mark.needs("javac", "mvn"))
    if not hasattr(config, "workerinput"):
        return
    strays = {
        item.path
        for item in items
        if takes_spark(item) and not scope_of(item.nodeid).startswith("spark-")
    }
    assert not strays, f"a test takes `spark: SparkSession`, by this name: {strays}"
    slow = {scope_of(item.nodeid) for item in items if item.get_closest_marker("slow")}
    ranks = {"spark-a": 0, "java-a": 1, "spark-b": 2, "java-b": 3}
    items.sort(
        key=lambda item: ranks.get(scope := scope_of(item.nodeid), 4 if scope in slow else 5)
    )


def pytest_collection_finish() -> None:
    """Leave modules and collected tests out of each collection of garbage: tests ask for many, with millions of objects."""
    gc.collect()
    gc.freeze()


def is_outside(item: pytest.Item) -> bool:
    """Say whether `make test` leaves a test to `make verify`, unless it is marked `smoke`."""
    folder = _place(item).parts[0]
    takes_long = takes_spark(item) or item.get_closest_marker("slow") is not None
    large = item.get_closest_marker("large") is not None
    return large or folder in OUTSIDE or (folder == "spark" and takes_long)


def is_sanitized(item: pytest.Item) -> bool:
    """Say whether scripts/sanitize.sh runs a test; not if it forks its process, see there."""
    place = _place(item)
    left_out = place.parent == Path("unit") or any(map(place.is_relative_to, NOT_SANITIZED))
    return place.parts[0] in SANITIZED and not left_out and item.get_closest_marker("forks") is None


def _place(item: pytest.Item) -> Path:
    """Return the path of a test's file below tests/, or its whole path if it is not there."""
    tests = ROOT / "tests"
    return item.path.relative_to(tests) if item.path.is_relative_to(tests) else item.path


def takes_spark(item: pytest.Item) -> bool:
    """Say whether a test uses the session of tests/spark/conftest.py."""
    return "spark" in getattr(item, "fixturenames", ())
