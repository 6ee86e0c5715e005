"""The paths of a store behind a URL, in a local skeleton of the store."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from rmqcore.disk.paths import StorePaths
from rmqcore.disk.store_kinds import INDEX_DATABASE, ROCKSDB_FOLDER
from rmqcore.offline.remote.skeleton import Skeleton
from rmqcore.offline.remote.store_url import StoreUrl

WHOLE = (
    "commitlog",
    "consumequeue",
    ROCKSDB_FOLDER,
    INDEX_DATABASE,
    "consumequeue_ext",
    "batchconsumequeue",
    "compaction",
    "index",
    "config",
)
"""Directories in a store's root that are listed in full; of others only the name is listed."""
ROOT = "store"
"""The root's place in the skeleton."""


class RemotePaths(StorePaths):
    """The paths of a store as it is listed now: files written later are not visible.

    Parameters
    ----------
    url : StoreUrl
        The store's root.
    logs : sequence of StoreUrl, optional
        The directories of the CommitLog, if it is not ``commitlog`` in the root.

    Attributes
    ----------
    url : StoreUrl
    skeleton : Skeleton

    Raises
    ------
    FileNotFoundError, NotADirectoryError
        The directory does not exist.
    RemoteStorageError
        The server cannot be reached or refuses; or a name is not valid for a local file.
    """

    def __init__(self, url: StoreUrl, logs: Sequence[StoreUrl] | None = None) -> None:
        skeleton = Skeleton()
        try:
            places = _fill(skeleton, url, logs)
        except BaseException:
            skeleton.close()
            raise
        super().__init__(f"{skeleton.root}/{ROOT}", commitlog=places)
        self.url = url
        self.skeleton = skeleton

    @property
    def location(self) -> str:
        """The URL."""
        return str(self.url)

    def bring_in(
        self,
        *parts: Path,
        beginnings: bool = False,
        progress: Callable[[int, int], object] | None = None,
    ) -> int:
        """Fetch the missing bytes of all files below some directories, in parallel; return their number."""
        return self.skeleton.bring_all(map(str, parts), beginnings=beginnings, progress=progress)

    def close(self) -> None:
        """Remove the skeleton; may be repeated."""
        self.closed = True
        self.skeleton.close()


def _fill(skeleton: Skeleton, url: StoreUrl, logs: Sequence[StoreUrl] | None) -> list[str] | None:
    """Make the tree, and return the places of the CommitLog's directories."""
    entries = url.filesystem.entries(url.path)
    skeleton.add(ROOT, url.filesystem, url.path, entries)
    places: list[str] = []
    for number, log in enumerate(logs or ()):
        inside = log == url / "commitlog"
        place = f"{ROOT}/commitlog" if inside else f"log-{number}/{log.name}"
        skeleton.add(place, log.filesystem, log.path, log.filesystem.tree(log.path))
        places.append(f"{skeleton.root}/{place}")
    for entry in entries:
        if entry.is_dir and entry.name in WHOLE and not (places and entry.name == "commitlog"):
            part = url / entry.name
            tree = part.filesystem.tree(part.path)
            skeleton.add(f"{ROOT}/{entry.name}", part.filesystem, part.path, tree)
    return places or None
