"""The folder of a new store, which holds all of it or nothing."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from rmqcore.disk.inside.folder import Folder, open_target, remove_made
from rmqcore.errors import StoreError, TargetNotEmptyError
from rmqcore.maintenance.rebuild.rebuild import WORKING


@contextmanager
def new_store(target_path: Path, source_root: Path) -> Iterator[Folder]:
    """Yield a working folder, whose parts become those of the new store when the block ends.

    Parameters
    ----------
    target_path : Path
        A new or empty folder; what a killed attempt left there is removed.
    source_root : Path
        Root of the store that is read.

    Yields
    ------
    Folder
        The block syncs what it writes there. If it raises, what was made is removed.

    Raises
    ------
    TargetNotEmptyError
        The folder holds something.
    OSError
        A folder cannot be made, renamed or synced.
    """
    made = not os.path.lexists(target_path)
    target = open_target(target_path, source_root, make=True)
    if set(target.names()) - {WORKING}:
        error = TargetNotEmptyError(f"{target_path} is not empty")
        error.hint = "OUT must be a new or empty directory; nothing was changed"
        raise error
    moved: list[str] = []
    try:
        target.remove(WORKING)
        target.make(WORKING)
        with target.folder(WORKING) as working:
            yield working
            for name in reversed(working.names()):  # commitlog last: a store begins with it
                target.move(f"{WORKING}/{name}", name)
                moved.append(name)
        target.remove_empty(WORKING)
        target.sync()
    except BaseException:
        with suppress(OSError, StoreError):  # the error that led here is the one to tell
            for name in (*moved, WORKING):
                target.remove(name)
            if made:
                remove_made(target_path)
        raise
