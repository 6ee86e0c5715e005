"""Folders of finished work: a task writes into a folder of its attempt, then renames the complete folder to the work's name.

So a folder with that name is complete, even if tasks were killed or several attempts ran, and a later run reuses it.
"""

from __future__ import annotations

import json
import stat
import uuid
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from rmqcore.disk.inside.folder import Folder
from rmqcore.errors import StoreError

MANIFEST = "manifest.json"
"""A task's report of its work: the last file that the task writes."""

Answer = TypeVar("Answer")


def finish_once(
    job: Path,
    name: str,
    write: Callable[[Folder], Answer],
    read: Callable[[Path], Answer | None],
) -> Answer:
    """Do work in a folder of its own, then rename the folder to the work's name; return the report of the finished work.

    Parameters
    ----------
    job : Path
        The folder that the driver has made.
    name : str
    write : callable
        Does the work in the folder of this attempt, and writes the manifest last.
    read : callable
        Returns the report in a folder of finished work; None if the folder does not hold finished work.

    Raises
    ------
    StoreError
        The job has ended, or its folder is not one that driver and workers share.
    """
    if not job.is_dir():
        raise StoreError(
            f"{job} is missing: the job has ended, or the driver and workers do not share this "
            "directory"
        )
    attempt = f"attempt-{uuid.uuid4().hex}"
    with Folder(job) as inside:
        inside.make(attempt)
        try:
            answer = write(inside.folder(attempt))
            try:
                inside.move(attempt, name)
            except OSError:  # not empty: another attempt at this work was faster
                faster = read(job / name)
                if faster is None:
                    raise
                return faster
        finally:
            with suppress(OSError, StoreError):  # the end of the job removes it
                inside.remove(attempt)
    return answer


def read_finished(folder: Path) -> dict[str, Any] | None:
    """Read the manifest of finished work; return None if the folder is missing, or its manifest is missing or invalid.

    Raises
    ------
    LinkError, StoreFormatError
        The folder or the manifest is a link, or the manifest is not a file.
    """
    try:
        found = json.loads(Folder(folder.parent).folder(folder.name).read(MANIFEST))
    except (FileNotFoundError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def file_size(folder: Path, name: str) -> int | None:
    """Return the size of a file of finished work; None if it is missing or not a regular file.

    Raises
    ------
    LinkError, StoreFormatError
        The folder is a link, or the name leads out of it.
    """
    status = Folder(folder.parent).folder(folder.name).status(str(name))
    return None if status is None or not stat.S_ISREG(status.st_mode) else status.st_size
