"""The folder ``index/``: chooses the files that count, also after a crash; names new files and deletes old ones."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from rmqcore.config import MessageStoreConfig
from rmqcore.disk.durable import make_directory, sync_directory
from rmqcore.disk.index.header import read_header
from rmqcore.disk.inside.files import remove_empty, unlink
from rmqcore.disk.inside.links import is_file
from rmqcore.disk.paths import is_index_file_name
from rmqcore.engine.index.index_file import (
    IndexFile,
    find_geometry,
    next_name,
)


@dataclass(frozen=True, slots=True)
class Chosen:
    """Files of the folder, sorted into those that count and those that do not.

    Attributes
    ----------
    files : list of IndexFile
        Oldest first.
    empty : list of str
        Empty files, which a crash leaves.
    rest : list of str
        The first file that does not count, and all files behind it.
    damaged : bool
        True if the size of the first file in `rest` fits no index file; otherwise that file may not have been on disk.
    """

    files: list[IndexFile]
    empty: list[str]
    rest: list[str]
    damaged: bool


class IndexFolder:
    """Opens, makes and deletes the index files of a store. Files whose names are not numbers are left alone.

    Parameters
    ----------
    path : Path
    config : MessageStoreConfig
    clock : callable
        Wall clock in milliseconds, for names.

    Notes
    -----
    Thread safety: one thread at a time; `sync_names` may run in another one.
    """

    def __init__(self, path: Path, config: MessageStoreConfig, clock: Callable[[], int]) -> None:
        self.path = path
        self._geometry = config.max_hash_slot_num, config.max_index_num
        self._clock = clock
        self._newest_name: str | None = None
        self._making: str | None = None
        self._names_made = self._names_synced = 0  # new names so far, and those on disk

    @property
    def exists(self) -> bool:
        """True if the folder exists."""
        return self.path.is_dir()

    def check(self) -> None:
        """Check that `load` accepts the sizes of all files; change nothing.

        Raises
        ------
        StoreFormatError
            As `load`.
        """
        for name, size in self._list():
            if size:
                self._open(name, writable=False)

    def choose(self, *, clean: bool, index_msg_timestamp_ms: int) -> Chosen:
        """Choose the files that count; change nothing.

        After an unclean exit these are the full files, in order, while their end timestamps rise and do not exceed the
        checkpoint's: a full file is synced before the next one, and its end gets into the checkpoint only after its
        sync. The caller compares their entries with the log.

        Raises
        ------
        StoreFormatError
            Numbers of slots and entries differ from the configured ones, and cannot be found from the files.
        OSError
            A file cannot be read.

        Notes
        -----
        Source: RocketMQ 5.5.0 IndexService#load, which also keeps files that are not full, lengthens short files and
        accepts any order.
        """
        listed = self._list()
        empty = [name for name, size in listed if size == 0]
        names = [name for name, size in listed if size]
        kept: list[IndexFile] = []
        last_end_ms = -1
        for number, name in enumerate(names):
            file = self._open(name, writable=clean and name == names[-1])
            if file is None:
                return Chosen(kept, empty, names[number:], damaged=True)
            end_ms = file.native.header.end_timestamp_ms
            synced = file.native.full and last_end_ms < end_ms <= index_msg_timestamp_ms
            if not clean and not synced:
                return Chosen(kept, empty, names[number:], damaged=False)
            kept.append(file)
            last_end_ms = end_ms
        return Chosen(kept, empty, [], damaged=False)

    def load(self, *, clean: bool, index_msg_timestamp_ms: int) -> Chosen:
        """Open the files that count and delete the others; see `choose`.

        Raises
        ------
        StoreFormatError
            As `choose`.
        OSError
            A file cannot be read or deleted.
        """
        chosen = self.choose(clean=clean, index_msg_timestamp_ms=index_msg_timestamp_ms)
        names = [file.name for file in chosen.files] + chosen.rest
        self._newest_name = names[-1] if names else None
        self._remove(chosen.empty)
        self._remove(chosen.rest)
        return chosen

    def _list(self) -> list[tuple[str, int]]:
        """Return names and sizes of the index files, in name order."""
        try:
            with os.scandir(self.path) as entries:
                return sorted(
                    (entry.name, entry.stat().st_size)
                    for entry in entries
                    if is_index_file_name(entry.name) and is_file(entry)
                )
        except FileNotFoundError:
            return []

    def _open(self, name: str, *, writable: bool) -> IndexFile | None:
        path = self.path / name
        header = read_header(path)
        geometry = find_geometry(path, path.stat().st_size, header, *self._geometry)
        if geometry is None:
            return None
        return IndexFile(path, *geometry, header, writable=writable and geometry == self._geometry)

    def create(self, files: Sequence[IndexFile]) -> IndexFile:
        """Make the next file, whose header starts at the end of the newest one.

        Parameters
        ----------
        files : sequence of IndexFile
            The files in use, oldest first.

        Raises
        ------
        OSError
            The file cannot be made, or the disk is full; no file is left.
        """
        make_directory(self.path)
        self.clear_up(files)
        name = next_name(self._clock(), self._newest_name)
        # Noted first: an exception of a signal handler may leave the file, and the next call must delete it.
        self._making = self._newest_name = name
        header = files[-1].native.header if files else None
        file = IndexFile.create(self.path / name, *self._geometry, header)
        self._names_made += 1
        return file

    def clear_up(self, files: Sequence[IndexFile]) -> None:
        """Delete a file that an interrupted `create` left: the last one made, if it is not in use."""
        name = self._making
        if name is not None and all(file.name != name for file in files):
            unlink(self.path / name, missing_ok=True)
        self._making = None

    def sync_names(self) -> None:
        """Wait until the names of new files are on disk. Another thread may be in `create`."""
        made = (
            self._names_made
        )  # read before the sync, which does not cover files made while it runs
        if self._names_synced != made:
            sync_directory(self.path)
            self._names_synced = made

    def remove(self, files: Sequence[IndexFile]) -> None:
        """Delete the last files. Names of new files still sort behind those of the deleted files."""
        self._remove([file.name for file in files])

    def _remove(self, names: list[str]) -> None:
        """Delete files, newest first, so that no gap is left among the others at any time; then delete an empty folder.

        The next open treats a missing folder as an empty index, even without an abort file.
        """
        if not names:
            return
        for name in reversed(names):
            unlink(self.path / name)
        sync_directory(self.path)
        if not any(self.path.iterdir()):
            remove_empty(self.path)
