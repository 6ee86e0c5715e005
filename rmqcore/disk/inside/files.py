"""Files and directories by path, whose last name is never followed if it is a link.

The directories above that name were checked when it was listed or made (`links`), or are opened name by name
(`folder`).
"""

from __future__ import annotations

import errno
import os
import stat

from rmqcore._native.threads.descriptor import Descriptor
from rmqcore.disk.file_kinds import kind_of
from rmqcore.disk.inside.links import link_error
from rmqcore.disk.inside.skeletons import Part, bring_in, shown_path
from rmqcore.errors import StoreFormatError, is_of_the_system

Path = str | os.PathLike[str]

# O_NONBLOCK: the open of a FIFO would wait forever. Regular files ignore the flag; all other files are closed again.
_SAFE = os.O_NOFOLLOW | os.O_NONBLOCK | getattr(os, "O_NOCTTY", 0)
_FOLDER = os.O_RDONLY | os.O_DIRECTORY


def open_file(path: Path, flags: int, *, part: Part | None = None) -> Descriptor:
    """Open a regular file.

    Parameters
    ----------
    path : path-like
    flags : int
        Flags of ``os.open``.
    part : (int, int), optional
        Start and number of the bytes to read: of a file on another filesystem only these are fetched (`skeletons`).

    Raises
    ------
    LinkError
        The path is a link.
    StoreFormatError
        The path is a FIFO, a socket or a device.
    OSError
        The path is a directory, or cannot be opened.
    """
    return open_file_in(None, path, flags, path, part=part)


def open_file_in(
    folder: Descriptor | None,
    name: Path,
    flags: int,
    path: Path,
    mode: int = 0o644,
    *,
    part: Part | None = None,
) -> Descriptor:
    """Open a regular file by its name in an open directory; errors as `open_file`, with `path`."""
    if flags & os.O_ACCMODE == os.O_RDONLY:
        bring_in(path, part)
    try:
        file = Descriptor(name, flags | _SAFE, folder, mode)
        kind = file.mode
    except OSError as error:
        raise _better(error, path) from None
    if not stat.S_ISREG(kind):
        raise _wrong_kind(kind, path)
    return file


def open_folder(path: Path) -> Descriptor:
    """Open a directory that the caller named: links are followed."""
    return Descriptor(path, _FOLDER)


def open_folder_in(folder: Descriptor, name: str, path: Path) -> Descriptor:
    """Open a directory by its name in an open directory; errors name `path`.

    Raises
    ------
    LinkError
        The name is a link.
    OSError
        The name is not a directory, or cannot be opened.
    """
    try:
        return Descriptor(name, _FOLDER | os.O_NOFOLLOW, folder)
    except OSError as error:
        raise _better(error, path) from None


def _better(error: OSError, path: Path) -> Exception:
    """Return an error that names the kind of file, if the system's error says only that it is the wrong kind."""
    if not is_of_the_system(error):
        return error
    if error.errno in {errno.ELOOP, errno.ENOTDIR, errno.ENXIO, errno.EMLINK}:
        try:
            mode = os.lstat(path).st_mode
        except OSError:
            mode = stat.S_IFREG
        if stat.S_ISLNK(mode):
            return link_error(path)
        if error.errno == errno.ENOTDIR and not stat.S_ISDIR(mode):
            why = f"{kind_of(mode)}, expected a directory"
            return NotADirectoryError(errno.ENOTDIR, why, shown_path(path))
        if error.errno == errno.ENXIO and not stat.S_ISREG(mode):
            return _wrong_kind(mode, path)
    error.filename = shown_path(path)
    return error


def _wrong_kind(mode: int, path: Path) -> Exception:
    if stat.S_ISDIR(mode):
        why = "a directory, expected a file"
        return IsADirectoryError(errno.EISDIR, why, shown_path(path))
    return StoreFormatError(f"{shown_path(path)}: {kind_of(mode)}, expected a file")


def check_is_file(path: Path) -> None:
    """Check that a path is a regular file or missing.

    Raises
    ------
    LinkError, StoreFormatError, OSError
        As `open_file`.
    """
    try:
        mode = os.lstat(path).st_mode
    except FileNotFoundError:
        return
    if stat.S_ISLNK(mode):
        raise link_error(path)
    if not stat.S_ISREG(mode):
        raise _wrong_kind(mode, path)


# ---- names ------------------------------------------------------------------------------------------


def unlink(path: Path, *, missing_ok: bool = False) -> None:
    """Delete a file; of a link, only the link itself."""
    try:
        os.unlink(path)
    except FileNotFoundError:
        if not missing_ok:
            raise


def rename(path: Path, target: Path) -> None:
    """Rename a file or directory; a file or link of the new name is replaced."""
    os.replace(path, target)


def make_folder(path: Path, *, exist_ok: bool = False) -> None:
    """Make a directory, whose parent is there."""
    try:
        os.mkdir(path)
    except FileExistsError:
        if not exist_ok or not os.path.isdir(path):
            raise


def remove_empty(path: Path) -> None:
    """Delete an empty directory."""
    os.rmdir(path)
