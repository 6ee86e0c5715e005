"""Making files of a fixed size, and the directory entries that have to reach the disk with them."""

from __future__ import annotations

import os
from pathlib import Path

from rmqcore._native.mapped_file import MappedFile
from rmqcore.engine.paths import file_name, parse_file_name
from rmqcore.errors import StoreFormatError


def sync_directory(directory: str | os.PathLike[str]) -> None:
    """Wait until the directory's entries are on disk: a new, renamed or deleted file is only safe then."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_directory(directory: Path) -> None:
    """Make a directory and its parents; their entries are on disk afterwards."""
    if directory.is_dir():
        return
    make_directory(directory.parent)
    directory.mkdir(exist_ok=True)
    sync_directory(directory.parent)


def create_mapped_file(directory: Path, file_size: int, file_from_offset: int) -> MappedFile:
    """Create the file of `file_size` zero bytes that starts at an offset, sparse, and map it for writing.

    Raises
    ------
    OSError
        It cannot be made. No file of another length is left behind: Java refuses a directory that holds one.
    """
    path = directory / file_name(file_from_offset)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
    try:
        os.ftruncate(descriptor, file_size)
        os.fsync(descriptor)
    except OSError:
        path.unlink()
        raise
    finally:
        os.close(descriptor)
    sync_directory(directory)
    return MappedFile(os.fspath(path), file_size, file_from_offset, writable=True)


def find_mapped_files(directory: Path, file_size: int) -> tuple[list[MappedFile], list[Path]]:
    """List the files of a sequence, not yet mapped, and those that are empty and may be deleted.

    As in Java a file of another size is an error, but an empty last one, which a crash between two system calls leaves, is
    not. Directories and names that are no offset are none of ours.

    Raises
    ------
    StoreFormatError
        A file of another size than configured.

    Notes
    -----
    Source: RocketMQ 5.5.0 MappedFileQueue#doLoad.
    """
    found: list[MappedFile] = []
    empty: list[Path] = []
    try:
        entries = sorted(os.scandir(directory), key=lambda entry: entry.name)
    except FileNotFoundError:
        return found, empty
    numbered = [
        (start, entry)
        for entry in entries
        if (start := parse_file_name(entry.name)) is not None and not entry.is_dir()
    ]
    for place, (start, entry) in enumerate(numbered):
        size = entry.stat().st_size
        if size == 0 and place == len(numbered) - 1:
            empty.append(Path(entry.path))
        elif size != file_size:
            raise StoreFormatError(
                f"{entry.path}: file size is {size}, expected {file_size} as configured"
            )
        else:
            found.append(MappedFile(entry.path, file_size, start))
    return found, empty
