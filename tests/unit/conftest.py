"""What all unit tests share: collections of garbage that look through a test's own objects alone."""

from __future__ import annotations

import gc


def pytest_collection_finish() -> None:
    """Leave modules and collected tests out of each collection: tests ask for many, and there are millions of objects."""
    gc.collect()
    gc.freeze()
