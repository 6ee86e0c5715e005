"""Hard links: a file with further names is copied before a write, so that the write does not change it there."""

from __future__ import annotations

import os
from pathlib import Path

from rmqcore.disk.data_extents import data_ranges
from rmqcore.disk.inside.files import open_file
from rmqcore.disk.inside.folder import Folder
from rmqcore.disk.inside.opened import naming, write_all
from rmqcore.disk.read_range import read_exactly

CHUNK = 4 << 20


def give_own_bytes(path: str | os.PathLike[str]) -> None:
    """Replace a file that has further names by a copy, which is on disk when this returns.

    Backups and snapshots share files with a store by hard links, and a write would change both. The copy keeps the
    times, which cleaning uses. It is made beside the file's directory, in which Java refuses names that are not an
    offset.

    Raises
    ------
    OSError
        The disk has no room, or the directory above is on another disk. The file is unchanged.
    """
    place = Path(path)
    source = open_file(place, os.O_RDONLY)
    try:
        status = os.fstat(source.fileno())
        if status.st_nlink < 2:
            return
        with Folder(place.parent.parent) as folder:
            working = f".{place.parent.name}.{place.name}.tmp"
            folder.delete(working, missing_ok=True)
            made = folder.open_file(
                working, os.O_WRONLY | os.O_CREAT | os.O_EXCL, status.st_mode & 0o777
            )
            try:
                with naming(folder.path / working):
                    os.ftruncate(made.fileno(), status.st_size)
                    for begin, end in data_ranges(source.fileno(), 0, status.st_size):
                        for at in range(begin, end, CHUNK):
                            data = read_exactly(
                                source.fileno(), str(place), at, min(at + CHUNK, end)
                            )
                            write_all(made.fileno(), data, at)
                    os.utime(made.fileno(), ns=(status.st_atime_ns, status.st_mtime_ns))
                    os.fsync(made.fileno())
                with Folder(place.parent) as home:
                    folder.move(working, place.name, home)
                    home.sync()
            except BaseException:
                folder.delete(working, missing_ok=True)
                raise
            finally:
                made.close()
    finally:
        source.close()
