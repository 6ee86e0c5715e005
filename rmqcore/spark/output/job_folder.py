"""The output folder of a job: where it may lie, its lock, and what earlier jobs left in its ``_temporary``."""

from __future__ import annotations

import errno
import fcntl
import os
import re
import stat
import uuid
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from urllib.parse import unquote

from rmqcore.disk.inside.folder import Folder
from rmqcore.errors import StoreError, StoreLockedError, TargetNotEmptyError
from rmqcore.maintenance.rebuild.report import FOLDER
from rmqcore.spark.storage.store_location import StoreLocation

TEMPORARY = "_temporary"
JOURNAL = "commit.json"

_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")
_OURS = re.compile(
    r"[0-9a-f]{16}|[0-9a-f]{32}|\.trash-[0-9a-f]{32}|commit\.json|\.commit\.json\.tmp"
)
"""Names that jobs make in ``_temporary``: an export, a rebuild, a job half removed, a journal, a journal half written."""


def local_folder(out: str | os.PathLike[str]) -> Path:
    """Return the absolute path of a folder that is mounted here; a ``file:`` URI stands for its path.

    Raises
    ------
    ValueError
        `out` is empty, or the URI of a filesystem that cannot rename.
    """
    text = os.fspath(out)
    if not text:
        raise ValueError("out is empty, expected a directory")
    if text.startswith("file:/"):
        text = unquote(re.sub(r"^file:(//[^/]*)?", "", text))
    elif _URI.match(text):
        raise ValueError(
            f"out={text!r}: a job writes to a directory that the driver and all workers have "
            "mounted (local disk, NFS); copy the result there afterwards"
        )
    return Path(text).absolute()


def check_outside(out: Path, stores: Iterable[StoreLocation], names: Iterable[str]) -> None:
    """Make sure that a job does not write into the stores that it reads.

    Parameters
    ----------
    out : Path
    stores : iterable of StoreLocation
        The stores that are read.
    names : iterable of str
        Names that the job makes, replaces or removes in `out`.

    Raises
    ------
    ValueError
        `out` is a store, or lies in a store outside the folder that `rmqcore rebuild` uses there; or a store lies below one of
        `names`.
    """
    real_out = Path(os.path.realpath(out))
    for store in stores:
        if not store.is_local:
            continue
        root = Path(os.path.realpath(store.root))
        if real_out.is_relative_to(root) and not real_out.is_relative_to(root / FOLDER):
            raise ValueError(
                f"{out} is inside the store {store.root}: choose a directory outside, or "
                f"{Path(store.root) / FOLDER}"
            )
        for name in names:
            if root.is_relative_to(real_out / name):
                raise ValueError(
                    f"{out / name} is written by the job, but the store {store.root} is there"
                )


def lock_folder(folder: Folder) -> None:
    """Lock an open folder. The lock ends when the folder is closed or the process dies.

    Some filesystems lack these locks. There a second job can start, and one of the two jobs fails later.

    Raises
    ------
    StoreLockedError
        Another job holds the lock, or has removed the folder since it was opened.
    """
    held = False
    try:
        fcntl.flock(folder.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
        # Another job made the folder, failed, and removed it:
        held = os.fstat(folder.fileno()).st_nlink == 0
    except OSError as error:
        held = error.errno in (errno.EWOULDBLOCK, errno.EAGAIN)
    if held:
        raise StoreLockedError(f"another job is writing to {folder.path}")


def refuse_foreign_work(out: Folder) -> None:
    """Make sure that ``_temporary`` holds only files of this package: Spark's own writers use a folder of that name too.

    Raises
    ------
    TargetNotEmptyError
        The folder holds a file that was not made by a job of this package, which must not remove it.
    LinkError
        ``_temporary`` is a link.
    """
    with suppress(FileNotFoundError):
        temporary = out.folder(TEMPORARY)
        foreign = [name for name in temporary.names() if not _OURS.fullmatch(name)]
        if foreign:
            raise TargetNotEmptyError(
                f"{temporary.path} has {foreign[0]}, which was not created by rmqcore: another "
                f"program writes to {out.path}"
            )


def discard_jobs(out: Folder, keep: str | None = None) -> None:
    """Remove what jobs left behind. A job's folder is renamed first, so that a task that still runs no longer finds it.

    Parameters
    ----------
    out : Folder
    keep : str, optional
        Name of a job whose folder stays.
    """
    with suppress(FileNotFoundError):
        temporary = out.folder(TEMPORARY)
        for job in temporary.names():
            status = temporary.status(job)
            if job == keep or status is None:
                continue
            if not stat.S_ISDIR(status.st_mode):
                temporary.delete(job, missing_ok=True)
                continue
            trash = f".trash-{uuid.uuid4().hex}"
            temporary.move(job, trash)
            with suppress(OSError, StoreError):  # the next job removes it
                temporary.remove(trash)
        with suppress(
            OSError
        ):  # a task that still runs has made a file there: the next job removes it
            out.remove_empty(TEMPORARY)
