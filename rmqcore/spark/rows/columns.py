"""Every column of every table of the data source: its Spark type, its meaning, and the columns of the scan it is made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from rmqcore.vocabulary.units import LONG_MAX

ColumnType = Literal[
    "string", "int", "bigint", "timestamp", "binary", "boolean", "map<string,string>"
]

MAX_MS = LONG_MAX // 1000
"""The latest time in milliseconds that Spark's microseconds can hold."""


@dataclass(frozen=True)
class Column:
    """A column; it is small, and tasks receive it by pickle.

    Attributes
    ----------
    name : str
    type : str
        The type's name in Spark's SQL. Spark treats every column as nullable, also columns that are never null.
    doc : str
    native : tuple of str
        The columns of the native scan from which it is made.
    on_request : bool
        The column is returned only if it is requested by name.
    """

    name: str
    type: ColumnType
    doc: str
    native: tuple[str, ...] = ()
    on_request: bool = False


def _plain(name: str, of_type: ColumnType, doc: str, *, on_request: bool = False) -> Column:
    return Column(name, of_type, doc, (name,), on_request)


_BROKER = Column("broker", "string", "Name of the store: from ``name=path``, else its path.")

MESSAGES = (
    _plain("topic", "string", "Topic as stored."),
    _plain("queue_id", "int", "Queue in the topic."),
    _plain("queue_offset", "bigint", "Queue offset."),
    _plain("phy_offset", "bigint", "CommitLog offset of the record in bytes."),
    _plain("msg_size", "int", "Size of the record in bytes."),
    Column(
        "store_timestamp",
        "timestamp",
        "Time when the broker stored the message.",
        ("store_timestamp_ms",),
    ),
    Column(
        "born_timestamp",
        "timestamp",
        "Time when the producer created the message.",
        ("born_timestamp_ms",),
    ),
    _plain("tags", "string", "TAGS, null if there are none."),
    _plain("keys", "string", "The words of KEYS separated by a space, null if there are none."),
    _plain("uniq_key", "string", "UNIQ_KEY, the client's message id; null if there is none."),
    _plain("body", "binary", "The body as stored; decompressBody returns the producer's bytes."),
    _plain("properties", "map<string,string>", "All properties."),
    _plain("sys_flag", "int", "SYSFLAG: compression, transaction, IPv6, batch."),
    _plain("flag", "int", "FLAG, set by the application."),
    _plain("body_crc", "int", "CRC-32 of the stored body without its top bit."),
    _plain("reconsume_times", "int", "Number of times that consumers sent the message back."),
    _plain("prepared_transaction_offset", "bigint", "CommitLog offset of the prepared message."),
    _plain("store_host", "string", "``ip:port`` of the broker."),
    _plain("born_host", "string", "``ip:port`` of the producer."),
    _BROKER,
    _plain(
        "msg_id", "string", "The broker's message id: host and CommitLog offset.", on_request=True
    ),
    _plain("tags_code", "bigint", "Tags code of the ConsumeQueue entry.", on_request=True),
    _plain("magic", "int", "MAGICCODE of the record.", on_request=True),
    _plain("raw", "binary", "The whole record.", on_request=True),
    Column(
        "crc_ok", "boolean", "True if the body's CRC matches.", ("phy_offset",), on_request=True
    ),
    Column(
        "resynced",
        "boolean",
        "True for the first message behind a damaged range.",
        ("phy_offset",),
        on_request=True,
    ),
    Column(
        "corrupt_reason",
        "string",
        "What is wrong with the message, else null.",
        ("phy_offset",),
        on_request=True,
    ),
    Column("_file", "string", "The CommitLog file.", on_request=True),
)

CORRUPT = (
    _BROKER,
    _plain("start_phy_offset", "bigint", "First byte of the range."),
    _plain("end_phy_offset", "bigint", "First byte behind the range."),
    _plain(
        "kind", "string", "crc, record, torn_tail, blank, short_file, missing_file, unreadable."
    ),
    _plain("path", "string", "The file."),
    _plain("field", "string", "Field that is wrong at the start of the range."),
    _plain("expected", "string", "Expected value of the field."),
    _plain("found", "string", "Value found."),
)

SEGMENTS = (
    _BROKER,
    _plain("file", "string", "Name of the CommitLog file."),
    _plain("file_from_offset", "bigint", "CommitLog offset of its first byte."),
    _plain("file_size", "bigint", "Bytes."),
    _plain("first_store_timestamp", "timestamp", "Store time of the message at its start; null if there is none."),
    _plain("is_tail", "boolean", "True if the log ends in this file."),
    _plain("is_sealed", "boolean", "True if a later file has messages: this file does not grow any more."),
    _plain("missing_bytes", "bigint", "Bytes that it is shorter than the other files."),
    _plain("path", "string", "Path or URI."),
)  # fmt: skip

QUEUES = (
    _BROKER,
    _plain("topic", "string", "Topic."),
    _plain("queue_id", "int", "Queue in the topic."),
    _plain("min_offset", "bigint", "Queue offset of the first entry whose message still exists."),
    _plain("max_offset", "bigint", "Queue offset behind the last entry."),
    _plain("min_phy_offset", "bigint", "CommitLog offset of the first entry's message; null if the queue is empty."),
    _plain("max_phy_offset", "bigint", "CommitLog offset where the last entry's message ends."),
    _plain("file_count", "int", "Files."),
    _plain("disk_bytes", "bigint", "Bytes of the files on disk."),
)  # fmt: skip

CONSUMEQUEUE = (
    _BROKER,
    _plain("topic", "string", "Topic."),
    _plain("queue_id", "int", "Queue in the topic."),
    _plain("queue_offset", "bigint", "Queue offset."),
    _plain("phy_offset", "bigint", "CommitLog offset of the message."),
    _plain("msg_size", "int", "Size of the message's record in bytes."),
    _plain("tags_code", "bigint", "Hash of the tags, or the delivery time of a delayed message."),
)

INDEX = (
    _BROKER,
    _plain("file", "string", "Name of the IndexFile."),
    _plain("entry", "int", "Number of the entry, starting at 1."),
    _plain("slot", "int", "Hash slot of its chain."),
    _plain("key_hash", "int", "Hash of topic and key."),
    _plain("phy_offset", "bigint", "CommitLog offset of the message."),
    _plain("time_diff_s", "int", "Seconds between the file's start time and the message's store time."),
    _plain("store_timestamp", "timestamp", "Store time computed from that: precise to a second."),
    _plain("previous_entry", "int", "Number of the next older entry of the slot; 0 at the end of the chain."),
)  # fmt: skip

TABLE_COLUMNS: dict[str, tuple[Column, ...]] = {
    "messages": MESSAGES,
    "consumequeue": CONSUMEQUEUE,
    "index": INDEX,
    "segments": SEGMENTS,
    "queues": QUEUES,
    "corrupt": CORRUPT,
}
