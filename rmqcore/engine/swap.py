"""Rebuilt ``consumequeue`` and ``index`` folders take the places of those of a store.

Two renames a folder, under the store's lock: the old one gets a name of its own, the new one takes its place. Killed in between,
the folder is missing and the old one waits under its other name: `finish_swaps`, which every open calls first, puts it back.
Without that an open would find no queues and dispatch no more than the newest files again.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from rmqcore.engine.files import sync_directory
from rmqcore.engine.paths import StorePaths
from rmqcore.errors import StoreError

PARTS = ("consumequeue", "index")
OLD, TRASH = ".old-", ".trash-"


def swap_in(paths: StorePaths, built: Path, parts: Sequence[str]) -> None:
    """Put folders below `built` in the place of the store's, and delete the old ones.

    Parameters
    ----------
    paths : StorePaths
        The store, whose lock is held, closed cleanly.
    built : Path
        On the same file system; its files are synced.
    parts : sequence of str
        ``consumequeue``, ``index``.

    Raises
    ------
    StoreError
        The folders lie on another file system.
    OSError
        A rename failed; the store has either folder.
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
    """Bring swaps that were killed to an end; the store's lock is held.

    A folder that has no successor yet goes back to its place; one that has is deleted, first under a name that says so: nothing
    of it may come back when somebody deletes the successor.

    Returns
    -------
    list of str
        The parts that were put back.
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
    """Folders whose names begin so, oldest first."""
    return sorted(Path(entry.path) for entry in os.scandir(root) if entry.name.startswith(prefix))
