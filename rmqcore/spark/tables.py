"""The tables of the data source by name."""

from __future__ import annotations

from rmqcore.spark.options import SourceOptions
from rmqcore.spark.table import TableRead
from rmqcore.spark.table_columns import Column
from rmqcore.spark.table_consumequeue import ConsumeQueueRead
from rmqcore.spark.table_corrupt import CorruptRead
from rmqcore.spark.table_index import IndexRead
from rmqcore.spark.table_messages import MessagesRead
from rmqcore.spark.table_queues import QueuesRead
from rmqcore.spark.table_segments import SegmentsRead

_TABLES: dict[str, type[TableRead]] = {
    "messages": MessagesRead,
    "consumequeue": ConsumeQueueRead,
    "index": IndexRead,
    "segments": SegmentsRead,
    "queues": QueuesRead,
    "corrupt": CorruptRead,
}


def open_table(options: SourceOptions, columns: tuple[Column, ...]) -> TableRead:
    """Begin a read: finds the stores, and raises for what is wrong with them or with options that name them."""
    return _TABLES[options.table](options, columns)
