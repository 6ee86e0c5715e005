"""A file as it was when its directory was listed: reads return bytes of that version, or raise."""

from __future__ import annotations

import os
import threading
import time
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

from rmqcore.errors import RemoteChangedError, RemoteStorageError, StoreError
from rmqcore.offline.remote.entries import RemoteEntry
from rmqcore.offline.remote.filesystem import RemoteFilesystem

CHECKED_S = 5.0
"""Seconds for which a check that a file is the listed version stays valid."""
MOST_OPEN = 32


@dataclass(frozen=True)
class ListedFile:
    """A file of a remote store.

    Attributes
    ----------
    filesystem : RemoteFilesystem
    path : str
        Within the filesystem.
    listed : RemoteEntry
        Its entry in the listing.
    """

    filesystem: RemoteFilesystem
    path: str
    listed: RemoteEntry

    @property
    def uri(self) -> str:
        """The file's URI, as messages name it."""
        return self.filesystem.uri(self.path)

    def new_handle(self) -> Any:
        """Open the file for `read`.

        Raises
        ------
        RemoteChangedError
            The file was deleted.
        RemoteStorageError
            The server cannot be reached, or refuses.
        """
        try:
            return self.filesystem.open(self.path)
        except FileNotFoundError:
            raise self._is_gone() from None

    def check(self) -> None:
        """Check on the server that the file is still the listed version.

        Raises
        ------
        RemoteChangedError
            The file was deleted or replaced.
        RemoteStorageError
            As `new_handle`.
        """
        now = self.filesystem.look_at(self.path)
        if now is None or now.is_dir:
            raise self._is_gone()
        if now.is_other_than(self.listed):
            found, expected = now.described(), self.listed.described()
            more = "" if found != expected else ", another version"
            raise RemoteChangedError(
                f"{self.uri}: the file has {found}{more}, expected {expected} as listed: it was "
                "changed since"
            )

    def read(self, handle: Any, pos: int, count: int) -> bytes:
        """Read `count` bytes from byte `pos` on; they lie in the file by its listed size.

        Raises
        ------
        RemoteChangedError
            The file was cut, deleted or replaced.
        RemoteStorageError
            The server cannot return these bytes.
        """
        try:
            data: bytes = handle.read_at(count, pos)
        except StoreError:
            raise
        except Exception as error:  # noqa: BLE001 - filesystems of fsspec raise what their libraries raise
            self.check()
            what = f"{self.uri}: bytes {pos} to {pos + count} cannot be read"
            raise self.filesystem.error(what, error) from None
        if len(data) != count:
            self.check()
            raise RemoteStorageError(
                f"{self.uri}: {len(data)} bytes were returned from byte {pos} on, expected {count}"
            )
        return data

    def _is_gone(self) -> RemoteChangedError:
        return RemoteChangedError(
            f"{self.uri}: the file was deleted, expected {self.listed.described()} as listed"
        )


class _Open:
    def __init__(self, handle: Any) -> None:
        self.handle = handle
        self.checked = time.monotonic()


class OpenFiles:
    """Open files of one store: each is checked when it is opened, and again when it is used later.

    Notes
    -----
    Thread safety: safe to share. A file that is dropped closes when its last reader is done. A forked child opens its
    own files: connections do not survive a fork.
    """

    def __init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._open: OrderedDict[ListedFile, _Open] = OrderedDict()

    def get(self, file: ListedFile) -> Any:
        """Return a handle of the listed version of a file; raise as `ListedFile.check`."""
        if self._process != os.getpid():
            self._begin()
        with self._lock:
            known = self._open.get(file)
            if known is not None:
                self._open.move_to_end(file)
        if known is None:
            known = _Open(file.new_handle())
            file.check()
            with self._lock:
                self._open[file] = known
                while len(self._open) > MOST_OPEN:
                    self._open.popitem(last=False)
        elif time.monotonic() - known.checked > CHECKED_S:
            file.check()
            known.checked = time.monotonic()
        return known.handle

    def close(self) -> None:
        """Drop all cached bytes."""
        with self._lock:
            self._open.clear()
