"""What a commit does to a table, and what the logs of Delta and Iceberg have in common."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from rmqcore.disk.inside.folder import Folder
from rmqcore.spark.jobs.export_files import PartFile
from rmqcore.spark.lake.document import TableDocument, TableFormat

ICEBERG_TABLE = "rmqcore.messages"
"""Namespace and name of an Iceberg table that is given no other."""


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
        """A file that a task has written, at its place."""
        return cls(place, file.topic, file.day, file.rows, file.byte_count, file.bounds)


@dataclass(frozen=True)
class TableChange:
    """What a commit does to a table.

    Attributes
    ----------
    document : TableDocument
        The table's document behind the commit.
    files : list of TableFile
        The files that are added.
    replaces : bool
        They take the place of all rows that the table has.
    """

    document: TableDocument
    files: list[TableFile]
    replaces: bool


class TableLog(Protocol):
    """A table's own log: that of Delta or Iceberg."""

    @property
    def format(self) -> TableFormat:
        """Its name."""

    def read(self, out: Folder) -> TableDocument | None:
        """Give the document of the table; None where there is no table."""

    def commit(self, out: Folder, change: TableChange) -> None:
        """Commit files that are in their places, with the document; nothing happens where that was done before."""
