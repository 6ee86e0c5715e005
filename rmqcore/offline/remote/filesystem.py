"""Filesystems of pyarrow (S3, HDFS, ...) and fsspec, named by URI and options: they list directories and read ranges of files."""

from __future__ import annotations

import errno
import functools
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from rmqcore.errors import RemoteStorageError
from rmqcore.offline.remote.entries import (
    RemoteEntry,
    arrow_entries,
    arrow_entry,
    fsspec_entries,
    fsspec_entry,
)
from rmqcore.offline.remote.filesystem_options import (
    ALIASES,
    Options,
    parse_options,
    redact,
    uses_fsspec,
)

# A question mark may also be part of a glob: it begins a query only if the text behind it looks like a query.
_URI = re.compile(
    r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://(?P<host>[^/?]*)(?P<path>/.*?)?([?](?P<query>[a-z_]+=.*))?"
)
PATH_HAS_AUTHORITY = ("s3", "gs")
"""Schemes whose paths inside the filesystem begin with the bucket."""


@dataclass(frozen=True)
class RemoteFilesystem:
    """Parameters of a connection to a filesystem; small, and sent to tasks by pickle.

    Attributes
    ----------
    base : str
        URI without path: ``s3://bucket``, ``hdfs://namenode:8020``.
    options : tuple of (str, str)
        The options ``storage.*`` without that prefix; not in the repr, since some are secrets.

    Notes
    -----
    Paths begin behind `base`: ``/prefix/store``. Safe to share between threads. Each process connects anew, because neither
    connections nor the threads behind them live through a fork.
    """

    base: str
    options: Options = field(default=(), repr=False)

    def uri(self, path: str) -> str:
        """Return the whole URI of a path, without secrets."""
        return self.base + path

    def entries(self, path: str) -> list[RemoteEntry]:
        """Return the files and directories in a directory, sorted by name.

        Raises
        ------
        FileNotFoundError
            The directory does not exist.
        NotADirectoryError
            The path names a file.
        RemoteStorageError
            The server cannot be reached, refuses, or does not have the bucket.
        """
        return self._listed(path, recursive=False)

    def tree(self, path: str) -> list[RemoteEntry]:
        """Return all entries below a directory, as `entries`: an entry's name is its path below the directory."""
        return self._listed(path, recursive=True)

    def _listed(self, path: str, *, recursive: bool) -> list[RemoteEntry]:
        with self._told("listed", path):
            system, inner = self.connect(path)
            of_fsspec = _of_fsspec(system)
            if of_fsspec is None:
                found = [*arrow_entries(system, inner, recursive=recursive)]
            else:
                found = [*fsspec_entries(of_fsspec, inner, recursive=recursive)]
        return sorted(found, key=lambda entry: entry.name)

    def look_at(self, path: str) -> RemoteEntry | None:
        """Return the present entry of a file or directory; None if it does not exist."""
        with self._told("looked at", path):
            system, inner = self.connect(path)
            of_fsspec = _of_fsspec(system)
            if of_fsspec is None:
                return arrow_entry(system, inner)
            return fsspec_entry(of_fsspec, inner)

    def open(self, path: str) -> Any:
        """Open a file for ranged reads: a ``pyarrow.NativeFile``."""
        with self._told("opened", path):
            system, inner = self.connect(path)
            return system.open_input_file(inner)

    def size_of(self, path: str) -> int | None:
        """Return the size of a file in bytes; None if the file does not exist."""
        found = self.look_at(path)
        return None if found is None or found.is_dir else found.size

    def exists(self, path: str) -> bool:
        """Return True if a file or directory of this path exists."""
        return self.look_at(path) is not None

    def read_range(self, handle: Any, path: str, pos: int, count: int) -> bytes:
        """Read `count` bytes of an open file from byte `pos` on."""
        with self._told(f"read from byte {pos} to {pos + count}", path):
            data: bytes = handle.read_at(count, pos)
        return data

    def connect(self, path: str) -> tuple[Any, str]:
        """Return the filesystem of pyarrow, and the path in the form that it accepts."""
        system, prefix = _connect(self, os.getpid())
        return system, prefix + path or "/"

    @contextmanager
    def _told(self, done: str, path: str) -> Iterator[None]:
        """Raise errors of the ``with`` block with the file's URI, and without secrets."""
        try:
            yield
        except (FileNotFoundError, NotADirectoryError) as error:
            number = errno.ENOENT if isinstance(error, FileNotFoundError) else errno.ENOTDIR
            raise type(error)(number, os.strerror(number), self.uri(path)) from None
        except Exception as error:  # noqa: BLE001 - filesystems of fsspec raise what their libraries raise
            # `from None`: the text of the cause could still hold the secrets that were cut out of the message.
            raise self.error(f"{self.uri(path)} cannot be {done}", error) from None

    def error(self, what: str, error: Exception) -> RemoteStorageError:
        """Return an error that names the failed operation and the cause, without secrets."""
        why = (str(error).strip() or type(error).__name__).splitlines()[0]
        return RemoteStorageError(f"{what}: {redact(why, self.options)}")


def split_uri(uri: str, options: Options) -> tuple[RemoteFilesystem, str]:
    """Split a URI into a filesystem and a path; user, password and query of the URI become options.

    Raises
    ------
    ValueError
        The URI is malformed, names no bucket, or holds a secret that must be an option; or an option is unknown.
    """
    match = _URI.fullmatch(uri)
    if match is None:
        raise ValueError(f"{redact(uri, options)} is not a URI")
    scheme = match["scheme"].lower()
    fsspec = uses_fsspec(scheme, options)
    scheme = scheme if fsspec else ALIASES.get(scheme, scheme)
    host, more = match["host"], dict(parse_qsl(match["query"] or ""))
    user, _, secret = host.rpartition("@")[0].partition(":")
    if secret and (fsspec or scheme != "s3"):
        raise ValueError(f"{scheme}://: pass secrets as options storage.*, not in the URI")
    if secret:
        host = host.rpartition("@")[2]
        more |= {"access_key": unquote(user), "secret_key": unquote(secret)}
    if scheme in PATH_HAS_AUTHORITY and not host:
        raise ValueError(f"{scheme}:// lacks the bucket: {scheme}://BUCKET/PATH")
    merged = tuple(sorted((more | dict(options)).items()))
    parse_options(scheme, merged)
    return RemoteFilesystem(f"{scheme}://{host}", merged), (match["path"] or "").rstrip("/")


@functools.lru_cache(maxsize=64)
def _connect(where: RemoteFilesystem, process: int) -> tuple[Any, str]:
    """Make the filesystem, once in each process; return it with the prefix of all paths in it."""
    del process
    from pyarrow import fs

    parts = urlsplit(where.base)
    given = parse_options(parts.scheme, where.options)
    if uses_fsspec(parts.scheme, where.options):
        return _connect_fsspec(where.base, given)
    if parts.scheme == "s3" and given:
        if not {"region", "endpoint_override"} & given.keys():
            given["region"] = fs.resolve_s3_region(parts.netloc)
        return fs.S3FileSystem(**given), parts.netloc
    if parts.scheme == "gs" and given:
        return fs.GcsFileSystem(**given), parts.netloc
    if parts.scheme == "hdfs" and given:
        return fs.HadoopFileSystem(parts.hostname or "default", parts.port or 0, **given), ""
    if parts.scheme == "abfs" and given:
        account = (parts.hostname or "").partition(".")[0]
        return fs.AzureFileSystem(**{"account_name": account} | given), parts.username or ""
    system, prefix = fs.FileSystem.from_uri(where.base + "/")
    return system, prefix.rstrip("/")


def _connect_fsspec(base: str, given: dict[str, Any]) -> tuple[Any, str]:
    from pyarrow import fs

    try:
        from fsspec.core import url_to_fs
    except ImportError:
        scheme = base.partition("://")[0]
        raise ImportError(f"{scheme}:// needs fsspec: pip install fsspec") from None
    system, prefix = url_to_fs(base + "/", **given)
    return fs.PyFileSystem(fs.FSSpecHandler(system)), prefix.rstrip("/")


def _of_fsspec(system: Any) -> Any:
    """Return the fsspec filesystem behind one of pyarrow; None for a filesystem of pyarrow's own."""
    return getattr(getattr(system, "handler", None), "fs", None)
