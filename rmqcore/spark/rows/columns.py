"""Every column of every table of the data source: its Spark type, its meaning, and the columns of the scan it is made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

ColumnType = Literal[
    "string", "int", "bigint", "timestamp", "binary", "boolean", "map<string,string>"
]


@dataclass(frozen=True)
class Column:
    """A column; it is small, and tasks get it by pickle.

    Attributes
    ----------
    name : str
    type : str
        The type's name in Spark's SQL. For Spark every column may be null, also a column that never is.
    doc : str
    native : tuple of str
        The columns of the native scan that it is made of.
    on_request : bool
        The column is only given when it is asked for by name.
    """

    name: str
    type: ColumnType
    doc: str
    native: tuple[str, ...] = ()
    on_request: bool = False


def _plain(name: str, of_type: ColumnType, doc: str, *, on_request: bool = False) -> Column:
    return Column(name, of_type, doc, (name,), on_request)


_BROKER = Column("broker", "string", "Name of the store: given as ``name=path``, else by its path.")

MESSAGES = (
    _plain("topic", "string", "Topic as stored."),
    _plain("queue_id", "int", "Queue in the topic."),
    _plain("queue_offset", "bigint", "Place in the queue."),
    _plain("phy_offset", "bigint", "Place in the CommitLog, bytes."),
    _plain("msg_size", "int", "Bytes of the record."),
    Column("store_timestamp", "timestamp", "When the broker stored it.", ("store_timestamp_ms",)),
    Column("born_timestamp", "timestamp", "When the producer made it.", ("born_timestamp_ms",)),
    _plain("tags", "string", "TAGS, null without."),
    _plain("keys", "string", "The words of KEYS with a space between, null without any."),
    _plain("uniq_key", "string", "UNIQ_KEY, the id that the client gave; null without."),
    _plain("body", "binary", "The stored bytes; decompressBody for the producer's."),
    _plain("properties", "map<string,string>", "All properties."),
    _plain("sys_flag", "int", "SYSFLAG: compression, transaction, IPv6, batch."),
    _plain("flag", "int", "FLAG, the application's."),
    _plain("body_crc", "int", "CRC-32 of the stored body without its top bit."),
    _plain("reconsume_times", "int", "How often consumers sent it back."),
    _plain("prepared_transaction_offset", "bigint", "CommitLog offset of the prepared message."),
    _plain("store_host", "string", "``ip:port`` of the broker."),
    _plain("born_host", "string", "``ip:port`` of the producer."),
    _BROKER,
    _plain("msg_id", "string", "Offset message id, of host and CommitLog offset.", on_request=True),
    _plain("tags_code", "bigint", "What the ConsumeQueue entry holds.", on_request=True),
    _plain("magic", "int", "MAGICCODE of the record.", on_request=True),
    _plain("raw", "binary", "The whole record.", on_request=True),
    Column("crc_ok", "boolean", "Whether the body has its CRC.", ("phy_offset",), on_request=True),
    Column(
        "resynced",
        "boolean",
        "The first message behind a damaged range.",
        ("phy_offset",),
        on_request=True,
    ),
    Column(
        "corrupt_reason",
        "string",
        "What is wrong with the message, null when nothing.",
        ("phy_offset",),
        on_request=True,
    ),
    Column("_file", "string", "The CommitLog file.", on_request=True),
)

CORRUPT = (
    _BROKER,
    _plain("start_phy_offset", "bigint", "First byte of the range."),
    _plain("end_phy_offset", "bigint", "First byte behind it."),
    _plain(
        "kind", "string", "crc, record, torn_tail, blank, short_file, missing_file, unreadable."
    ),
    _plain("path", "string", "The file."),
    _plain("field", "string", "What is wrong at the start of the range."),
    _plain("expected", "string", "What it should be."),
    _plain("found", "string", "What it is."),
)

SEGMENTS = (
    _BROKER,
    _plain("file", "string", "Name of the CommitLog file."),
    _plain("file_from_offset", "bigint", "CommitLog offset of its first byte."),
    _plain("file_size", "bigint", "Bytes."),
    _plain("first_store_timestamp", "timestamp", "Of its first message; null when none begins it."),
    _plain("is_tail", "boolean", "The log ends in this file."),
    _plain("is_sealed", "boolean", "A later file holds messages: nothing is appended here any more."),
    _plain("missing_bytes", "bigint", "What it lacks to the size of the others."),
    _plain("path", "string", "Path or URI."),
)  # fmt: skip

QUEUES = (
    _BROKER,
    _plain("topic", "string", "Topic."),
    _plain("queue_id", "int", "Queue in the topic."),
    _plain("min_offset", "bigint", "Queue offset of the first entry whose message is there."),
    _plain("max_offset", "bigint", "Queue offset behind the last entry."),
    _plain("min_phy_offset", "bigint", "Where the first entry's message begins; null in an empty queue."),
    _plain("max_phy_offset", "bigint", "Where the last entry's message ends."),
    _plain("file_count", "int", "Files."),
    _plain("disk_bytes", "bigint", "Bytes that they occupy."),
)  # fmt: skip

CONSUMEQUEUE = (
    _BROKER,
    _plain("topic", "string", "Topic."),
    _plain("queue_id", "int", "Queue in the topic."),
    _plain("queue_offset", "bigint", "Place in the queue."),
    _plain("phy_offset", "bigint", "Where the message begins."),
    _plain("msg_size", "int", "Bytes of its record."),
    _plain("tags_code", "bigint", "Hash of the tags, or the delivery time of a delayed message."),
)

INDEX = (
    _BROKER,
    _plain("file", "string", "Name of the IndexFile."),
    _plain("entry", "int", "Number of the entry; they begin with 1."),
    _plain("slot", "int", "Hash slot that its chain begins at."),
    _plain("key_hash", "int", "Hash of topic and key."),
    _plain("phy_offset", "bigint", "Where the message begins."),
    _plain("time_diff_s", "int", "Seconds between the file's begin and the message's store time."),
    _plain("store_timestamp", "timestamp", "The message's store time by that, cut to the second since the begin."),
    _plain("previous_entry", "int", "The next older entry of the slot; 0 at the end of the chain."),
)  # fmt: skip

TABLE_COLUMNS: dict[str, tuple[Column, ...]] = {
    "messages": MESSAGES,
    "consumequeue": CONSUMEQUEUE,
    "index": INDEX,
    "segments": SEGMENTS,
    "queues": QUEUES,
    "corrupt": CORRUPT,
}
