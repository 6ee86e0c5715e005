"""The folder that an export writes into: finished splits wait below ``_temporary``, then all of them take their places.

After a crash before the journal ``_temporary/commit.json`` no file has its final name, and the next run of the same export takes
over the finished splits. Once the journal is on disk the commit happens: if this process dies, the next process that is given the
folder ends it, since every step can be repeated. ``_SUCCESS`` exists if and only if the export is complete.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from rmqcore.disk.durable import make_directory, sync_directory, write_durable
from rmqcore.errors import TargetNotEmptyError
from rmqcore.spark.output.job_folder import (
    JOURNAL,
    TEMPORARY,
    check_outside,
    discard_jobs,
    local_folder,
    lock_directory,
    refuse_foreign_work,
)
from rmqcore.spark.output.journal import SUCCESS, read_journal
from rmqcore.spark.storage.store_location import StoreLocation

MANIFEST = "_manifest.json"
_OLD_PARTS = "topic=*/day=*/part-*.parquet"
_PART_NAME = re.compile(r"part-\d{5,}\.parquet")
"""Spark's own writer calls its files part-00000-UUID.c000.zstd.parquet."""


class ExportFolder:
    """The folder on the driver; a context manager that holds a lock on it.

    Parameters
    ----------
    out : str or path-like
        On a disk that the driver and all workers have mounted at the same place; made when it is missing.
    job : str
        A name made of what is exported and how: an interrupted run of the same export has the same name.
    stores : iterable of StoreLocation
        The stores that are read.
    overwrite : bool
        Replace the part files of an earlier export. Files that no export made are left alone.

    Attributes
    ----------
    job_folder : Path
        Where finished splits wait.

    Raises
    ------
    TargetNotEmptyError
        The folder is not empty and `overwrite` is off, or another program writes to the folder.
    StoreLockedError
        Another job writes to the folder.
    ValueError
        `out` is a URI, or lies in a store.
    """

    def __init__(
        self,
        out: str | os.PathLike[str],
        job: str,
        *,
        stores: Iterable[StoreLocation],
        overwrite: bool = False,
    ) -> None:
        self.out = local_folder(out)
        check_outside(self.out, stores, (TEMPORARY,))
        self.job_folder = self.out / TEMPORARY / job
        self._overwrite = overwrite
        self._lock = -1

    def __enter__(self) -> Self:
        make_directory(self.out)
        self._lock = lock_directory(self.out)
        try:
            refuse_foreign_work(self.out)
            self._refuse_content(was_finished=finish(self.out))
            self._discard_leftovers()
            self.job_folder.mkdir(parents=True, exist_ok=True)
        except BaseException:
            os.close(self._lock)
            raise
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._lock)

    def _refuse_content(self, *, was_finished: bool) -> None:
        if self._overwrite:
            return
        if was_finished:
            raise TargetNotEmptyError(
                f"{self.out} held an export that was interrupted while its files took their places; it is complete now"
            )
        found = sorted(set(os.listdir(self.out)) - {TEMPORARY})
        if found:
            more = f" and {len(found) - 1} more" if found[1:] else ""
            raise TargetNotEmptyError(f"{self.out} is not empty: it holds {found[0]}{more}")

    def _discard_leftovers(self) -> None:
        discard_jobs(self.out, keep=self.job_folder.name)
        for attempt in self.job_folder.glob("attempt-*"):
            shutil.rmtree(attempt, ignore_errors=True)

    def make_room(self, names: Iterable[str]) -> None:
        """Remove finished splits that are to be written again."""
        for name in names:
            with suppress(FileNotFoundError):
                shutil.rmtree(self.job_folder / name)

    def commit(self, places: Iterable[tuple[str, str]], manifest: dict[str, Any]) -> None:
        """Move finished files to their places.

        Parameters
        ----------
        places : iterable of (str, str)
            Path of a file below the job's folder, and its place below `out`.
        manifest : dict
            Content of ``_manifest.json``; plain JSON values.
        """
        moves = [[f"{TEMPORARY}/{self.job_folder.name}/{part}", place] for part, place in places]
        old = [
            str(path.relative_to(self.out))
            for path in self.out.glob(_OLD_PARTS)
            if _PART_NAME.fullmatch(path.name)
        ]
        os.sync()  # one wait for all files, in place of a wait for each of hundreds of small files
        journal = {"old": sorted(old), "moves": moves, "manifest": manifest}
        write_durable(self.out / TEMPORARY / JOURNAL, json.dumps(journal).encode())
        finish(self.out)


def finish(out: Path) -> bool:
    """End a commit that was begun; answer whether there was such a commit."""
    path = out / TEMPORARY / JOURNAL
    journal = read_journal(out, {"old", "moves", "manifest"})
    if journal is None:
        return False
    (out / SUCCESS).unlink(missing_ok=True)
    sync_directory(out)
    if journal["old"]:
        for name in journal["old"]:
            _remove(out, name)
        # From here on a file of such a name is a new file, which a repetition must not remove.
        write_durable(path, json.dumps({**journal, "old": []}).encode())
    folders = set()
    for part, place in journal["moves"]:
        target = out / place
        target.parent.mkdir(parents=True, exist_ok=True)
        folders |= {target.parent, target.parent.parent}
        with suppress(FileNotFoundError):  # an earlier try has moved it already
            (out / part).rename(target)
    for folder in sorted(folders):
        sync_directory(folder)
    write_durable(out / MANIFEST, json.dumps(journal["manifest"], indent=1).encode() + b"\n")
    write_durable(out / SUCCESS, b"")
    path.unlink()
    discard_jobs(out)  # attempts that lost a race may still write there
    return True


def _remove(out: Path, name: str) -> None:
    part = out / name
    part.unlink(missing_ok=True)
    for folder in (part.parent, part.parent.parent):
        with suppress(OSError):  # not empty, or gone
            folder.rmdir()
