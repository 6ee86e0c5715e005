"""The folder of a table: locked while a run holds it; rows and watermark are committed together.

A run writes a journal, moves its files to their places and then commits them with the table's document: for Parquet
that is the manifest, for Delta and Iceberg a commit of the table's own log. After a crash the next run ends an
interrupted commit first: every step can be repeated, and the table's log shows whether the last step has happened.
"""

from __future__ import annotations

import json
import logging
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

from rmqcore.errors import StoreError, StoreFormatError, TargetNotEmptyError
from rmqcore.offline.export.part_files import Partition
from rmqcore.offline.export.partitions import partition_folder
from rmqcore.spark.jobs.export_files import PartFile
from rmqcore.spark.lake.document import TableDocument
from rmqcore.spark.lake.manifest import manifest_of, read_manifest
from rmqcore.spark.lake.table_log import ColumnsChangedError, TableChange, TableFile, TableLog
from rmqcore.spark.output.export_folder import (
    MANIFEST,
    ExportFolder,
    check_moves,
    move_files,
)
from rmqcore.spark.output.job_folder import JOURNAL, TEMPORARY, discard_jobs
from rmqcore.spark.output.journal import read_journal
from rmqcore.spark.storage.store_location import StoreLocation

LOG = logging.getLogger(__name__)
_DATA = "data"
_PLACE = re.compile(r"data/day=[^/]+/part-\d{5,}\.parquet")
"""Path of a part file of a Delta or Iceberg table: without characters that the table's log would have to escape."""


class TableFolder(ExportFolder):
    """The folder of a table on the driver; a context manager that holds a lock on it.

    Parameters
    ----------
    out, job, stores, overwrite
        As `ExportFolder`.
    log : TableLog, optional
        None: the table is Parquet files and their manifest.

    Attributes
    ----------
    document : TableDocument or None
        The table's document; None if the table does not exist yet.
    """

    def __init__(
        self,
        out: str | os.PathLike[str],
        job: str,
        *,
        stores: Iterable[StoreLocation],
        overwrite: bool = False,
        log: TableLog | None = None,
    ) -> None:
        super().__init__(out, job, stores=stores, overwrite=overwrite)
        self._log = log
        self.document: TableDocument | None = None

    def place(self, partition: Partition, number: int) -> str:
        """Return the place of the part file with a number."""
        folder = partition_folder(*partition)
        if self._log is not None:
            folder = f"{_DATA}/{folder.rpartition('/')[2]}"
        return f"{folder}/part-{number:05}.parquet"

    def discard(self) -> None:
        """Remove the work of a run that has nothing to commit."""
        discard_jobs(self.inside)

    # ---- what is there ------------------------------------------------------------------------------

    def _finish(self) -> bool:
        if self._log is None:
            return super()._finish()
        try:
            return self._finish_table(self._log)
        except ColumnsChangedError as error:
            if not self._overwrite:
                raise
            LOG.warning(
                "dropping the commit of an earlier run, its rows will be replaced: %s", error
            )
            self._drop_commit()
            return True

    def _drop_commit(self) -> None:
        """Remove the files and the journal of an interrupted commit that the table's log does not have."""
        journal = read_journal(self.inside, {"moves", "change"})
        for _, place in () if journal is None else journal["moves"]:
            self.inside.delete(place, missing_ok=True)
        self.inside.delete(f"{TEMPORARY}/{JOURNAL}")
        discard_jobs(self.inside)

    def _refuse_content(self, *, was_finished: bool) -> None:
        self.document = (
            read_manifest(self.inside)[0]
            if self._log is None
            else self._log.read(self.inside, anew=self._overwrite)
        )
        if self.document is not None:
            return
        if self._log is None:
            if self.inside.status(MANIFEST) is not None and not self._overwrite:
                raise TargetNotEmptyError(
                    f"{self.out} has an export without a record of how far the log was exported, "
                    "so it cannot be continued: replace it with overwrite, or use a new directory"
                )
            super()._refuse_content(was_finished=was_finished)
            return
        names = sorted(set(self.inside.names()) - {TEMPORARY})
        if names:
            raise TargetNotEmptyError(
                f"{self.out} is not a {self._log.format} table and not empty: it has {names[0]}"
            )

    # ---- the commit ---------------------------------------------------------------------------------

    def commit_table(
        self,
        written: Sequence[tuple[str, PartFile]],
        document: TableDocument,
        *,
        replaces: bool = False,
    ) -> list[TableFile]:
        """Commit the files that a run has written, with the table's document; return them with their places.

        Parameters
        ----------
        written : sequence of (str, PartFile)
            Each with its folder below the job's.
        document : TableDocument
            Its `next_part` is the number of the first file.
        replaces : bool
            The files replace all rows of the table.
        """
        first = document.next_part
        files = [
            TableFile.of(self.place(file.partition, number), file)
            for number, (_, file) in enumerate(written, first)
        ]
        moves = [
            (f"{task}/{file.name}", added.place)
            for (task, file), added in zip(written, files, strict=True)
        ]
        self._refuse_taken(places=(file.place for file in files), replaces=replaces)
        document = document.after(len(files))
        if self._log is None:
            old = self.part_places() if replaces else []
            kept = [] if replaces else read_manifest(self.inside)[1]
            self._commit_instead(old, moves, manifest_of(document, [*kept, *files]))
            return files
        change = TableChange(document, files, replaces)
        journal = {
            "moves": [[f"{self._job_place}/{part}", place] for part, place in moves],
            "change": {**asdict(change), "document": document.as_dict()},
        }
        self.inside.sync_file_system()
        self.inside.write(f"{TEMPORARY}/{JOURNAL}", json.dumps(journal).encode())
        self._finish_table(self._log)
        return files

    def exchange(
        self,
        old: Sequence[str],
        moves: Sequence[tuple[str, str]],
        document: TableDocument,
        files: Sequence[TableFile],
    ) -> None:
        """Replace files of a table of Parquet files by others, in one commit.

        Parameters
        ----------
        old : sequence of str
            Places of the files that are removed.
        moves : sequence of (str, str)
            Path of a new file below the job's folder, and its place.
        document : TableDocument
        files : sequence of TableFile
            All files of the table after the commit.
        """
        self._refuse_taken((place for _, place in moves), replaces=False)
        self._commit_instead(old, moves, manifest_of(document, files))

    def _refuse_taken(self, places: Iterable[str], *, replaces: bool) -> None:
        for place in places:
            if self.inside.status(place) is not None and not replaces:
                raise StoreError(
                    f"{self.out / place} exists, but the table has no file of that number: another "
                    "program created it"
                )

    def _finish_table(self, log: TableLog) -> bool:
        journal = read_journal(self.inside, {"moves", "change"})
        if journal is None:
            return False
        check_moves(self.inside, journal["moves"], _PLACE, "data/day=*/part-*.parquet")
        change = _parse_change(journal, str(self.out / TEMPORARY / JOURNAL))
        move_files(self.inside, journal["moves"])
        log.commit(self.inside, change)
        self.inside.delete(f"{TEMPORARY}/{JOURNAL}")
        discard_jobs(self.inside)
        return True


def _parse_change(journal: dict[str, Any], where: str) -> TableChange:
    try:
        found = journal["change"]
        files = [TableFile(**file) for file in found["files"]]
        document, replaces = found["document"], bool(found["replaces"])
    except (TypeError, KeyError):
        raise StoreFormatError(
            f"{where}: change is invalid, expected document, files and replaces"
        ) from None
    if [file.place for file in files] != [place for _, place in journal["moves"]]:
        raise StoreFormatError(f"{where}: change and moves differ in their files")
    return TableChange(TableDocument.parse(document, where), files, replaces)
