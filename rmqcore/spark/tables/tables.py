"""The tables of the data source, by their names."""

from __future__ import annotations

from rmqcore.spark.options.source_options import SourceOptions
from rmqcore.spark.rows.columns import Column
from rmqcore.spark.tables.consumequeue import ConsumeQueueRead
from rmqcore.spark.tables.corrupt import CorruptRead
from rmqcore.spark.tables.index import IndexRead
from rmqcore.spark.tables.messages import MessagesRead
from rmqcore.spark.tables.queues import QueuesRead
from rmqcore.spark.tables.segments import SegmentsRead
from rmqcore.spark.tables.table import TableRead

_TABLES: dict[str, type[TableRead]] = {
    "messages": MessagesRead,
    "consumequeue": ConsumeQueueRead,
    "index": IndexRead,
    "segments": SegmentsRead,
    "queues": QueuesRead,
    "corrupt": CorruptRead,
}


def open_table(options: SourceOptions, columns: tuple[Column, ...]) -> TableRead:
    """Begin a read: find the stores; raise if the path, a store, or an option that names a store is wrong."""
    return _TABLES[options.table](options, columns)
