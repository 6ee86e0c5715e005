"""Check that neither a store nor its copy lies in the other, under any name."""

from __future__ import annotations

import os
from pathlib import Path

from rmqcore.disk.paths import StorePaths


def check_apart(paths: StorePaths, dest: Path) -> None:
    """Check that a copy would not lie in its store, nor the store in its copy.

    Directories are compared by identity, since links, ``..`` and bind mounts can lead to the same one.

    Raises
    ------
    ValueError
        One lies in the other.
    """
    parts = (paths.root, *paths.commitlogs, paths.consumequeue, paths.index)
    of_dest = _above(dest)
    for part in parts:
        own = _identity(part)
        if own is not None and own in of_dest.values():
            raise ValueError(
                f"{dest} is inside the store's {part}: choose a destination outside the store"
            )
        if of_dest.get(_real(dest)) in _above(part).values():
            raise ValueError(f"{dest} contains the store's {part}: choose another destination")


def _real(path: Path) -> Path:
    return Path(os.path.realpath(path))


def _above(path: Path) -> dict[Path, tuple[int, int]]:
    """Return a directory and all existing directories above it, each with its device and inode."""
    real = _real(path)
    found = {one: _identity(one) for one in (real, *real.parents)}
    return {one: identity for one, identity in found.items() if identity is not None}


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return status.st_dev, status.st_ino
