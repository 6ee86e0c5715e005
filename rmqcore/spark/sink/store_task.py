"""A task of a write: it writes its rows as a store, closed and synced, in the folder of its attempt."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from pyspark import TaskContext
from pyspark.sql.datasource import WriterCommitMessage

from rmqcore.disk.inside.folder import Folder
from rmqcore.opening import open as open_store
from rmqcore.spark.options.sink_options import SinkOptions
from rmqcore.spark.output.attempt import Attempt
from rmqcore.spark.sink.columns import WriteColumns
from rmqcore.spark.sink.message_rows import MessageRows
from rmqcore.spark.sink.refused_rows import refused_row
from rmqcore.vocabulary.status import PutMessageStatus

if TYPE_CHECKING:
    import pyarrow as pa

    from rmqcore.engine.store.store import MessageStore

QUERY_ID = "sql.streaming.queryId"


@dataclass(frozen=True)
class StagedStore(WriterCommitMessage):  # type: ignore[misc, unused-ignore]
    """A task's report of its store.

    Attributes
    ----------
    job : str
        The folder of its job in the staging folder.
    attempt : str or None
        The store's folder in that folder; None if the task had no rows.
    messages, log_bytes : int
    query : str or None
        The id of the streaming query.
    """

    job: str
    attempt: str | None
    messages: int
    log_bytes: int
    query: str | None


@dataclass(frozen=True)
class StoreTask:
    """Writes the rows of one partition; sent to tasks by pickle.

    Attributes
    ----------
    job_folder : str
    columns : WriteColumns
    options : SinkOptions
    """

    job_folder: str
    columns: WriteColumns
    options: SinkOptions

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> StagedStore:
        """Write the batches; Spark calls this in a worker."""
        job = Path(self.job_folder)
        attempt = Attempt(job)
        filled = (batch for batch in batches if batch.num_rows)
        first = next(filled, None)
        if first is None:
            return StagedStore(job.name, None, 0, 0, _query_id())
        try:
            with open_store(attempt.folder, self.options.config()) as store:
                messages = self._put_all(store, first, filled)
                log_bytes = store.max_phy_offset
            # The close has synced the files. One sync for all names replaces one for each folder of perhaps a thousand
            # queues.
            with Folder(attempt.folder) as written:
                written.sync_file_system()
        except BaseException:
            if job.is_dir():
                with Folder(job) as left:
                    left.remove(attempt.name)
            raise
        return StagedStore(job.name, attempt.name, messages, log_bytes, _query_id())

    def _put_all(
        self, store: MessageStore, first: pa.RecordBatch, others: Iterable[pa.RecordBatch]
    ) -> int:
        rows = MessageRows(self.columns, self.options)
        count = 0
        for batch in _chain(first, others):
            messages = rows.of(batch)
            result = store.put_arrow(messages)
            bad = np.flatnonzero(result.statuses != PutMessageStatus.PUT_OK)
            if len(bad):
                raise refused_row(result, int(bad[0]), count, messages, self.columns, self.options)
            count += batch.num_rows
        return count


def _chain(first: Any, others: Iterable[Any]) -> Iterable[Any]:
    yield first
    yield from others


def _query_id() -> str | None:
    """Return the id of the streaming query whose batch this task writes; restarts from a checkpoint keep it."""
    context = TaskContext.get()
    return None if context is None else context.getLocalProperty(QUERY_ID)
