"""Copies of small files of a store on another filesystem, for code that reads local files."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rmqcore.offline.remote.filesystem import RemoteFilesystem
from rmqcore.offline.remote.sparse import write_sparse

PIECE = 8 * 1024 * 1024


@contextmanager
def copy_of(filesystem: RemoteFilesystem, root: str, parts: Iterable[str]) -> Iterator[Path]:
    """Yield a temporary directory with copies of files and whole directories under `root`; it is removed at the end."""
    with tempfile.TemporaryDirectory(prefix="rmqcore-") as made:
        target = Path(made)
        for part in parts:
            _copy(filesystem, f"{root}/{part}", target / part)
        yield target


def _copy(filesystem: RemoteFilesystem, path: str, target: Path) -> None:
    """Copy a file or a directory. Missing files are left out: the broker's cleaner may just have deleted them."""
    if filesystem.size_of(path) is not None:
        target.parent.mkdir(parents=True, exist_ok=True)
        _copy_file(filesystem, path, target)
        return
    try:
        entries = filesystem.entries(path)
    except FileNotFoundError:
        return
    target.mkdir(parents=True, exist_ok=True)
    for entry in entries:
        if entry.is_dir:
            _copy(filesystem, f"{path}/{entry.name}", target / entry.name)
        else:
            _copy_file(filesystem, f"{path}/{entry.name}", target / entry.name)


def _copy_file(filesystem: RemoteFilesystem, path: str, target: Path) -> None:
    """Copy a file, with holes in place of pages of zeros, which are most of a queue or index file."""
    try:
        source = filesystem.open(path)
    except FileNotFoundError:
        return
    with source, target.open("wb") as out:
        size = source.size()
        for pos in range(0, size, PIECE):
            piece = filesystem.read_range(source, path, pos, min(PIECE, size - pos))
            write_sparse(out.fileno(), piece, pos)
        out.truncate(size)
