"""Directories in which stores are looked for: one interface for a local disk and for other filesystems."""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from rmqcore.disk.inside.files import open_file
from rmqcore.disk.inside.opened import read_all
from rmqcore.disk.paths import is_url
from rmqcore.offline.remote.filesystem import RemoteFilesystem, split_uri
from rmqcore.offline.remote.filesystem_options import Options
from rmqcore.offline.remote.store_url import file_path


def utf8_text(name: str) -> str:
    """Return the name of a file as valid UTF-8, which Arrow and Spark require: other bytes become U+FFFD."""
    return os.fsencode(name).decode(errors="replace")


class Directories(Protocol):
    """Lists directories by path."""

    def entries(self, path: str) -> dict[str, bool]:
        """Names in a directory, and whether each is a directory itself.

        Raises
        ------
        FileNotFoundError, NotADirectoryError
        PermissionError, RemoteStorageError
            The directory cannot be listed.
        """

    def exists(self, path: str) -> bool:
        """Return True if there is a file or directory of this path."""

    def read(self, path: str) -> bytes:
        """The content of a small file.

        Raises
        ------
        FileNotFoundError, RemoteStorageError
        """

    def shown(self, path: str) -> str:
        """Return a path in the form for messages."""


class LocalDirectories:
    """Directories of a local disk."""

    def entries(self, path: str) -> dict[str, bool]:
        """Names in a directory, and whether each is a directory itself."""
        with os.scandir(path) as found:
            return {entry.name: entry.is_dir() for entry in found}

    def exists(self, path: str) -> bool:
        """Return True if a file, a directory or a link of this path exists."""
        return os.path.lexists(path)

    def read(self, path: str) -> bytes:
        """The content of a small file."""
        return read_all(open_file(Path(path), os.O_RDONLY), path)

    def shown(self, path: str) -> str:
        """Return the path itself."""
        return path


@dataclass(frozen=True)
class RemoteDirectories:
    """Directories of another filesystem."""

    filesystem: RemoteFilesystem

    def entries(self, path: str) -> dict[str, bool]:
        """Names in a directory, and whether each is a directory itself."""
        return {entry.name: entry.is_dir for entry in self.filesystem.entries(path)}

    def exists(self, path: str) -> bool:
        """Return True if there is a file or directory of this path."""
        return self.filesystem.exists(path)

    def read(self, path: str) -> bytes:
        """The content of a small file."""
        size = self.filesystem.size_of(path)
        if size is None:
            raise FileNotFoundError(errno.ENOENT, "no such file", self.shown(path))
        with self.filesystem.open(path) as handle:
            return self.filesystem.read_range(handle, path, 0, size)

    def shown(self, path: str) -> str:
        """Return the path's URI."""
        return self.filesystem.uri(path)


def is_uri(text: str) -> bool:
    """Return True if a path has a scheme."""
    return is_url(text) or file_path(text) != text


def directories_of(text: str, options: Options) -> tuple[Directories, str]:
    """Return the directories of the filesystem that a path or URI names, and the path inside that filesystem.

    Raises
    ------
    ValueError
        The filesystem does not have one of the options.
    """
    local = file_path(text)
    if is_url(local):
        filesystem, path = split_uri(text, options)
        return RemoteDirectories(filesystem), path
    return LocalDirectories(), _absolute(local)


def _absolute(text: str) -> str:
    path = Path(text).absolute()
    return str(path.resolve() if ".." in path.parts else path)
