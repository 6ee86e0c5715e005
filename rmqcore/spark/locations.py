"""Where a store lies: a local directory, or one on a filesystem of pyarrow."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from rmqcore.engine.paths import StorePaths
from rmqcore.offline.files import LogFile, list_log_files
from rmqcore.offline.reader import store_paths


@dataclass(frozen=True)
class StoreLocation:
    """One store; small, and sent to tasks by pickle.

    Attributes
    ----------
    broker : str
        Name of the store: given as ``name=path``, else the directory's.
    root : str
        Absolute path, or URI.
    storage : tuple of (str, str)
        Options for the filesystem.
    """

    broker: str
    root: str
    storage: tuple[tuple[str, str], ...] = ()

    @property
    def paths(self) -> StorePaths:
        """Of a store on a local disk."""
        return store_paths(Path(self.root))

    def log_files(self) -> list[LogFile]:
        """CommitLog files by offset."""
        return list_log_files(self.paths)


def find_stores(
    path: str | list[str], storage: dict[str, str] | None = None
) -> list[StoreLocation]:
    """Resolve what a user gave as path: a store, a list of them, globs, ``name=path`` pairs.

    Raises
    ------
    NotAStoreError
        A directory holds none of the parts of a store.
    FileNotFoundError, NotADirectoryError
        There is no such directory, or nothing fits the glob.
    ValueError
        Two stores of one name.
    """
    del storage
    given = [path] if isinstance(path, str) else list(path)
    found = []
    for text in given:
        name, _, rest = text.rpartition("=")
        root = Path(rest).absolute()
        store_paths(root)
        found.append(StoreLocation(name or root.name, str(root)))
    return found
