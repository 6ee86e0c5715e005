"""The changes of a commit to a table, and the common interface of the logs of Delta and Iceberg."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Protocol

from rmqcore.disk.inside.folder import Folder
from rmqcore.errors import WatermarkError
from rmqcore.spark.jobs.export_files import PartFile
from rmqcore.spark.lake.document import TableDocument, TableFormat

LOG = logging.getLogger(__name__)
ICEBERG_TABLE = "rmqcore.messages"
"""Default namespace and name of an Iceberg table."""


@dataclass(frozen=True)
class TableFile:
    """A part file in its place.

    Attributes
    ----------
    place : str
        Path below the table's folder.
    topic, day, rows, byte_count, bounds
        As `PartFile`.
    """

    place: str
    topic: str
    day: int
    rows: int
    byte_count: int
    bounds: dict[str, list[int]]

    @classmethod
    def of(cls, place: str, file: PartFile) -> TableFile:
        """Return a file that a task has written as one at its place."""
        return cls(place, file.topic, file.day, file.rows, file.byte_count, file.bounds)


@dataclass(frozen=True)
class TableChange:
    """Changes of a commit to a table.

    Attributes
    ----------
    document : TableDocument
        The table's document behind the commit.
    files : list of TableFile
        The files that are added.
    replaces : bool
        The files replace all rows of the table.
    """

    document: TableDocument
    files: list[TableFile]
    replaces: bool


class TableLog(Protocol):
    """A table's own log: that of Delta or Iceberg."""

    @property
    def format(self) -> TableFormat:
        """Its name."""

    def read(self, out: Folder, *, anew: bool = False) -> TableDocument | None:
        """Return the document of the table; None if the table does not exist.

        The watermarks are those of the rows that the table has: if its owner took rows back (RESTORE, a rollback), they
        are the earlier ones.

        Parameters
        ----------
        out : Folder
        anew : bool
            All rows are to be replaced: the watermarks are not looked up.

        Raises
        ------
        WatermarkError
            Rows were taken back, and the table no longer has the watermarks of that version.
        ColumnsChangedError
            The table lacks a column that its files have.
        """

    def commit(self, out: Folder, change: TableChange) -> None:
        """Commit files that are in their places, with the document; do nothing if the commit was done before.

        Raises
        ------
        ColumnsChangedError
            The table lacks a column that the files have. Nothing was committed.
        """


class ColumnsChangedError(ValueError):
    """A column of a table was renamed or dropped, so its files no longer fit."""


def check_columns(document: TableDocument, present: Iterable[str], where: str) -> None:
    """Check that a table still has all columns that its files have.

    Raises
    ------
    ColumnsChangedError
        The table lacks at least one of them.
    """
    there = set(present)
    missing = [name for name, _ in document.settings["columns"] if name not in there]
    if missing:
        raise ColumnsChangedError(
            f"the table at {where} no longer has the column {', '.join(missing)}, which "
            "export_table writes: rename it back, or export into a new directory; overwrite drops "
            "a pending commit that needs the column"
        )


def with_rows_of(document: TableDocument, restored: TableDocument, where: str) -> TableDocument:
    """Return the document of a table whose rows are those of an earlier commit; used numbers are not used again."""
    LOG.warning(
        "%s was restored to commit %d of %d: the run exports later messages again",
        where,
        restored.commit,
        document.commit,
    )
    return replace(restored, commit=document.commit, next_part=document.next_part)


def rows_of_unknown_commit(where: str, document: TableDocument, why: str) -> WatermarkError:
    """Return the error for a table that was taken back to rows whose watermarks are unknown."""
    return WatermarkError(
        f"the rows of {where} were restored to a version before commit {document.commit} of "
        f"rmqcore, and {why}: return to the newest version"
    )
