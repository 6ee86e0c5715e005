"""Check of the room on the disk of a copy, before the first file is copied."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from rmqcore.disk.inside.folder import Folder
from rmqcore.disk.paths import StorePaths, file_name
from rmqcore.disk.used_space import free_bytes
from rmqcore.errors import is_no_room
from rmqcore.maintenance.backup.manifest import Manifest
from rmqcore.maintenance.backup.tree import QUEUES, directories, open_part
from rmqcore.offline.log.log_files import LogFile

MARGIN = 1 << 20
"""Bytes beside those of the files: the manifest, directories, the engine's own files."""


def check_room(
    paths: StorePaths, files: Sequence[LogFile], dest: Folder, manifest: Manifest, link_below: int
) -> None:
    """Check that the disk has room for the data that the copy lacks.

    Parameters
    ----------
    paths : StorePaths
    files : sequence of LogFile
    dest : Folder
    manifest : Manifest
    link_below : int
        Log files that end here or before take no room.

    Raises
    ------
    OSError
        ENOSPC.
    """
    needed = MARGIN
    for file in files:
        mark = manifest.files.get(f"commitlog/{file_name(file.file_from_offset)}")
        if file.end_offset > link_below or mark is not None:
            with suppress(FileNotFoundError):
                occupied = os.lstat(file.path).st_blocks * 512
                needed += max(0, occupied - (0 if mark is None else mark.copied_to))
    for part in (*(paths.root / name for name in QUEUES), paths.index):
        folder = open_part(paths, part)
        if folder is not None:
            with folder:
                needed += _occupied(folder, part.name, dest, manifest)
    free = free_bytes(dest.path)
    if 0 <= free < needed:
        why = f"{needed} bytes are needed, but {free} are free; nothing was copied"
        raise OSError(errno.ENOSPC, why, os.fspath(dest.path))


def _occupied(folder: Folder, place: str, dest: Folder, manifest: Manifest) -> int:
    total = 0
    for found in directories(folder, place, []):
        for name in found.files:
            inside = f"{found.place}/{name}"
            if inside not in manifest.files and dest.status(inside) is None:
                status = found.folder.status(name)
                total += 0 if status is None else status.st_blocks * 512
    return total


@contextmanager
def explain_full_disk(dest: Path) -> Iterator[None]:
    """Add the free bytes and the state of the copy to the error of a full disk."""
    try:
        yield
    except OSError as error:
        if not is_no_room(error) or "needed" in str(error.strerror):
            raise
        free = free_bytes(dest)
        how = "the backup is incomplete: free space and run it again"
        why = f"{os.strerror(error.errno or 0)}; {free} bytes are free, and {how}"
        raise OSError(error.errno, why, os.fspath(error.filename or dest)) from error
