"""The folder ``index/``: which of its files count, which survive a crash, how new files are named and old ones deleted."""

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
    """Which files of the folder count.

    Attributes
    ----------
    files : list of IndexFile
        Oldest first.
    empty : list of str
        Files of no bytes, which a crash leaves.
    rest : list of str
        Files that do not count, and all behind them.
    damaged : bool
        The first of `rest` has a size that no index file has; else it was perhaps not on disk.
    """

    files: list[IndexFile]
    empty: list[str]
    rest: list[str]
    damaged: bool


class IndexFolder:
    """Opens, makes and deletes the index files of a store. Files whose names are no number are left alone.

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
        """Check that all files have a size that `load` understands; nothing is changed.

        Raises
        ------
        StoreFormatError
            As `load`.
        """
        for name, size in self._list():
            if size:
                self._open(name, writable=False)

    def choose(self, *, clean: bool, index_msg_timestamp_ms: int) -> Chosen:
        """Choose the files that count; nothing is changed.

        After an unclean exit these are the full files, in order, as long as their end timestamps rise and do not exceed the
        checkpoint's: a full file is synced before the next one is, and its end gets into the checkpoint only after its sync.
        Whether they hold what the log says is for the caller to find out.

        Raises
        ------
        StoreFormatError
            Files of another number of slots and entries than configured, and which numbers cannot be found out.
        OSError
            A file cannot be read.

        Notes
        -----
        Source: RocketMQ 5.5.0 IndexService#load, which keeps files that are not full too, lengthens short files and does not ask
        for an order.
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
        """Names and sizes of the index files, in name order."""
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
        """Make the next file, which begins with the end of the newest one.

        Parameters
        ----------
        files : sequence of IndexFile
            The files in use, oldest first.

        Raises
        ------
        OSError
            The file cannot be made, or the disk is full; no file is left then.
        """
        make_directory(self.path)
        self.clear_up(files)
        name = next_name(self._clock(), self._newest_name)
        # Noted first: an exception of a signal handler may leave the file, and the next call must neither meet nor keep it.
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
        made = self._names_made  # before the sync: it does not cover a file that is made meanwhile
        if self._names_synced != made:
            sync_directory(self.path)
            self._names_synced = made

    def remove(self, files: Sequence[IndexFile]) -> None:
        """Delete the last files. New files get names behind those of the deleted ones all the same."""
        self._remove([file.name for file in files])

    def _remove(self, names: list[str]) -> None:
        """Delete files, the newest first, so that at any time the files left are a sound beginning. An empty folder goes too.

        A missing folder tells the next open that nothing is indexed, even when there is no abort file.
        """
        if not names:
            return
        for name in reversed(names):
            unlink(self.path / name)
        sync_directory(self.path)
        if not any(self.path.iterdir()):
            remove_empty(self.path)
