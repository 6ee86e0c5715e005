"""Where things are in the checkout."""

from __future__ import annotations

import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TESTS = ROOT / "tests"


def python_path() -> str:
    """PYTHONPATH of a process that imports the tests' own modules, and all else from where this process does."""
    return os.pathsep.join([str(TESTS), *filter(None, sys.path)])
