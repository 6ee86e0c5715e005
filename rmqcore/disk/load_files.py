"""Which files of a directory make up a sequence of mapped files: the rule by which a broker loads them."""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Sequence
from itertools import pairwise
from pathlib import Path

from rmqcore.disk.file_kinds import kind_of
from rmqcore.disk.inside.links import is_folder
from rmqcore.disk.paths import MAX_OFFSET, parse_file_name
from rmqcore.disk.same_name import file_twice
from rmqcore.errors import StoreFormatError


def load_files(
    directory: str | Path | Sequence[Path], file_size: int, odd: Collection[str] = ()
) -> tuple[list[tuple[int, str]], list[str]]:
    """List the files of a CommitLog or of a queue, before it is written, by the offsets in their names.

    As in Java a file of another size is an error, except an empty last one, which a crash between two system calls
    leaves. Directories and names that are not an offset are left alone.

    Parameters
    ----------
    directory : path-like or sequence of path-like
        Directories of the files; several can hold one CommitLog. They may be missing.
    file_size : int
        Bytes of each file, as configured.
    odd : collection of str
        Paths of files to list although they have another size.

    Returns
    -------
    tuple
        The offset and the path of each file, oldest first; and the paths of empty files, which may be deleted.

    Raises
    ------
    StoreFormatError
        A file's size differs from the configured size, it is not a regular file, or the next file's offset exceeds 63
        bits. LinkError: a file is a link. LogFileTwiceError: it lies in two directories.

    Notes
    -----
    Source: RocketMQ 5.5.0 MappedFileQueue#doLoad, MultiPathMappedFileQueue#load.
    """
    folders = [directory] if isinstance(directory, str | Path) else directory
    entries = sorted(
        (entry for folder in folders for entry in _entries(folder)), key=lambda entry: entry.name
    )
    numbered = [
        (start, entry)
        for entry in entries
        if (start := parse_file_name(entry.name)) is not None and not is_folder(entry)
    ]
    for (one, entry), (other, twin) in pairwise(numbered):
        if one == other:
            raise file_twice(entry.path, twin.path)
    found: list[tuple[int, str]] = []
    empty: list[str] = []
    for place, (start, entry) in enumerate(numbered):
        status = entry.stat()
        if not stat.S_ISREG(status.st_mode):
            raise StoreFormatError(f"{entry.path}: {kind_of(status.st_mode)}, expected a file")
        size = status.st_size
        if size == 0 and place == len(numbered) - 1:
            empty.append(entry.path)
        elif start > MAX_OFFSET - 2 * file_size:
            raise StoreFormatError(
                f"{entry.path}: the file starts at {start}, but it and the next file must end "
                f"below {MAX_OFFSET}"
            )
        elif size != file_size and entry.path not in odd:
            raise _another_size(entry.path, size, file_size, [e.path for _, e in numbered])
        else:
            found.append((start, entry.path))
    return found, empty


def _another_size(path: str, size: int, file_size: int, every: list[str]) -> StoreFormatError:
    """The error of a file that has another size than all should have."""
    twin = next((name for name in every if os.stat(name).st_size == file_size), None)
    error = StoreFormatError(
        f"{path}: file size is {size}, expected {file_size} as configured"
        + ("" if twin is None else f", the size of {twin}")
    )
    if twin is None:  # the files are sound, but the setting is wrong
        error.hint = (
            "omit the sizes: rmqcore.open reads them from the files, and "
            "rmqcore.find_config(path) returns them"
        )
    return error


def _entries(directory: str | Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(directory) as found:
            return list(found)
    except FileNotFoundError:
        return []
