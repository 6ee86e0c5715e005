"""A remote store's tree in a temporary directory: files of the true sizes and times, whose bytes are fetched on reads."""

from __future__ import annotations

import os
import sys
import tempfile
import weakref
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from rmqcore.disk.inside.folder import Folder, remove_made
from rmqcore.disk.inside.skeletons import Part, add_skeleton
from rmqcore.errors import RemoteStorageError, StoreFormatError
from rmqcore.offline.remote.entries import RemoteEntry
from rmqcore.offline.remote.filesystem import RemoteFilesystem
from rmqcore.offline.remote.listed_file import ListedFile, OpenFiles
from rmqcore.offline.remote.sparse_file import BLOCK, SparseFile, set_mtime

THREADS = 16
"""Files fetched in parallel by `bring_all`: most are small, and a request takes longer than its bytes."""


class Skeleton:
    """The tree, and the remote source of each of its files.

    The tree is removed by `close`, with the last reference to it, or at the end of the process.

    Attributes
    ----------
    root : str
    open_files : OpenFiles

    Notes
    -----
    Thread safety: `bring_in` and `bring_all` may run at the same time. A forked child may continue to read; it removes
    nothing.
    """

    def __init__(self) -> None:
        self.root = tempfile.mkdtemp(prefix="rmqcore-")
        self._remove = weakref.finalize(self, _remove, self.root, os.getpid())
        self.open_files = OpenFiles()
        self._files: dict[str, SparseFile] = {}
        self._folders: dict[str, tuple[RemoteFilesystem, str]] = {}
        self._folder = Folder(self.root)
        add_skeleton(self.root, self)

    def add(
        self,
        place: str,
        filesystem: RemoteFilesystem,
        path: str,
        entries: Iterable[RemoteEntry],
    ) -> None:
        """Make a directory with the entries of a remote directory.

        Parameters
        ----------
        place : str
            The directory's path in the skeleton.
        filesystem : RemoteFilesystem
        path : str
            The directory in the filesystem.
        entries : iterable of RemoteEntry
            Their names are paths below it.

        Raises
        ------
        RemoteStorageError
            A name is not valid for a local file or directory.
        """
        self._folders[f"{self.root}/{place}"] = filesystem, path
        self._folder.make(place, exist_ok=True)
        folders = {"": self._folder.folder(place)}
        for entry in sorted(entries, key=lambda one: (not one.is_dir, one.name)):
            above, _, name = entry.name.rpartition("/")
            try:
                if entry.is_dir:
                    self._folder.make(f"{place}/{entry.name}", exist_ok=True)
                    continue
                if above not in folders:  # the files of a directory follow each other
                    folders = {
                        "": folders[""],
                        above: self._folder.folder(f"{place}/{above}", make=True),
                    }
                _make_file(folders[above], name, entry)
            except (OSError, StoreFormatError) as error:
                why = error.strerror if isinstance(error, OSError) else str(error)
                raise RemoteStorageError(
                    f"{filesystem.uri(f'{path}/{entry.name}')} cannot be placed in {self.root}: "
                    f"{why}"
                ) from None
            source = ListedFile(filesystem, f"{path}/{entry.name}", entry)
            sparse = SparseFile(source, self._folder, f"{place}/{entry.name}")
            self._files[f"{self.root}/{sparse.place}"] = sparse

    def source_of(self, path: str) -> ListedFile:
        """Return the remote file behind a path of the skeleton."""
        return self._files[path].source

    def bring_in(self, path: str, part: Part | None) -> None:
        """Fetch a part of a file, or all of it; raise as `SparseFile.bring_in`."""
        file = self._files.get(path)
        if file is not None:
            begin, count = (0, file.size) if part is None else part
            file.bring_in(self.open_files, begin, begin + count)

    def bring_all(
        self,
        folders: Iterable[str],
        *,
        beginnings: bool = False,
        progress: Callable[[int, int], object] | None = None,
    ) -> int:
        """Fetch all files below some directories, or their first bytes, in parallel; return the number of missing bytes.

        Raises
        ------
        RemoteStorageError
            The first error of a file.
        """
        below = tuple(f"{folder}/" for folder in folders)
        most = BLOCK if beginnings else sys.maxsize
        files = [file for path, file in self._files.items() if path.startswith(below)]
        wanted = {file: missing for file in files if (missing := file.missing_bytes(most))}
        if not wanted:
            return 0
        total, done = sum(wanted.values()), 0
        pool = ThreadPoolExecutor(THREADS, thread_name_prefix="rmqcore-fetch")
        try:
            under_way = {
                pool.submit(file.bring_in, self.open_files, 0, most): missing
                for file, missing in wanted.items()
            }
            for future in as_completed(under_way):
                future.result()
                done += under_way[future]
                if progress is not None:
                    progress(done, total)
        finally:
            pool.shutdown(wait=True, cancel_futures=True)
        return total

    def shown(self, path: str) -> str:
        """Return the URI of a path of the skeleton."""
        for folder, (filesystem, there) in self._folders.items():
            if path == folder or path.startswith(f"{folder}/"):
                return filesystem.uri(there + path[len(folder) :])
        return path

    def close(self) -> None:
        """Remove the tree; may be repeated."""
        self.open_files.close()
        self._folder.close()
        self._remove()

    def __repr__(self) -> str:
        return f"<Skeleton {self.root!r}>"


def _make_file(folder: Folder, name: str, entry: RemoteEntry) -> None:
    file = folder.open_file(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        os.ftruncate(file.fileno(), entry.size)
        set_mtime(file.fileno(), entry.mtime_ns)
    finally:
        file.close()


def _remove(root: str, process: int) -> None:
    if os.getpid() == process:
        remove_made(Path(root))
