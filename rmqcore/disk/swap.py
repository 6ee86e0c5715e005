"""Rebuilt ``consumequeue`` and ``index`` folders take the places of those of a store.

Each folder takes two renames, under the store's lock: the old folder gets a name of its own, the new folder takes its place.
After a kill between the two the old folder waits under its other name: `finish_swaps`, which every open calls first, puts it
back. Without that an open would find no queues, and dispatch only the newest files again.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from rmqcore.disk.durable import sync_directory
from rmqcore.disk.paths import StorePaths
from rmqcore.errors import StoreError

PARTS = ("consumequeue", "index")
OLD, TRASH = ".old-", ".trash-"


def swap_in(paths: StorePaths, built: Path, parts: Sequence[str]) -> None:
    """Put folders below `built` in the place of the store's, and delete the old ones.

    Parameters
    ----------
    paths : StorePaths
        The store; it was closed cleanly, and the caller holds its lock.
    built : Path
        Folder on the same file system; its files are synced.
    parts : sequence of str
        ``consumequeue``, ``index``.

    Raises
    ------
    StoreError
        The folders lie on another file system.
    OSError
        A rename failed; the store then has the old folder or the new one.
    """
    for part in parts:
        if (built / part).stat().st_dev != paths.root.stat().st_dev:
            raise StoreError(
                f"{built / part} is on another file system than {paths.root}: it can be copied there, not swapped in"
            )
    for part in parts:
        place = paths.root / part
        if place.exists():
            place.rename(_free_name(place, OLD))
            sync_directory(paths.root)
        (built / part).rename(place)
        sync_directory(paths.root)
    finish_swaps(paths)


def finish_swaps(paths: StorePaths) -> list[str]:
    """Bring swaps to an end that a kill interrupted; the store's lock is held.

    An old folder whose place is empty goes back there. An old folder that has a successor is deleted, after a rename that says
    so: no part of it may come back when the successor is deleted by hand.

    Returns
    -------
    list of str
        The parts whose old folders were put back.
    """
    back = []
    for part in PARTS:
        place = paths.root / part
        waiting = _folders(paths.root, part + OLD)
        if waiting and not place.exists():
            waiting.pop().rename(place)
            back.append(part)
        for folder in waiting:
            folder.rename(_free_name(place, TRASH))
        if waiting or back:
            sync_directory(paths.root)
        for folder in _folders(paths.root, part + TRASH):
            shutil.rmtree(folder)
    return back


def _free_name(place: Path, kind: str) -> Path:
    number = 1
    while (name := place.with_name(f"{place.name}{kind}{number:06d}")).exists():
        number += 1
    return name


def _folders(root: Path, prefix: str) -> list[Path]:
    """Folders whose names begin with `prefix`, oldest first."""
    return sorted(Path(entry.path) for entry in os.scandir(root) if entry.name.startswith(prefix))
