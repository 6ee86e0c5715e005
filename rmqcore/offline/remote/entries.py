"""Files as listed by a filesystem: name, size, modification time."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from errno import ENOENT, ENOTDIR
from typing import Any

NS = 1_000_000_000
_AUTHORITY = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^/]*")
_WRITTEN = (
    "mtime",
    "LastModified",
    "last_modified",
    "updated",
    "modified",
    "modificationTime",
    "created",
)
"""Names under which filesystems of fsspec list the time when a file was written, the most reliable first."""
_ETAGS = ("ETag", "etag", "generation")
MILLISECONDS = "modificationTime"
"""The key of WebHDFS, the only one in milliseconds."""


@dataclass(frozen=True)
class RemoteEntry:
    """A file or directory.

    Attributes
    ----------
    name : str
        Its path below the directory that was listed.
    is_dir : bool
    size : int
        Bytes; 0 for a directory.
    mtime_ns : int or None
        When it was written, nanoseconds since the epoch; None if the filesystem does not list it.
    etag : str
        Identifier of the file's version; empty if the filesystem does not have one.
    """

    name: str
    is_dir: bool
    size: int
    mtime_ns: int | None = None
    etag: str = ""

    def is_other_than(self, listed: RemoteEntry) -> bool:
        """Return True if this is another file than the listed one, or another version of it.

        Times are compared in whole seconds: some servers return different fractions for a list and for a single file.
        """
        if self.size != listed.size or (self.etag and listed.etag and self.etag != listed.etag):
            return True
        if self.mtime_ns is None or listed.mtime_ns is None:
            return False
        return abs(self.mtime_ns - listed.mtime_ns) >= NS

    def described(self) -> str:
        """Return size and time, for an error."""
        if self.mtime_ns is None:
            return f"{self.size} bytes"
        written = datetime.fromtimestamp(self.mtime_ns // NS, UTC)
        return f"{self.size} bytes of {written:%Y-%m-%dT%H:%M:%SZ}"


def arrow_entries(system: Any, inner: str, *, recursive: bool) -> Iterator[RemoteEntry]:
    """List a directory of a pyarrow filesystem; `recursive` includes subdirectories."""
    from pyarrow.fs import FileSelector, FileType

    for info in system.get_file_info(FileSelector(inner, recursive=recursive)):
        name = _below(inner, info.path) if recursive else info.base_name
        if name:
            is_dir = info.type == FileType.Directory
            yield RemoteEntry(name, is_dir, info.size or 0, info.mtime_ns)


def arrow_entry(system: Any, inner: str) -> RemoteEntry | None:
    """Return the entry of a path in a pyarrow filesystem; None if it does not exist."""
    from pyarrow.fs import FileType

    info = system.get_file_info(inner)
    if info.type == FileType.NotFound:
        return None
    return RemoteEntry("", info.type == FileType.Directory, info.size or 0, info.mtime_ns)


def fsspec_entries(system: Any, inner: str, *, recursive: bool) -> Iterator[RemoteEntry]:
    """List a directory of an fsspec filesystem, without its cached listings."""
    system.invalidate_cache()
    if not system.isdir(inner):
        if system.exists(inner):
            raise NotADirectoryError(ENOTDIR, "not a directory", inner)
        raise FileNotFoundError(ENOENT, "no such directory", inner)
    depth = None if recursive else 1
    for path, info in system.find(inner, maxdepth=depth, withdirs=True, detail=True).items():
        name = _below(inner, path)
        if name:
            yield _fsspec_entry(name, info)


def fsspec_entry(system: Any, inner: str) -> RemoteEntry | None:
    """Return the entry of a path in an fsspec filesystem; None if it does not exist."""
    system.invalidate_cache()
    try:
        return _fsspec_entry("", system.info(inner))
    except FileNotFoundError:
        return None


def _fsspec_entry(name: str, info: Mapping[str, Any]) -> RemoteEntry:
    is_dir = info["type"] == "directory"
    etag = next((str(info[key]) for key in _ETAGS if info.get(key)), "")
    written = next(((key, info[key]) for key in _WRITTEN if info.get(key)), None)
    mtime_ns = None if written is None or is_dir else _nanoseconds(*written)
    return RemoteEntry(name, is_dir, 0 if is_dir else info["size"] or 0, mtime_ns, etag)


def _nanoseconds(key: str, value: Any) -> int | None:
    """Convert a time of an fsspec filesystem: an object, a text, or a number of seconds."""
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            return None
    if isinstance(value, datetime):
        value = value.timestamp()
    if not isinstance(value, int | float):
        return None
    return int(value * (NS // 1000 if key == MILLISECONDS else NS))


def _below(directory: str, path: str) -> str:
    """Return a path relative to a directory; empty for the directory itself. HDFS puts its address before paths."""
    inside = _AUTHORITY.sub("", path).strip("/")
    return inside.removeprefix(_AUTHORITY.sub("", directory).strip("/")).strip("/")
