"""Replaces the ``consumequeue`` and ``index`` folders of a store by rebuilt ones.

Each folder needs two renames, under the store's lock: the old folder gets another name, the new folder gets its name.
After a kill between the two, `finish_swaps`, which every open calls first, renames the old folder back. Without that an
open would find no queues, and dispatch only the newest files again.

An old folder with more entries than its successor is kept as ``consumequeue.kept-000001``, which rmqcore never deletes.
"""

from __future__ import annotations

import re
import stat
from collections.abc import Sequence
from pathlib import Path

from rmqcore.disk.inside.folder import Folder, open_target
from rmqcore.disk.inside.links import link_error
from rmqcore.disk.paths import StorePaths
from rmqcore.errors import StoreError

PARTS = ("consumequeue", "index")
OLD, TRASH = ".old-", ".trash-"
KEEP, KEPT = ".keep-", ".kept-"
"""Parts of the name of an old folder that is kept: before its successor is in its place, and after."""


def check_swappable(paths: StorePaths, parts: Sequence[str]) -> None:
    """Check that the folders of a store can be renamed, before the build.

    Raises
    ------
    LinkError
        A folder is a link: the new folder would lie in the root, and the old one stay at the link's target.
    """
    with Folder(paths.root) as root:
        for part in parts:
            if _is_link(root, part):
                how = (
                    "; it cannot be replaced by a rename: build into another directory with "
                    "--out, and move it there"
                )
                raise link_error(paths.root / part, how)


def swap_in(
    paths: StorePaths, built: Path, parts: Sequence[str], *, keep: bool = False
) -> list[str]:
    """Replace the store's folders by those below `built`, and delete the old ones.

    Parameters
    ----------
    paths : StorePaths
        The store; it was closed cleanly, and the caller holds its lock.
    built : Path
        Folder on the same file system; its files are synced.
    parts : sequence of str
        ``consumequeue``, ``index``.
    keep : bool
        Keep the old folders in the store, under other names.

    Returns
    -------
    list of str
        The names in the store's root of the old folders that were kept.

    Raises
    ------
    LinkError
        As `check_swappable`; no folder was renamed.
    StoreError
        The folders lie on another file system.
    OSError
        A rename failed; the store then has the old folder or the new one.
    """
    check_swappable(paths, parts)
    with Folder(paths.root) as root, open_target(built, paths.root) as source:
        for part in parts:
            if source.folder(part).device != root.device:
                raise StoreError(
                    f"{built / part} is not on the file system of {paths.root}: copy it there, "
                    "because it cannot be renamed into place"
                )
        for part in parts:
            if root.status(part) is not None:
                root.move(part, _free_name(root, part, KEEP if keep else OLD))
                root.sync()
            source.move(part, part, root)
            root.sync()
        waiting = [name for part in parts for name in _names(root, part + KEEP)]
        before = {name for part in parts for name in _names(root, part + KEPT)}
    finish_swaps(paths)
    if not waiting:
        return []
    with Folder(paths.root) as root:
        return [n for part in parts for n in _names(root, part + KEPT) if n not in before]


def finish_swaps(paths: StorePaths) -> list[str]:
    """Finish swaps that a kill interrupted; the caller holds the store's lock.

    An old folder whose place is empty is renamed back. An old folder with a successor is deleted, after a rename that
    marks it: no part of it may return if the successor is deleted by hand. Of a link with the name of an old folder,
    the link itself is deleted.

    Returns
    -------
    list of str
        The parts whose old folders were put back.

    Raises
    ------
    LinkError
        A folder to rename back is a link, and the caller did not allow links.
    """
    back = []
    with Folder(paths.root) as root:
        for part in PARTS:
            waiting, kept = _names(root, part + OLD), _names(root, part + KEEP)
            if (waiting or kept) and root.status(part) is None:
                newest = (kept or waiting).pop()
                if _is_link(root, newest) and not paths.follows(paths.root / part):
                    raise link_error(paths.root / newest)
                root.move(newest, part)
                back.append(part)
            for name in waiting:
                root.move(name, _free_name(root, part, TRASH))
            for name in kept:
                root.move(name, _free_name(root, part, KEPT))
            if waiting or kept or back:
                root.sync()
            for name in _names(root, part + TRASH):
                root.remove(name)
    return back


def _is_link(root: Folder, name: str) -> bool:
    status = root.status(name)
    return status is not None and stat.S_ISLNK(status.st_mode)


def _free_name(root: Folder, part: str, kind: str) -> str:
    number = 1
    while root.status(name := f"{part}{kind}{number:06d}") is not None:
        number += 1
    return name


def _names(root: Folder, prefix: str) -> list[str]:
    """Names that this module gave, oldest first: `prefix` and six digits. ``consumequeue.old-copy`` is an operator's."""
    given = re.compile(re.escape(prefix) + r"\d{6,}", re.ASCII)
    return [name for name in root.names() if given.fullmatch(name)]
