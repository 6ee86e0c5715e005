"""What many tests share: the golden stores, unpacked once a session, and copies of one that a test may break.

Hypothesis profiles: RMQCORE_HYPOTHESIS chooses between "fast" (default) and "ci".
"""

from __future__ import annotations

import os
import shutil
import signal
import tarfile
from pathlib import Path
from typing import Any, Protocol

import pytest
from hypothesis import HealthCheck, settings

_common: dict[str, Any] = {
    "deadline": None,
    "print_blob": True,
    "suppress_health_check": [HealthCheck.too_slow, HealthCheck.data_too_large],
}
# The same examples in every run: what fails for one person fails for all.
settings.register_profile("fast", max_examples=100, derandomize=True, database=None, **_common)
# New examples in every run; a failure prints the line that repeats it.
settings.register_profile(
    "ci", max_examples=int(os.environ.get("RMQCORE_EXAMPLES", "1500")), **_common
)
settings.load_profile(os.environ.get("RMQCORE_HYPOTHESIS", "fast"))

# A shell without job control starts what it puts in the background with SIGINT ignored, and children inherit that: tests of
# Ctrl-C failed there and nowhere else.
signal.signal(signal.SIGINT, signal.default_int_handler)

GOLDEN_ARCHIVE = Path(__file__).parent / "conformance" / "golden.tar.xz"


class StoreCopy(Protocol):
    """Copies a golden store; a case has the parts "store", or "input" and "recovered"."""

    def __call__(self, case: str, part: str = "store") -> Path: ...


@pytest.fixture(scope="session")
def golden(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of the golden set: `golden / CASE / "store"`. Only for reading: every test sees the same files."""
    folder = tmp_path_factory.mktemp("golden")
    with tarfile.open(GOLDEN_ARCHIVE) as archive:
        # None where Python is too old to have it (Debian's 3.11.2): the archive is ours, see test_golden.py.
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
