"""The place of a store that a caller names: a directory of this machine, or a URL."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from rmqcore.disk.paths import absolute_path, is_url
from rmqcore.offline.installed import check_installed
from rmqcore.offline.remote.filesystem import RemoteFilesystem, split_uri
from rmqcore.offline.remote.filesystem_options import OF_PYARROW
from rmqcore.offline.remote.given_options import given_options

_FILE = re.compile(r"file:(//[^/]*)?(?=/)", re.IGNORECASE)

StorageOptions = Mapping[str, Any]


@dataclass(frozen=True)
class StoreUrl:
    """A directory of another filesystem. Its text form is the URL, without secrets.

    Attributes
    ----------
    filesystem : RemoteFilesystem
    path : str
        Within the filesystem, without a slash at its end.
    """

    filesystem: RemoteFilesystem
    path: str

    @property
    def name(self) -> str:
        """The directory's own name."""
        return self.path.rpartition("/")[2]

    @property
    def parent(self) -> StoreUrl:
        """The directory above."""
        return StoreUrl(self.filesystem, self.path.rpartition("/")[0])

    def __truediv__(self, name: str) -> StoreUrl:
        return StoreUrl(self.filesystem, f"{self.path}/{name}")

    def __str__(self) -> str:
        return self.filesystem.uri(self.path)


def store_place(
    path: str | os.PathLike[str] | StoreUrl, storage_options: StorageOptions | None = None
) -> Path | StoreUrl:
    """Return the place of a store by its name: a path of this machine made absolute, or the parsed URL.

    Parameters
    ----------
    path : str, path-like or StoreUrl
        ``file://`` is a path of this machine.
    storage_options : mapping of str to any, optional
        Of the filesystem that a URL names; see `given_options`.

    Raises
    ------
    TypeError, ValueError, FileNotFoundError
        As `absolute_path`. ValueError also if the URL is malformed or names no bucket, an option is unknown, or options
        are given without a URL.
    ModuleNotFoundError
        pyarrow or fsspec, which the URL needs, is not installed.
    """
    if isinstance(path, StoreUrl):
        return path
    text = file_path(path) if isinstance(path, str) else path
    if isinstance(text, str) and is_url(text):
        scheme = text.partition("://")[0].lower()
        _check_installed(scheme)
        return StoreUrl(*split_uri(text, given_options(scheme, storage_options)))
    found = absolute_path(text, "path")
    if storage_options:
        raise ValueError(f"storage_options does not apply to {found}, a local path")
    return found


def file_path(text: str) -> str:
    """Return the path of a ``file://`` URL; any other text unchanged."""
    found = _FILE.match(text)
    return text if found is None else unquote(text[found.end() :])


def _check_installed(scheme: str) -> None:
    check_installed("pyarrow", f"{scheme}://", "pip install 'rmqcore[arrow]'")
    if scheme not in OF_PYARROW:
        check_installed("fsspec", f"{scheme}://", "pip install fsspec")
