"""Making and listing the mapped files of a sequence, each of one fixed size."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from pathlib import Path

from rmqcore._native.files.mapped_file import MappedFile
from rmqcore.disk.durable import sync_directory
from rmqcore.disk.inside.files import open_file, unlink
from rmqcore.disk.load_files import load_files
from rmqcore.disk.paths import file_name


def create_mapped_file(
    directory: Path, file_size: int, file_from_offset: int, *, again: bool = False
) -> MappedFile:
    """Make the file of `file_size` zero bytes that starts at an offset, sparse, and map it for writing.

    Parameters
    ----------
    directory : Path
    file_size, file_from_offset : int
        Bytes.
    again : bool
        An earlier call for this file was interrupted: use the file that it left, if that is empty or `file_size` zero
        bytes.

    Raises
    ------
    OSError
        The file cannot be made. No file of another length is left behind, because Java refuses a directory with a file
        of a wrong length. FileExistsError: an existing file was not left by an interrupted call.
    """
    path = directory / file_name(file_from_offset)
    flags = os.O_RDWR | os.O_CREAT | (0 if again else os.O_EXCL)
    opened = open_file(path, flags)
    descriptor = opened.fileno()
    try:
        if again:
            _check_untouched(descriptor, file_size, path)
        os.ftruncate(descriptor, file_size)
        os.fsync(descriptor)
    except FileExistsError:
        raise
    except OSError:
        unlink(path)
        raise
    finally:
        opened.close()
    sync_directory(directory)
    return MappedFile(os.fspath(path), file_size, file_from_offset, writable=True)


def _check_untouched(descriptor: int, file_size: int, path: Path) -> None:
    """Raise FileExistsError unless the file is empty, or `file_size` zero bytes."""
    size = os.fstat(descriptor).st_size
    if size not in (0, file_size) or not _holds_zeros(descriptor, size):
        raise FileExistsError(errno.EEXIST, "it already exists, with other content", str(path))


def _holds_zeros(descriptor: int, size: int) -> bool:
    """Return True if all bytes are zero. A sparse file is known by its holes, without reading it."""
    pos = 0
    while pos < size:
        try:
            pos = os.lseek(descriptor, pos, os.SEEK_DATA)
        except OSError as error:
            if error.errno == errno.ENXIO:  # a hole up to the end
                return True
            raise
        piece = os.pread(descriptor, 1 << 20, pos)
        if any(piece):
            return False
        pos += len(piece)
    return True


def find_mapped_files(
    directory: Path | Sequence[Path], file_size: int
) -> tuple[list[MappedFile], list[Path]]:
    """List the files of a CommitLog as `load_files` does, not yet mapped, and the empty ones, which may be deleted.

    Raises
    ------
    StoreFormatError
        A file's size differs from the configured size, or the file lies in two directories.
    """
    found, empty = load_files(directory, file_size)
    return [MappedFile(path, file_size, start) for start, path in found], list(map(Path, empty))
