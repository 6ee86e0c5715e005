"""Stores in fsspec's memory filesystem, which every process has, and what is left on the disk by those who read them."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import fsspec


@dataclass
class MemoryStores:
    """The filesystem ``memory://``."""

    filesystem: Any = field(default_factory=lambda: fsspec.filesystem("memory"))

    def put(self, root: Path, name: str = "store") -> str:
        """Copy a store there and answer its URL."""
        for path in sorted(root.rglob("*")):
            if path.is_file():
                self.filesystem.pipe(f"/stores/{name}/{path.relative_to(root)}", path.read_bytes())
        return f"memory:///stores/{name}"

    def clear(self) -> None:
        self.filesystem.store.clear()
        self.filesystem.pseudo_dirs.clear()


@contextmanager
def memory_stores() -> Iterator[MemoryStores]:
    """The filesystem, empty before and after."""
    found = MemoryStores()
    found.clear()
    try:
        yield found
    finally:
        found.clear()


def left_behind() -> list[str]:
    """Skeletons that lie in the temporary directory."""
    return [name for name in os.listdir(tempfile.gettempdir()) if name.startswith("rmqcore-")]
