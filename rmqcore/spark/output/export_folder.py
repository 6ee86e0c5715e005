"""The folder that an export writes into: finished splits wait below ``_temporary``, then all files move to their places.

After a crash before the journal ``_temporary/commit.json`` no file has its final name, and the next run of the same
export reuses the finished splits. Once the journal is on disk the commit happens: if this process dies, the next
process that opens the folder finishes the commit, since every step can be repeated. ``_SUCCESS`` exists if and only if
the export is complete.
"""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any, Self

from rmqcore.disk.durable import make_directory
from rmqcore.disk.inside.folder import Folder
from rmqcore.disk.inside.links import link_error
from rmqcore.errors import StoreError, StoreFormatError, TargetNotEmptyError
from rmqcore.offline.export.partitions import part_places, remove_empty_above
from rmqcore.spark.output.job_folder import (
    JOURNAL,
    TEMPORARY,
    check_outside,
    discard_jobs,
    local_folder,
    lock_folder,
    refuse_foreign_work,
)
from rmqcore.spark.output.journal import SUCCESS, read_journal
from rmqcore.spark.storage.store_location import StoreLocation

MANIFEST = "_manifest.json"
TABLE = "_rmqcore"
"""A folder in each Delta or Iceberg table made by this package. The table's log lists the part files that count."""
_PLACE = re.compile(r"topic(_dir)?=[^/]+/day=[^/]+/part-\d{5,}(-\d{5,})?\.parquet")
"""The second number is that of the compaction which made the file. Spark's own writer calls its files
part-00000-UUID.c000.zstd.parquet."""


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
        Replace the part files of an earlier export. Other files are left alone.

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
    LinkError, StoreFormatError
        From `__enter__` and `commit`: a name in the folder is a link, or a journal there names a file outside of it. Nothing was
        moved or removed.
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
        self._inside: Folder | None = None

    def __enter__(self) -> Self:
        make_directory(self.out)
        self._inside = Folder(self.out)
        try:
            lock_folder(self.inside)
            refuse_foreign_work(self.inside)
            self._refuse_content(was_finished=self._finish())
            self._discard_leftovers()
            self.inside.make(self._job_place, exist_ok=True)
        except BaseException:
            self.inside.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.inside.close()

    @property
    def inside(self) -> Folder:
        """The folder, open and locked."""
        assert self._inside is not None
        return self._inside

    @property
    def _job_place(self) -> str:
        return f"{TEMPORARY}/{self.job_folder.name}"

    def _finish(self) -> bool:
        """Finish an interrupted commit; return False if the folder has none."""
        return finish(self.inside)

    def _refuse_content(self, *, was_finished: bool) -> None:
        if self.inside.is_folder(TABLE):
            raise TargetNotEmptyError(
                f"{self.out} has a Delta or Iceberg table, whose own log lists its files"
            )
        if self._overwrite:
            return
        if was_finished:
            raise TargetNotEmptyError(
                f"{self.out} had an export that was interrupted while its files were moved into "
                "place; it is complete now"
            )
        found = sorted(set(self.inside.names()) - {TEMPORARY})
        if found:
            more = f" and {len(found) - 1} more" if found[1:] else ""
            raise TargetNotEmptyError(f"{self.out} is not empty: it has {found[0]}{more}")

    def _discard_leftovers(self) -> None:
        discard_jobs(self.inside, keep=self.job_folder.name)
        with suppress(FileNotFoundError):
            job = self.inside.folder(self._job_place)
            for name in job.names():
                if name.startswith("attempt-"):
                    with suppress(OSError, StoreError):  # the end of the job removes it
                        job.remove(name)

    def make_room(self, names: Iterable[str]) -> None:
        """Remove finished splits that are to be written again."""
        for name in names:
            self.inside.remove(f"{self._job_place}/{name}")

    def drop(self, files: Iterable[str]) -> None:
        """Remove files of finished work that nothing needs any more; a run after a crash has that work done again."""
        for file in files:
            self.inside.delete(f"{self._job_place}/{file}", missing_ok=True)

    def commit(self, places: Iterable[tuple[str, str]], manifest: dict[str, Any]) -> None:
        """Move finished files to their places.

        Parameters
        ----------
        places : iterable of (str, str)
            Path of a file below the job's folder, and its place below `out`.
        manifest : dict
            Content of ``_manifest.json``; plain JSON values.
        """
        self._commit_instead(self.part_places(), places, manifest)

    def part_places(self) -> list[str]:
        """The part files of exports that the folder holds."""
        return sorted(place for place in part_places(self.inside) if _PLACE.fullmatch(place))

    def _commit_instead(
        self, old: Sequence[str], places: Iterable[tuple[str, str]], manifest: dict[str, Any]
    ) -> None:
        moves = [[f"{self._job_place}/{part}", place] for part, place in places]
        self.inside.sync_file_system()
        journal = {"old": list(old), "moves": moves, "manifest": manifest}
        _check(self.inside, journal)
        self.inside.write(f"{TEMPORARY}/{JOURNAL}", json.dumps(journal).encode())
        finish(self.inside)


def finish(out: Folder) -> bool:
    """Finish an interrupted commit; return False if the folder has none."""
    journal = read_journal(out, {"old", "moves", "manifest"})
    if journal is None:
        return False
    _check(out, journal)
    out.delete(SUCCESS, missing_ok=True)
    out.sync()
    if not {place for _, place in journal["moves"]}.isdisjoint(journal["old"]):
        _remove_files(out, journal["old"])
        # From here on a file with one of the old names is a new file, which a repetition must not remove.
        journal["old"] = []
        out.write(f"{TEMPORARY}/{JOURNAL}", json.dumps(journal).encode())
    move_files(out, journal["moves"])
    out.write(MANIFEST, json.dumps(journal["manifest"], indent=1).encode() + b"\n")
    _remove_files(
        out, journal["old"]
    )  # a reader that follows the manifest finds all its files before and after
    out.write(SUCCESS, b"")
    out.delete(f"{TEMPORARY}/{JOURNAL}")
    discard_jobs(out)  # attempts that lost a race may still write there
    return True


def _remove_files(out: Folder, names: Iterable[str]) -> None:
    for name in names:
        out.delete(name, missing_ok=True)
        remove_empty_above(out, name)


def move_files(out: Folder, moves: Iterable[Sequence[str]]) -> None:
    """Move files to their places, and wait until their names are on disk; may be repeated."""
    moved = [*moves]
    for part, place in moved:
        out.make(place.rpartition("/")[0], exist_ok=True)
        with suppress(FileNotFoundError):  # an earlier try has moved it already
            out.move(part, place)
    days = {place.rpartition("/")[0] for _, place in moved}
    for folder in sorted(days | {day.rpartition("/")[0] for day in days}):
        out.folder(folder).sync()


def _check(out: Folder, journal: dict[str, Any]) -> None:
    """Check a journal before it is used: another program may have written it.

    Raises
    ------
    StoreFormatError
        The journal names a file outside of the folder, or a file that is not an export's.
    LinkError
        A name on the way to a file is a link, or the file is one.
    """
    old = journal["old"]
    if not isinstance(old, list) or not all(map(is_part_place, old)):
        raise _unbelievable(out, "old", "topic_dir=*/day=*/part-*.parquet each")
    check_moves(out, journal["moves"], _PLACE, "topic_dir=*/day=*/part-*.parquet")
    _refuse_links(out, old)


def is_part_place(place: object) -> bool:
    """Return True if a place is that of a part file of an export."""
    return _is_place(place, _PLACE)


def check_moves(out: Folder, moves: Any, places: re.Pattern[str], shown: str) -> None:
    """Check the moves of a journal before they are used.

    Parameters
    ----------
    out : Folder
    moves : object
        The journal's value for them.
    places : re.Pattern
        The places that files may be moved to.
    shown : str
        The form of a valid place, for the message.

    Raises
    ------
    StoreFormatError, LinkError
        As of a whole journal.
    """
    if not isinstance(moves, list) or not all(_is_move(move, places) for move in moves):
        raise _unbelievable(out, "moves", f"[{TEMPORARY}/..., {shown}] each")
    _refuse_links(out, (place for move in moves for place in move))


def _refuse_links(out: Folder, places: Iterable[str]) -> None:
    for place in places:
        status = out.status(place)
        if status is not None and stat.S_ISLNK(status.st_mode):
            raise link_error(out.path / place)


def _is_place(place: object, places: re.Pattern[str]) -> bool:
    return isinstance(place, str) and places.fullmatch(place) is not None


def _is_move(move: object, places: re.Pattern[str]) -> bool:
    if not (
        isinstance(move, list) and len(move) == 2 and all(isinstance(one, str) for one in move)
    ):
        return False
    part, place = move
    return (
        part.startswith(f"{TEMPORARY}/")
        and ".." not in part.split("/")
        and _is_place(place, places)
    )


def _unbelievable(out: Folder, field: str, expected: str) -> StoreFormatError:
    path = out.path / TEMPORARY / JOURNAL
    return StoreFormatError(
        f"{path}: {field} names files that an export does not create, expected {expected}"
    )
