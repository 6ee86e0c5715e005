"""A filesystem in memory that notes every range it is asked for, in place of one of pyarrow's."""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, Self

from rmqcore.errors import RemoteStorageError
from rmqcore.offline.log.remote_file import RemoteLogFile
from rmqcore.offline.remote.entries import RemoteEntry
from rmqcore.offline.remote.filesystem import RemoteFilesystem
from rmqcore.offline.remote.store_url import StoreUrl


@dataclass
class Disk:
    """Files by path, and the ranges that were read: (path, first byte, byte behind the last)."""

    files: dict[str, bytes] = field(default_factory=dict)
    ranges: list[tuple[str, int, int]] = field(default_factory=list)
    failing: str = ""
    """What the server says to every range; nothing while it works."""
    failing_paths: set[str] = field(default_factory=set)
    """Files of which no range comes."""


class Handle:
    def __init__(self, disk: Disk, path: str) -> None:
        self._disk = disk
        self._path = path
        self._opened_size = len(disk.files[path])
        self.closed = False

    def size(self) -> int:
        return self._opened_size

    def read_at(self, count: int, pos: int) -> bytes:
        assert not self.closed
        assert pos < self._opened_size, "no range begins behind the end"
        self._disk.ranges.append((self._path, pos, pos + count))
        if self._disk.failing or self._path in self._disk.failing_paths:
            raise OSError(self._disk.failing or "Connection reset")
        if self._path not in self._disk.files:
            raise OSError("AWS Error INTERNAL_FAILURE")
        data = self._disk.files[self._path]
        if pos >= len(data):
            raise OSError("AWS Error 416")
        return data[pos : pos + count]

    def close(self) -> None:
        self.closed = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@dataclass(frozen=True)
class DiskFilesystem(RemoteFilesystem):
    """`RemoteFilesystem` over a `Disk`."""

    disk: Disk = field(default_factory=Disk, compare=False)

    def open(self, path: str) -> Any:
        if path not in self.disk.files:
            raise FileNotFoundError(2, "No such file or directory", self.uri(path))
        return Handle(self.disk, path)

    def entries(self, path: str) -> list[RemoteEntry]:
        found: dict[str, RemoteEntry] = {}
        for name, data in self.disk.files.items():
            if name.startswith(f"{path}/"):
                first, _, rest = name.removeprefix(f"{path}/").partition("/")
                found[first] = RemoteEntry(first, True, 0) if rest else entry_of(first, data)
        if not found:
            raise FileNotFoundError(2, "No such file or directory", self.uri(path))
        return [found[name] for name in sorted(found)]

    def tree(self, path: str) -> list[RemoteEntry]:
        found: set[RemoteEntry] = set()
        for name, data in self.disk.files.items():
            if name.startswith(f"{path}/"):
                below = name.removeprefix(f"{path}/")
                found.add(entry_of(below, data))
                while "/" in below:
                    below = below.rpartition("/")[0]
                    found.add(RemoteEntry(below, is_dir=True, size=0))
        return sorted(found, key=lambda entry: entry.name)

    def look_at(self, path: str) -> RemoteEntry | None:
        if self.disk.failing:
            raise RemoteStorageError(self.disk.failing)
        if path not in self.disk.files:
            return None
        return entry_of("", self.disk.files[path])


def entry_of(name: str, data: bytes) -> RemoteEntry:
    """A file as it is listed: other bytes are another version."""
    return RemoteEntry(name, is_dir=False, size=len(data), etag=f"{zlib.crc32(data):08x}")


def store_on(root: Path) -> tuple[Disk, StoreUrl]:
    """A store of a directory on a disk of its own."""
    files = {
        f"/store/{path.relative_to(root)}": path.read_bytes()
        for path in root.rglob("*")
        if path.is_file()
    }
    disk = Disk(files)
    return disk, StoreUrl(DiskFilesystem("mem://host", (), disk), "/store")


def remote_file(data: bytes, name: str = "0" * 20) -> tuple[Disk, RemoteLogFile]:
    """One CommitLog file on a disk of its own."""
    disk = Disk({f"/store/commitlog/{name}": data})
    file = RemoteLogFile(
        PurePosixPath(f"/store/commitlog/{name}"),
        int(name),
        len(data),
        filesystem=DiskFilesystem("mem://host", (), disk),
    )
    return disk, file
