"""Every option of the data source: its name, default and meaning, and the tables for which it has a meaning."""

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
"""Tables of few rows, whatever a store holds."""

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
        The default as a user would write it; empty when there is no default.
    doc : str
    tables : tuple of str
        The tables for which it may be given.
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
        "Stores: directories, globs (``*``, ``?``, ``[...]``, ``{a,b}``), URIs, ``name=path``; several between commas, or a "
        "JSON list.",
    ),
    Option(
        "table", "table", values.word_of(*TABLES), "messages", f"What to read: {', '.join(TABLES)}."
    ),
    Option(
        "columns",
        "columns",
        values.parse_list,
        "",
        "Columns in the order wanted. What is not asked for is not decoded.",
    ),
    Option(
        "properties",
        "properties",
        values.word_of("map", "string", "none"),
        "map",
        "The column ``properties``: a map; a string in the form of records (``NAME\\x01VALUE\\x02``...); left out.",
        tables=_MESSAGES,
    ),
    Option("topics", "topics", values.parse_texts, "", "Any of these topics.", tables=_QUEUES),
    Option(
        "topicsPattern",
        "topics_pattern",
        values.parse_pattern,
        "",
        "Topics that this regular expression (Python's) matches as a whole.",
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
        "Any of these tags; each the whole of TAGS.",
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
        'Queue offsets to begin with, JSON ``{"topic": {"broker": {"0": 42}}}``; other queues from their beginning. '
        "``latest`` is for streams.",
        tables=_MESSAGES,
    ),
    Option(
        "endingOffsets",
        "ending_offsets",
        values.parse_queue_offsets,
        "latest",
        "Queue offsets to end before, as in startingOffsets; queues that are not named are read to their end.",
        tables=_MESSAGES,
    ),
    Option(
        "startingTimestamp",
        "starting_timestamp",
        values.parse_time_ms,
        "",
        "Messages stored at or after this time: milliseconds since 1970, or ISO 8601 such as ``2026-11-24`` or "
        "``2026-11-24T08:00+08:00``, UTC without an offset. startingOffsets is ignored then.",
        tables=_MESSAGES,
    ),
    Option(
        "endingTimestamp",
        "ending_timestamp",
        values.parse_time_ms,
        "",
        "Messages stored before this time, likewise. endingOffsets is ignored then.",
        tables=_MESSAGES,
    ),
    Option(
        "startingPhyOffset",
        "starting_phy_offset",
        values.parse_phy_offset,
        "",
        "CommitLog offset to begin at, for all stores or as JSON ``{broker: phy_offset}``.",
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
        "The most by which the broker's clock was ever set back, in milliseconds: files whose first store timestamps lie further "
        "than this outside the time asked for are not read. `off` reads every file: nothing in a store says what its clock did.",
        tables=_MESSAGES,
    ),
    Option(
        "verifyCrc",
        "verify_crc",
        values.word_of("off", "column", "fail"),
        "off",
        "``column`` adds the column crc_ok where no columns are named; with ``fail`` a message that fails its CRC fails the "
        "query.",
        tables=_MESSAGES,
    ),
    Option(
        "mode",
        "mode",
        values.word_of("PERMISSIVE", "FAILFAST", "DROPMALFORMED"),
        "PERMISSIVE",
        "Damage: PERMISSIVE gives messages that fail only their CRC (``corrupt_reason`` says so) and goes on behind a damaged "
        "range; DROPMALFORMED leaves those messages out; FAILFAST fails the query at any damage but a torn tail.",
        tables=_MESSAGES,
    ),
    Option(
        "failOnDataLoss",
        "fail_on_data_loss",
        values.parse_bool,
        "true",
        "Fail when startingPhyOffset lies before the first file, or an offset in startingOffsets before the first message of its "
        "queue, or a file of messages is missing between others, or is deleted between plan and read. `false` goes on, with a "
        "warning on the driver.",
        tables=_SCAN,
    ),
    Option(
        "includeTransactionHalf",
        "include_transaction_half",
        values.parse_bool,
        "true",
        "``false`` leaves out what no consumer gets: the half and op topics of transactions, prepared and rolled back records.",
        tables=_MESSAGES,
    ),
    Option(
        "decompressBody",
        "decompress_body",
        values.parse_bool,
        "false",
        "Give ``body`` as the producer had it, not as stored.",
        tables=_MESSAGES,
    ),
    Option(
        "maxPartitionBytes",
        "max_partition_bytes",
        values.size_in(1, 1 << 40),
        "128m",
        "The most bytes of a file that one task reads.",
        tables=("messages", "consumequeue", "index", "corrupt"),
    ),
    Option(
        "minPartitions",
        "min_partitions",
        values.int_in(1, 10_000_000),
        "1",
        "Tasks wanted; a hint. Parts get no smaller than 1 MiB for it.",
        tables=_SCAN,
    ),
    Option(
        "parallelism",
        "parallelism",
        values.int_in(1, 1_000_000),
        "",
        "Tasks that run at once: so many parts are made where there is enough to read, of 8 MiB at least. `rmqcore.spark.read` "
        "and jobs take ``spark.sparkContext.defaultParallelism``, others the cores of the driver; `minPartitions` replaces it.",
        tables=_SCAN,
    ),
    Option(
        "splitMode",
        "split_mode",
        values.word_of("auto", "resync", "walk"),
        "auto",
        "How files are cut: ``resync`` tells it from the bytes around a cut and leaves the newest file whole, ``walk`` reads "
        "each file beforehand, ``auto`` those where the walk takes less time than smaller parts save.",
        tables=_SCAN,
    ),
    Option(
        "maxRecordSize",
        "max_record_size",
        values.size_in(REC_MIN_SIZE_V1, INT_MAX),
        "4160k",
        "No record is longer. Raise it with the broker's maxMessageSize (+ 64k).",
        tables=_SCAN,
    ),
    Option(
        "batchRows",
        "batch_rows",
        values.int_in(1, 1 << 24),
        "10000",
        "The most rows of an Arrow batch.",
    ),
    Option(
        "batchBytes",
        "batch_bytes",
        values.size_in(1, 1 << 30),
        "8m",
        "An Arrow batch ends with the record that reaches so many bytes.",
        tables=_MESSAGES,
    ),
    Option(
        "maxRecordsPerTrigger",
        "max_records_per_trigger",
        values.int_in(1),
        "",
        "Streams: about so many records a batch.",
        tables=_MESSAGES,
        aliases=("maxOffsetsPerTrigger",),
    ),
    Option(
        "maxBytesPerTrigger",
        "max_bytes_per_trigger",
        values.size_in(1, 1 << 50),
        "",
        "Streams: about so many bytes of the log a batch.",
        tables=_MESSAGES,
    ),
    Option(
        "tailGuard",
        "tail_guard",
        values.word_of("crc", "consumequeue", "none"),
        "crc",
        "Streams: when the newest record of a live store counts.",
        tables=_MESSAGES,
    ),
    Option(
        "onDamage",
        "on_damage",
        values.word_of("wait", "skip", "fail"),
        "",
        "Streams, at damage in the newest file that has sound records behind it: `wait` before it, and say so; `skip` it as a "
        "batch read does; `fail` the query. By default `wait`, and `skip` with another tailGuard than `crc`.",
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
        "Take filters from Spark, for a frame that is planned once: Spark (4.1 to 4.3) reads by what it planned for one query "
        "in the frame's other queries too, which then lack rows. Needs spark.sql.python.filterPushdown.enabled.",
    ),
    Option(
        "filters",
        "filters",
        parse_filters,
        "",
        "Conditions of the query that the source is planned for, which Spark tests too. Set by `rmqcore.spark.optimize`.",
        tables=_MESSAGES,
    ),
    Option(
        "damageFolder",
        "damage_folder",
        values.parse_text,
        "",
        "The folder of a `rmqcore.spark.DamageCounter`, in which tasks note the damage that they meet.",
        tables=_MESSAGES,
    ),
    Option(
        "pins",
        "pins",
        parse_pins,
        "",
        "Where each store began and ended when another frame was loaded, to read the same. Set by `rmqcore.spark.optimize`.",
    ),
)
