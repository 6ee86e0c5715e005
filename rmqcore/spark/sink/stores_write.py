"""A write of a frame into stores: planned on the driver, written in tasks, committed on the driver."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from rmqcore.spark.options.sink_options import SinkOptions
from rmqcore.spark.sink.columns import WriteColumns, write_columns
from rmqcore.spark.sink.row_batches import batches_of
from rmqcore.spark.sink.sink_commit import SinkFolder
from rmqcore.spark.sink.store_task import StagedStore, StoreTask

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


@dataclass(frozen=True)
class StoresWrite:
    """The work of a shipped writer, in a task and on the driver.

    Attributes
    ----------
    folder : SinkFolder
    columns : WriteColumns
    options : SinkOptions
    overwrite : bool
        Replace all stores in the folder.
    is_done : bool
        A write of the same ``writeId`` has been committed: nothing is written.
    """

    folder: SinkFolder
    columns: WriteColumns
    options: SinkOptions
    overwrite: bool
    is_done: bool = False

    @classmethod
    def plan(cls, schema: StructType, options: SinkOptions, *, overwrite: bool) -> StoresWrite:
        """Check options and columns, and make the folder ready.

        Raises
        ------
        ValueError, TypeError
            An option or a column is wrong, or the path is a URI.
        TargetNotEmptyError, StoreLockedError
            As `SinkFolder.prepare`.
        """
        columns = write_columns(schema, options)
        folder = SinkFolder.at(options.path)
        folder.prepare()
        is_done = options.write_id is not None and folder.has_write(options.write_id)
        return cls(folder, columns, replace(options, path=str(folder.out)), overwrite, is_done)

    def write(self, batches: Iterable[Any]) -> StagedStore:
        """Write the rows of a partition, in a task."""
        if self.is_done:
            batches = (batch for batch in batches if not batch.num_rows)
        return StoreTask(str(self.folder.job_folder), self.columns, self.options)(batches)

    def write_rows(self, rows: Iterator[Any], schema: StructType) -> StagedStore:
        """Write the rows of a partition, given as Spark's rows, in a task."""
        return self.write(batches_of(rows, schema))

    def commit(self, staged: Sequence[StagedStore], batch: int | None = None) -> None:
        """Commit the stores that the tasks have written."""
        self.folder.commit(
            staged,
            overwrite=self.overwrite,
            batch=batch,
            write_id=self.options.write_id if batch is None else None,
        )

    def abort(self, staged: Sequence[StagedStore | None]) -> None:
        """Remove the stores that tasks have written; failed tasks have sent None."""
        self.folder.abort([store for store in staged if store is not None])
