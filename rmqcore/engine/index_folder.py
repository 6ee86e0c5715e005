"""The folder ``index/``: which files of it count, which survive a crash, new names, deletions."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from rmqcore.config import MessageStoreConfig
from rmqcore.engine.files import make_directory, sync_directory
from rmqcore.engine.index_file import (
    IndexFile,
    find_geometry,
    is_index_file_name,
    next_name,
    read_header,
)


class IndexFolder:
    """Opens, makes and deletes the index files of a store. Names that are no number are left alone.

    Parameters
    ----------
    path : Path
    config : MessageStoreConfig
    clock : callable
        Wall clock in milliseconds, for names.

    Notes
    -----
    Thread safety: one thread at a time, but for `sync_names`.
    """

    def __init__(self, path: Path, config: MessageStoreConfig, clock: Callable[[], int]) -> None:
        self.path = path
        self._geometry = config.max_hash_slot_num, config.max_index_num
        self._clock = clock
        self._newest_name: str | None = None
        self._names_synced = True

    @property
    def exists(self) -> bool:
        """Whether there is a folder."""
        return self.path.is_dir()

    def check(self) -> None:
        """Look whether all files have a size that `load` understands; changes nothing.

        Raises
        ------
        StoreFormatError
            As `load`.
        """
        for name, size in self._list():
            if size:
                self._open(name, writable=False)

    def load(self, *, clean: bool, index_msg_timestamp_ms: int) -> list[IndexFile]:
        """Open the files, oldest first; after an unclean exit delete those that were perhaps not on disk.

        Kept are then full ones, in order, as long as their end timestamps rise and are not above the checkpoint's: a full file
        is synced before the next one is, and only then its end gets into the checkpoint.

        Raises
        ------
        StoreFormatError
            A file has another size than configured, and its slots and entries cannot be told.
        OSError
            A file cannot be read or deleted.

        Notes
        -----
        Source: RocketMQ 5.5.0 IndexService#load, which keeps files that are not full too, lengthens short files and does not ask
        for an order.
        """
        self._remove([name for name, size in self._list() if size == 0])
        names = [name for name, _ in self._list()]
        self._newest_name = names[-1] if names else None
        kept: list[IndexFile] = []
        last_end_ms = -1
        for number, name in enumerate(names):
            file = self._open(name, writable=clean and name == names[-1])
            end_ms = file.native.header.end_timestamp_ms
            synced = file.native.full and last_end_ms < end_ms <= index_msg_timestamp_ms
            if not clean and not synced:
                self._remove(names[number:])
                break
            kept.append(file)
            last_end_ms = end_ms
        return kept

    def _list(self) -> list[tuple[str, int]]:
        """Names and sizes of the index files, in name order."""
        try:
            with os.scandir(self.path) as entries:
                return sorted(
                    (entry.name, entry.stat().st_size)
                    for entry in entries
                    if is_index_file_name(entry.name) and entry.is_file()
                )
        except FileNotFoundError:
            return []

    def _open(self, name: str, *, writable: bool) -> IndexFile:
        path = self.path / name
        header = read_header(path)
        geometry = find_geometry(path, path.stat().st_size, header, *self._geometry)
        return IndexFile(path, *geometry, header, writable=writable and geometry == self._geometry)

    def create(self, before: IndexFile | None) -> IndexFile:
        """Make the next file, which begins with the end of the one before.

        Raises
        ------
        OSError
            It cannot be made, or the disk is full; nothing is left of it.
        """
        make_directory(self.path)
        name = next_name(self._clock(), self._newest_name)
        header = before.native.header if before is not None else None
        file = IndexFile.create(self.path / name, *self._geometry, header)
        self._newest_name = name
        self._names_synced = False
        return file

    def sync_names(self) -> None:
        """Wait until the names of new files are on disk. Another thread may be in `create`."""
        if not self._names_synced:
            self._names_synced = (
                True  # before: a name that comes during the sync asks for the next one
            )
            try:
                sync_directory(self.path)
            except OSError:
                self._names_synced = False
                raise

    def remove(self, files: Sequence[IndexFile]) -> None:
        """Delete the last files. New names lie behind theirs all the same."""
        self._remove([file.name for file in files])

    def _remove(self, names: list[str]) -> None:
        """Delete files, the newest first: what is left is a sound beginning at any time. An empty folder goes too.

        Without the folder even an open that finds no abort file knows that nothing is indexed.
        """
        if not names:
            return
        for name in reversed(names):
            (self.path / name).unlink()
        sync_directory(self.path)
        if not any(self.path.iterdir()):
            self.path.rmdir()
