"""Files that share blocks (reflinks): copies that need no room, on file systems that support them (Btrfs, XFS)."""

from __future__ import annotations

import errno
import fcntl
import os
from contextlib import suppress

from rmqcore.disk.inside.files import open_file
from rmqcore.disk.inside.folder import Folder
from rmqcore.errors import is_of_the_system

FICLONE = 0x40049409
NO_CLONES = frozenset(
    {errno.EOPNOTSUPP, errno.ENOTTY, errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EPERM}
)
"""Errors of file systems that cannot share blocks, or not with another file system."""


def clone(source: int, target: int) -> None:
    """Make an open, empty file share the blocks of another; OSError of `NO_CLONES` if the file system cannot."""
    fcntl.ioctl(target, FICLONE, source)


def shares_blocks(path: str | os.PathLike[str], folder: Folder, working: str) -> bool:
    """Return True if a new file in a folder can share blocks with a file; tested with a temporary file."""
    try:
        source = open_file(path, os.O_RDONLY)
        try:
            target = folder.open_file(working, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
            try:
                clone(source.fileno(), target.fileno())
            finally:
                target.close()
        finally:
            source.close()
    except OSError as error:
        if not is_of_the_system(error):
            raise
        return False
    finally:
        with suppress(FileNotFoundError):
            folder.delete(working)
    return True
