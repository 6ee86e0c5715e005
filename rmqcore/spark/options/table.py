"""Every option of the data source: its name, default and meaning, and the tables that accept it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from rmqcore._native.format.layout import REC_MIN_SIZE_V1
from rmqcore.spark.options import values
from rmqcore.spark.options.given_filters import parse_filters
from rmqcore.spark.storage.store_pin import parse_pins
from rmqcore.vocabulary.units import INT_MAX

TABLES = ("messages", "consumequeue", "index", "segments", "queues", "corrupt")
CUT_TABLES = ("messages", "corrupt")
"""Tables whose tasks read CommitLog files, which are cut into parts."""

SMALL_TABLES = ("segments", "queues", "corrupt")
"""Tables that have few rows for any store."""

_SCAN = CUT_TABLES
_MESSAGES = ("messages",)
_QUEUES = ("messages", "consumequeue", "queues")


@dataclass(frozen=True)
class Option:
    """An option of the data source.

    Attributes
    ----------
    name : str
        The name in camelCase; users may write it in any case.
    field : str
        The attribute of `rmqcore.spark.options.source_options.SourceOptions`.
    parse : callable
        Turns its text into a value.
    default : str
        The default as a user would write it; empty without a default.
    doc : str
    tables : tuple of str
        The tables that accept it.
    aliases : tuple of str
    """

    name: str
    field: str
    parse: Callable[[str], Any]
    default: str
    doc: str
    tables: tuple[str, ...] = TABLES
    aliases: tuple[str, ...] = ()


OPTIONS = (
    Option(
        "path",
        "path",
        values.parse_text,
        "",
        "Stores: directories, globs (``*``, ``?``, ``[...]``, ``{a,b}``), URIs, or ``name=path``; "
        "several separated by commas, or as a JSON list.",
    ),
    Option(
        "table", "table", values.word_of(*TABLES), "messages", f"What to read: {', '.join(TABLES)}."
    ),
    Option(
        "columns",
        "columns",
        values.parse_list,
        "",
        "Columns in the order wanted. Other fields are not decoded.",
    ),
    Option(
        "properties",
        "properties",
        values.word_of("map", "string", "none"),
        "map",
        "Type of the column ``properties``: a map; a string as stored "
        "(``NAME\\x01VALUE\\x02``...); or no such column.",
        tables=_MESSAGES,
    ),
    Option("topics", "topics", values.parse_texts, "", "Any of these topics.", tables=_QUEUES),
    Option(
        "topicsPattern",
        "topics_pattern",
        values.parse_pattern,
        "",
        "Topics whose whole name matches this regular expression (Python's).",
        tables=_QUEUES,
    ),
    Option(
        "queueIds",
        "queue_ids",
        values.parse_queue_ids,
        "",
        "Any of these queue ids.",
        tables=_QUEUES,
    ),
    Option(
        "tags",
        "tags",
        values.parse_texts,
        "",
        "Any of these tags; each is compared with all of TAGS.",
        tables=_MESSAGES,
    ),
    Option(
        "keys",
        "keys",
        values.parse_texts,
        "",
        "Any of these keys: a word of KEYS, or UNIQ_KEY.",
        tables=_MESSAGES,
    ),
    Option(
        "startingOffsets",
        "starting_offsets",
        values.parse_queue_offsets,
        "earliest",
        'Queue offsets to start at, JSON ``{"topic": {"broker": {"0": 42}}}``; other queues from their beginning. '
        "``latest`` is for streams.",
        tables=_MESSAGES,
    ),
    Option(
        "endingOffsets",
        "ending_offsets",
        values.parse_queue_offsets,
        "latest",
        "Queue offsets to end before, as in startingOffsets; other queues are read to their end.",
        tables=_MESSAGES,
    ),
    Option(
        "startingTimestamp",
        "starting_timestamp",
        values.parse_time_ms,
        "",
        "Messages stored at or after this time: milliseconds since 1970, or ISO 8601 such as "
        "``2026-11-24`` or ``2026-11-24T08:00+08:00``, UTC without an offset. It overrides "
        "startingOffsets.",
        tables=_MESSAGES,
    ),
    Option(
        "endingTimestamp",
        "ending_timestamp",
        values.parse_time_ms,
        "",
        "Messages stored before this time, likewise. It overrides endingOffsets.",
        tables=_MESSAGES,
    ),
    Option(
        "startingPhyOffset",
        "starting_phy_offset",
        values.parse_phy_offset,
        "",
        "CommitLog offset to start at, for all stores or as JSON ``{broker: phy_offset}``.",
        tables=_SCAN,
    ),
    Option(
        "endingPhyOffset",
        "ending_phy_offset",
        values.parse_phy_offset,
        "",
        "CommitLog offset to end before, likewise.",
        tables=_SCAN,
    ),
    Option(
        "maxClockStepMs",
        "max_clock_step_ms",
        values.parse_clock_step,
        "off",
        "Milliseconds by which the broker's clock may have been set back: a file is skipped if "
        "its first store timestamp is outside the requested times by more than this. `off` reads "
        "every file; the store does not record changes of its clock.",
        tables=_MESSAGES,
    ),
    Option(
        "verifyCrc",
        "verify_crc",
        values.word_of("off", "column", "fail"),
        "off",
        "``column`` adds the column crc_ok unless columns are named; with ``fail`` a message that "
        "fails its CRC fails the query.",
        tables=_MESSAGES,
    ),
    Option(
        "mode",
        "mode",
        values.word_of("PERMISSIVE", "FAILFAST", "DROPMALFORMED"),
        "PERMISSIVE",
        "Damage: PERMISSIVE returns messages that only fail their CRC (see ``corrupt_reason``) "
        "and continues behind damaged ranges; DROPMALFORMED skips those messages too; FAILFAST "
        "fails the query at any damage except a torn tail.",
        tables=_MESSAGES,
    ),
    Option(
        "failOnDataLoss",
        "fail_on_data_loss",
        values.parse_bool,
        "true",
        "Fail if startingPhyOffset is before the first file, if an offset in startingOffsets is "
        "before the first message of its queue, if a file with messages is missing between "
        "others, or if one is deleted between plan and read. `false` continues, with a warning on "
        "the driver.",
        tables=_SCAN,
    ),
    Option(
        "includeTransactionHalf",
        "include_transaction_half",
        values.parse_bool,
        "true",
        "``false`` skips records that consumers never get: the half and op topics of "
        "transactions, and prepared and rolled back records.",
        tables=_MESSAGES,
    ),
    Option(
        "decompressBody",
        "decompress_body",
        values.parse_bool,
        "false",
        "Return ``body`` decompressed, as the producer sent it.",
        tables=_MESSAGES,
    ),
    Option(
        "maxPartitionBytes",
        "max_partition_bytes",
        values.size_in(1, 1 << 40),
        "128m",
        "Bytes of a file that one task reads at most.",
        tables=("messages", "consumequeue", "index", "corrupt"),
    ),
    Option(
        "minPartitions",
        "min_partitions",
        values.int_in(1, 10_000_000),
        "1",
        "A hint for the number of tasks. Splits do not get smaller than 1 MiB for it.",
        tables=_SCAN,
    ),
    Option(
        "parallelism",
        "parallelism",
        values.int_in(1, 1_000_000),
        "",
        "Number of tasks that run at once: the log is split into that many parts if they have at "
        "least 8 MiB each. Default: ``spark.sparkContext.defaultParallelism`` in "
        "`rmqcore.spark.read` and jobs, else the cores of the driver; `minPartitions` replaces it.",
        tables=_SCAN,
    ),
    Option(
        "splitMode",
        "split_mode",
        values.word_of("auto", "resync", "walk"),
        "auto",
        "How files are split: ``resync`` finds records from the bytes around a boundary and does "
        "not split the newest file; ``walk`` reads each file beforehand; ``auto`` walks a file if "
        "that takes less time than smaller splits save.",
        tables=_SCAN,
    ),
    Option(
        "maxRecordSize",
        "max_record_size",
        values.size_in(REC_MIN_SIZE_V1, INT_MAX),
        "4160k",
        "Upper limit of a record's size. Raise it to the broker's maxMessageSize + 64k.",
        tables=_SCAN,
    ),
    Option(
        "batchRows",
        "batch_rows",
        values.int_in(1, 1 << 24),
        "10000",
        "Rows per Arrow batch at most.",
    ),
    Option(
        "batchBytes",
        "batch_bytes",
        values.size_in(1, 1 << 30),
        "8m",
        "An Arrow batch ends with the record that reaches this number of bytes.",
        tables=_MESSAGES,
    ),
    Option(
        "maxRecordsPerTrigger",
        "max_records_per_trigger",
        values.int_in(1),
        "",
        "Streams: records per batch, approximately.",
        tables=_MESSAGES,
        aliases=("maxOffsetsPerTrigger",),
    ),
    Option(
        "maxBytesPerTrigger",
        "max_bytes_per_trigger",
        values.size_in(1, 1 << 50),
        "",
        "Streams: bytes of the log per batch, approximately.",
        tables=_MESSAGES,
    ),
    Option(
        "tailGuard",
        "tail_guard",
        values.word_of("crc", "consumequeue", "none"),
        "crc",
        "Streams: when the newest record of a store in use is read.",
        tables=_MESSAGES,
    ),
    Option(
        "onDamage",
        "on_damage",
        values.word_of("wait", "skip", "fail"),
        "",
        "Streams, at damage in the newest file with sound records behind it: `wait` in front of "
        "it and warn; `skip` it as a batch read does; `fail` the query. Default: `wait` if "
        "tailGuard is `crc`, else `skip`.",
        tables=_MESSAGES,
    ),
    Option(
        "followLinks",
        "follow_links",
        values.parse_bool,
        "false",
        "``commitlog``, ``consumequeue`` and ``index`` in the root of a store on a local disk may be links to another disk.",
    ),
    Option(
        "pushdown",
        "pushdown",
        values.parse_bool,
        "false",
        "Apply Spark's filters in the source, for a frame used in one query only: Spark (4.1 to "
        "4.3) reuses the filters of the first query in the frame's other queries, which then lack "
        "rows. Needs spark.sql.python.filterPushdown.enabled.",
    ),
    Option(
        "filters",
        "filters",
        parse_filters,
        "",
        "Conditions of the query, which Spark checks as well. Set by `rmqcore.spark.optimize`.",
        tables=_MESSAGES,
    ),
    Option(
        "damageFolder",
        "damage_folder",
        values.parse_text,
        "",
        "The directory of a `rmqcore.spark.DamageCounter`, where tasks record the damage that "
        "they find.",
        tables=_MESSAGES,
    ),
    Option(
        "pins",
        "pins",
        parse_pins,
        "",
        "Start and end of each store when another frame was loaded, to read the same range. Set "
        "by `rmqcore.spark.optimize`.",
    ),
)
