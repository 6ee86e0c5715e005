"""Error messages for rows that cannot be written: place, values, column, expected and found."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark import TaskContext

from rmqcore.engine.store.put_many_result import PutManyResult
from rmqcore.errors import PutFailedError, RowRefusedError, StoreError
from rmqcore.spark.options.sink_options import SinkOptions
from rmqcore.spark.sink.columns import WriteColumns
from rmqcore.vocabulary.properties import KEYS, TAGS
from rmqcore.vocabulary.rocketmq_versions import readable_records
from rmqcore.vocabulary.status import PutMessageStatus
from rmqcore.vocabulary.units import INT_MAX

if TYPE_CHECKING:
    import pyarrow as pa

MOST_SHOWN = 60
MAX_PROPERTIES = 32_767
_OF_ROW = (PutMessageStatus.MESSAGE_ILLEGAL, PutMessageStatus.PROPERTIES_SIZE_EXCEEDED)


def refused_row(
    result: PutManyResult,
    row: int,
    rows_before: int,
    messages: pa.RecordBatch,
    columns: WriteColumns,
    options: SinkOptions,
) -> StoreError:
    """Return the error for a row that a store refused.

    Parameters
    ----------
    result : PutManyResult
    row : int
        Number of the row in the batch.
    rows_before : int
        Rows of the task before the batch.
    messages : RecordBatch
        The batch that was put.
    columns : WriteColumns
    options : SinkOptions
    """
    status = result.statuses[row]
    if status not in _OF_ROW:
        failed = PutFailedError(status.name, bool(result.phy_offsets[row] >= 0))
        failed.add_note(f"the disk may be full; row {rows_before + row} of the task")
        return failed
    values = {name: messages.column(name)[row] for name in messages.schema.names}
    column, reason = _reason(result, values, options)
    context = TaskContext.get()
    partition = "" if context is None else f" of partition {context.partitionId()}"
    texts = ", ".join(f"{name}={_printable(value.as_py())}" for name, value in values.items())
    return RowRefusedError(
        f"row {rows_before + row}{partition}: column {columns.named.get(column, column)}: {reason}; the row: {texts}"
    )


def _reason(result: PutManyResult, values: dict[str, Any], options: SinkOptions) -> tuple[str, str]:
    """Return the wrong field, and what is expected and found."""
    body, topic = values["body"].as_py(), values["topic"].as_py()
    for name, value in (("body", body), ("topic", topic)):
        if value is None:
            return name, "expected a value, found null"
    if len(body) > options.max_message_size:
        most = f"{options.max_message_size} bytes (option maxMessageSize)"
        return "body", f"expected at most {most}, found {len(body)} bytes"
    queue_id = values["queue_id"].as_py() if "queue_id" in values else 0
    if queue_id is not None and not 0 <= queue_id <= INT_MAX:
        return "queue_id", f"expected 0 to {INT_MAX}, found {queue_id}"
    if result.refused_column is not None:
        return (
            result.refused_column,
            f"expected a valid value of a message, found: {result.column_reason}",
        )
    readable = readable_records(options.for_version)
    reader = f"RocketMQ {options.for_version} (option forVersion)"
    for name in ("born_host", "store_host"):
        host = values[name].as_py() if name in values else None
        if host and host.startswith("[") and not readable.ipv6_hosts:
            return name, f"expected an IPv4 host, because {reader} cannot read others, found {host}"
    topic_size = len(topic.encode())
    if readable.most_topic_bytes is not None and topic_size > readable.most_topic_bytes:
        most = f"{readable.most_topic_bytes} bytes, as {reader} reads"
        return "topic", f"expected at most {most}, found {topic_size} bytes"
    size = _properties_size(values)
    if size > MAX_PROPERTIES:
        return "properties", f"expected at most {MAX_PROPERTIES} bytes, found {size} bytes"
    expected = "a name of at most 127 bytes that can name a directory"
    return "topic", f"expected {expected}, found {_printable(topic)}"


def _properties_size(values: dict[str, Any]) -> int:
    pairs = dict(values["properties"].as_py() or ()) if "properties" in values else {}
    for name, property_name in (("tags", TAGS), ("keys", KEYS)):
        value = values[name].as_py() if name in values else None
        if value:
            pairs[property_name] = value if isinstance(value, str) else " ".join(value)
    return sum(len(name.encode()) + len((text or "").encode()) + 2 for name, text in pairs.items())


def _printable(value: object) -> str:
    text = repr(value)
    if isinstance(value, bytes):
        text = repr(value[:MOST_SHOWN])
    if len(text) <= MOST_SHOWN:
        return text
    size = f" ({len(value)} bytes)" if isinstance(value, bytes) else ""
    return f"{text[:MOST_SHOWN]}...{size}"
