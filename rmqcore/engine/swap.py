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
OLD = ".old-"


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
    old = []
    for part in parts:
        place = paths.root / part
        if place.exists():
            aside = _old_name(place)
            place.rename(aside)
            sync_directory(paths.root)
            old.append(aside)
        (built / part).rename(place)
        sync_directory(paths.root)
    for aside in old:
        shutil.rmtree(aside)
    sync_directory(paths.root)


def finish_swaps(paths: StorePaths) -> list[str]:
    """Put folders back that a killed swap left under another name; answers their names.

    The store's lock is held. Old folders whose successors are in place are left alone: `remove_old` deletes them.
    """
    back = []
    for part in PARTS:
        place = paths.root / part
        waiting = _old_folders(paths.root, part)
        if waiting and not place.exists():
            waiting[-1].rename(place)
            sync_directory(paths.root)
            back.append(part)
    return back


def remove_old(paths: StorePaths) -> None:
    """Delete old folders that a killed swap left beside their successors. The store's lock is held."""
    for part in PARTS:
        if (paths.root / part).exists():
            for folder in _old_folders(paths.root, part):
                shutil.rmtree(folder)


def _old_name(place: Path) -> Path:
    number = 1
    while (name := place.with_name(f"{place.name}{OLD}{number:06d}")).exists():
        number += 1
    return name


def _old_folders(root: Path, part: str) -> list[Path]:
    """The old folders of a part, oldest first."""
    return sorted(
        Path(entry.path) for entry in os.scandir(root) if entry.name.startswith(part + OLD)
    )
