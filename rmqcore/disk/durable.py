"""Small files, directories and names that survive a power cut once a function here has returned."""

from __future__ import annotations

import os
from pathlib import Path

from rmqcore.disk.inside.files import make_folder, open_folder, unlink
from rmqcore.disk.inside.folder import Folder
from rmqcore.disk.inside.opened import sync_open


def write_durable(path: Path, data: bytes) -> None:
    """Write a small file into a directory that the caller named; see `Folder.write`."""
    with Folder(path.parent) as folder:
        folder.write(path.name, data)


def sync_directory(directory: str | os.PathLike[str]) -> None:
    """Wait until the directory's entries are on disk: a new, renamed or deleted file is only safe then."""
    opened = open_folder(directory)
    try:
        sync_open(opened, directory)
    finally:
        opened.close()


def delete_file(path: Path) -> int:
    """Delete a file, if it exists, and wait until the deletion is on disk; return the bytes that it occupied."""
    try:
        occupied = os.lstat(path).st_blocks * 512
        unlink(path, missing_ok=True)
    except FileNotFoundError:
        occupied = 0  # an interrupted call may have deleted it
    sync_directory(path.parent)
    return occupied


def make_directory(directory: Path) -> None:
    """Make a directory and its parents; when it returns, their names are on disk."""
    if directory.is_dir():
        return
    make_directory(directory.parent)
    # Opened first: without a descriptor for the sync no directory is made that a later call would take for synced.
    parent = open_folder(directory.parent)
    try:
        make_folder(directory, exist_ok=True)
        sync_open(parent, directory.parent)
    finally:
        parent.close()
