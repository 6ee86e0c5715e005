"""The options of a write, checked, each with its meaning. Names are camelCase; upper and lower case are the same."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Self

from rmqcore.config import MessageStoreConfig
from rmqcore.errors.arguments import SettingError
from rmqcore.spark.options import values
from rmqcore.spark.options.source_options import parse_value
from rmqcore.spark.options.table import Option
from rmqcore.spark.options.unknown import unknown_option
from rmqcore.vocabulary.units import INT_MAX

Selector = Literal["column", "hash", "roundRobin"]
PREFIX = "column."
_BYTES = values.size_in(1, INT_MAX)
_COUNT = values.int_in(1, INT_MAX)
_OF_SPARK = {"checkpointlocation", "queryname"}
"""Spark's own options of a stream, which it passes to the sink too."""

SINK_OPTIONS = (
    Option(
        "path",
        "path",
        values.parse_text,
        "",
        "The output directory: local, or mounted at the same path by the driver and all workers.",
    ),
    Option(
        "topic",
        "topic",
        values.parse_text,
        "",
        "The topic of all rows; a column ``topic`` is then ignored.",
    ),
    Option(
        "queueSelector",
        "queue_selector",
        values.word_of("column", "hash", "roundRobin"),
        "",
        "How a row's queue is chosen: ``column`` reads ``queue_id``; ``hash`` uses Java's hash of "
        "``hashColumn``, as SelectMessageQueueByHash does; ``roundRobin`` takes the next queue of "
        "the topic. Default: ``column`` if there is a column ``queue_id``, else ``roundRobin``.",
    ),
    Option(
        "queues",
        "queues",
        values.int_in(1, 1 << 16),
        "4",
        "Queues of a topic, for ``hash`` and ``roundRobin``.",
    ),
    Option(
        "hashColumn",
        "hash_column",
        values.parse_text,
        "keys",
        "The column for ``hash``, text or whole number. It does not need to be a field of the "
        "message.",
    ),
    Option(
        "writeId",
        "write_id",
        values.parse_text,
        "",
        "Batch: a name for this write. If a write of this name was already committed, nothing is "
        "written.",
    ),
    Option(
        "mappedFileSizeCommitLog",
        "mapped_file_size_commit_log",
        _BYTES,
        "1g",
        "Bytes of a CommitLog file.",
    ),
    Option(
        "mappedFileSizeConsumeQueue",
        "mapped_file_size_consume_queue",
        _BYTES,
        "6000000",
        "Bytes of a ConsumeQueue file.",
    ),
    Option(
        "maxHashSlotNum", "max_hash_slot_num", _COUNT, "5000000", "Hash slots of an index file."
    ),
    Option("maxIndexNum", "max_index_num", _COUNT, "20000000", "Entries of an index file."),
    Option(
        "messageIndexEnable",
        "message_index_enable",
        values.parse_bool,
        "true",
        "Write an index of the keys.",
    ),
    Option(
        "maxMessageSize",
        "max_message_size",
        _BYTES,
        "4m",
        "The largest body in bytes; a larger one fails the write.",
    ),
    Option(
        "forVersion",
        "for_version",
        values.parse_text,
        "",
        "A RocketMQ release, such as 4.9: a row that it cannot read fails the write.",
    ),
)
_BY_NAME = {option.name.lower(): option for option in SINK_OPTIONS}
_SETTINGS = (
    "mapped_file_size_commit_log",
    "mapped_file_size_consume_queue",
    "max_hash_slot_num",
    "max_index_num",
    "message_index_enable",
    "max_message_size",
    "for_version",
)


@dataclass(frozen=True)
class SinkOptions:
    """All options of a write, checked by `parse`; tasks receive them by pickle."""

    path: str = ""
    topic: str | None = None
    queue_selector: Selector | None = None
    queues: int = 4
    hash_column: str = "keys"
    write_id: str | None = None
    mapped_file_size_commit_log: int = 1 << 30
    mapped_file_size_consume_queue: int = 6_000_000
    max_hash_slot_num: int = 5_000_000
    max_index_num: int = 20_000_000
    message_index_enable: bool = True
    max_message_size: int = 4 << 20
    for_version: str | None = None
    columns: dict[str, str] = field(default_factory=dict)
    """``column.NAME``: the frame's column that is written as NAME."""

    @classmethod
    def parse(cls, given: Mapping[str, str]) -> Self:
        """Check the options that a user gave.

        Raises
        ------
        ValueError
            An option is unknown, or its value is wrong; the message names the option, the value and what is expected.
        """
        found: dict[str, Any] = {}
        columns: dict[str, str] = {}
        for name, text in given.items():
            lower = name.lower()
            if lower.startswith(PREFIX):
                columns[lower.removeprefix(PREFIX)] = text
            elif lower in _BY_NAME:
                option = _BY_NAME[lower]
                found[option.field] = parse_value(option, text)
            elif lower not in _OF_SPARK:
                raise ValueError(_unknown(name))
        if "path" not in found:
            raise ValueError(
                "path is missing: save(path) names the directory for the stores. Spark does not "
                "pass a table's options to a write, so use INSERT INTO t WITH (path '...'), or "
                "df.write.format('rmqstore').mode('append').save(path)"
            )
        options = cls(**found, columns=columns)
        options.config()
        return options

    def config(self) -> MessageStoreConfig:
        """The settings of the stores.

        Raises
        ------
        ValueError
            The sizes do not fit together, or the release is unknown; the message names the option.
        """
        try:
            return MessageStoreConfig(**{name: getattr(self, name) for name in _SETTINGS})
        except SettingError as error:
            raise error.renamed(
                {option.field: f"option {option.name}" for option in SINK_OPTIONS}
            ) from None


def _unknown(name: str) -> str:
    known = {lower: option.name for lower, option in _BY_NAME.items()}
    return unknown_option(
        f"unknown option {name} of a write", name, known, "docs/spark.md#writing-stores"
    )
