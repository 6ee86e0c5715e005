"""Links in a store: the error names where a link leads, and the way to follow it."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from rmqcore.disk.paths import StorePaths
from rmqcore.errors import HOW_TO_FOLLOW, LinkError

RULE = "links inside a store are followed only if you allow it"


def link_error(path: str | os.PathLike[str], how: str = "") -> LinkError:
    """Return the error for a path that is a link.

    Parameters
    ----------
    path : path-like
    how : str
        Way to follow this link; empty if rmqcore cannot follow it.
    """
    text = os.fspath(path)
    target = os.readlink(text)
    where = "" if os.path.exists(text) else ", which does not exist"
    return LinkError(errno.ELOOP, f"a link to {target}{where}; {RULE}{how}", text)


def is_file(entry: os.DirEntry[str], *, leave_out_links: bool = False) -> bool:
    """Return True if an entry of a listed directory is a regular file; a link does not count if links are left out.

    Raises
    ------
    LinkError
        It is a link.
    """
    if not leave_out_links and entry.is_symlink():
        raise link_error(entry.path)
    return entry.is_file(follow_symlinks=False)


def is_folder(entry: os.DirEntry[str], *, leave_out_links: bool = False) -> bool:
    """Return True if an entry of a listed directory is a directory; otherwise as `is_file`."""
    if not leave_out_links and entry.is_symlink():
        raise link_error(entry.path)
    return entry.is_dir(follow_symlinks=False)


def refuse_links(paths: StorePaths) -> None:
    """Check that none of the names that every store has is a link, except those that the caller allows.

    If links are left out (`StorePaths.leave_out_links`), only the CommitLog is checked: without it the store is empty.

    Directories of the CommitLog that a setting names may be links. ``commitlog``, ``consumequeue`` and ``index`` in the
    root may be with ``follow_links``.

    Raises
    ------
    LinkError
        A name is a link.
    """
    refuse_part(paths, paths.root / "commitlog")
    if paths.leave_out_links:
        return
    refuse_part(paths, paths.consumequeue)
    refuse_part(paths, paths.index)
    for path in (paths.lock, paths.abort, paths.checkpoint, paths.cut, *_beside(paths)):
        if path.is_symlink():
            raise link_error(path)


def refuse_part(paths: StorePaths, path: Path) -> None:
    """Check that a directory in a store's root is not a link, or a link that is followed; raise as `refuse_links`."""
    if path.is_symlink() and not paths.follows(path):
        how = f": {HOW_TO_FOLLOW}"
        if path.name == "commitlog":
            how += f", or --commitlog {os.path.realpath(path)} (store_path_commit_log)"
        raise link_error(path, how)


def _beside(paths: StorePaths) -> tuple[Path, ...]:
    return paths.consumequeue_ext, paths.batchconsumequeue
