"""The options of a read, checked; `rmqcore.spark.options.table` has their meanings.

Names are camelCase; as in Spark, upper and lower case are the same. An option that is unknown, or has no meaning for
the table that is read, is an error: a read that ignored a misspelt filter would return too many rows.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from typing import Any, Literal, Self

from rmqcore.spark.options.given_filters import GivenFilter
from rmqcore.spark.options.table import OPTIONS, Option
from rmqcore.spark.options.unknown import unknown_option
from rmqcore.spark.options.values import QueueOffsets, parse_time_ms
from rmqcore.spark.runtime.parallelism import driver_cores, parallelism_of
from rmqcore.spark.splits.planning import Span
from rmqcore.spark.splits.sizing import MIB, Sizing, SplitMode
from rmqcore.spark.splits.split import DEFAULT_MAX_RECORD_SIZE
from rmqcore.spark.storage.locations import Paths, StoreLocation, find_stores, given_paths
from rmqcore.spark.storage.store_pin import StorePin
from rmqcore.vocabulary.times import milliseconds

Table = Literal["messages", "consumequeue", "index", "segments", "queues", "corrupt"]
Mode = Literal["PERMISSIVE", "FAILFAST", "DROPMALFORMED"]

_BY_NAME = {name.lower(): option for option in OPTIONS for name in (option.name, *option.aliases)}
_TIME_OPTIONS = {name for name, option in _BY_NAME.items() if option.parse is parse_time_ms}


@dataclass(frozen=True)
class SourceOptions:
    """All options of a read, checked by `parse`; they are small, and tasks receive them by pickle.

    Notes
    -----
    `storage` is not in the repr, because it holds secrets.
    """

    path: tuple[str, ...] = ()
    table: Table = "messages"
    columns: tuple[str, ...] | None = None
    properties: Literal["map", "string", "none"] = "map"
    topics: tuple[str, ...] | None = None
    topics_pattern: str | None = None
    queue_ids: tuple[int, ...] | None = None
    tags: tuple[str, ...] | None = None
    keys: tuple[str, ...] | None = None
    starting_offsets: QueueOffsets | Literal["earliest", "latest"] = "earliest"
    ending_offsets: QueueOffsets | Literal["earliest", "latest"] = "latest"
    starting_timestamp: int | None = None
    ending_timestamp: int | None = None
    starting_phy_offset: int | dict[str, int] | None = None
    ending_phy_offset: int | dict[str, int] | None = None
    max_clock_step_ms: int | None = None
    verify_crc: Literal["off", "column", "fail"] = "off"
    mode: Mode = "PERMISSIVE"
    fail_on_data_loss: bool = True
    include_transaction_half: bool = True
    decompress_body: bool = False
    max_partition_bytes: int = 128 * MIB
    min_partitions: int = 1
    parallelism: int | None = None
    split_mode: SplitMode = "auto"
    max_record_size: int = DEFAULT_MAX_RECORD_SIZE
    batch_rows: int = 10_000
    batch_bytes: int = 8 * MIB
    max_records_per_trigger: int | None = None
    max_bytes_per_trigger: int | None = None
    tail_guard: Literal["crc", "consumequeue", "none"] = "crc"
    on_damage: Literal["wait", "skip", "fail"] | None = None
    follow_links: bool = False
    pushdown: bool = False
    filters: tuple[GivenFilter, ...] = ()
    damage_folder: str | None = None
    pins: tuple[tuple[str, StorePin], ...] = field(default=(), repr=False)
    storage: tuple[tuple[str, str], ...] = field(default=(), repr=False)

    @classmethod
    def parse(cls, given: Mapping[str, str]) -> Self:
        """Check the options that a user gave.

        Parameters
        ----------
        given : mapping of str to str
            Option names in any case; ``storage.NAME`` for the filesystem; ``paths``, under which Spark passes several paths.

        Raises
        ------
        ValueError
            An option is unknown (the message has a similar name), has no meaning for the table, or its value is wrong:
            the message names the option, the value and what is expected.
        """
        found: dict[str, Any] = {}
        by_field: dict[str, Option] = {}
        storage: dict[str, str] = {}
        paths: list[str] = []
        for name, text in given.items():
            lower = name.lower()
            if lower.startswith("storage."):
                storage[lower.removeprefix("storage.")] = text
            elif lower == "paths":
                paths += json.loads(text)
            elif lower not in _BY_NAME:
                raise ValueError(_unknown(name))
            elif lower == "path":
                paths += given_paths(text)
            else:
                option = _BY_NAME[lower]
                if option.field in found:
                    raise ValueError(f"option {option.name} is given twice, once as {name}")
                found[option.field] = parse_value(option, text)
                by_field[option.field] = option
        _check_together(found, by_field)
        return cls(**found, path=tuple(paths), storage=tuple(sorted(storage.items())))

    def stores(self, path: Paths | None = None) -> list[StoreLocation]:
        """Find the stores at a path, by default the path of these options; see `find_stores`."""
        return find_stores(
            self.path if path is None else path,
            dict(self.storage),
            follow_links=self.follow_links,
        )

    def in_session(self, spark: Any) -> Self:
        """Return the options with the session's number of parallel tasks, unless they set that number themselves."""
        if self.parallelism is not None:
            return self
        return replace(self, parallelism=parallelism_of(spark))

    def sizing(self) -> Sizing:
        """Return how finely files are cut: for all parallel tasks, unless the user sets another number of parts."""
        cores = 1 if self.min_partitions > 1 else self.parallelism or driver_cores()
        return Sizing(
            self.max_partition_bytes,
            self.min_partitions,
            self.split_mode,
            self.max_record_size,
            cores,
        )

    def span(self, broker: str) -> Span:
        """Return the wanted ranges of offsets and times in a store."""
        return Span(
            start_phy_offset=_of_broker(self.starting_phy_offset, broker),
            end_phy_offset=_of_broker(self.ending_phy_offset, broker),
            since_ms=self.starting_timestamp,
            until_ms=self.ending_timestamp,
            max_clock_step_ms=self.max_clock_step_ms,
        )


def parse_value(option: Option, text: str) -> Any:
    """Parse the text of an option; raise ValueError with the option, the text and what is expected."""
    try:
        return option.parse(text)
    except ValueError as error:
        raise ValueError(f"option {option.name}: {text!r} is invalid, expected {error}") from None


def texts_of(given: Mapping[str, object]) -> dict[str, str]:
    """Turn options from Python values (bools, numbers, lists, dicts, times) into the texts that Spark carries; None is left out.

    Raises
    ------
    TypeError
        A value has another type.
    ValueError
        A datetime has no time zone, and the zone of this machine is not UTC.
    """
    return {name: _text_of(name, value) for name, value in given.items() if value is not None}


def _text_of(name: str, value: object) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool | int):
        return str(value).lower()
    if isinstance(value, date) and name.lower() in _TIME_OPTIONS:
        return _time_text(name, value)
    if isinstance(value, Mapping):
        return json.dumps(dict(value))
    if isinstance(value, Iterable) and not isinstance(value, bytes | bytearray):
        return json.dumps(list(value))
    raise TypeError(
        f"option {name}: expected a text, number, bool, list or dict, got {type(value).__name__}"
    )


def _time_text(name: str, value: date) -> str:
    if not isinstance(value, datetime):
        return value.isoformat()
    if value.tzinfo is None and value.astimezone().utcoffset():
        # As a text it would mean UTC; in Python it is local, like the times in the rows of collect().
        raise ValueError(
            f"option {name}: {value!r} has no time zone: pass tzinfo=datetime.UTC or another, or "
            f"{value!r}.astimezone() for local time"
        )
    return str(milliseconds(value))


def _check_together(found: Mapping[str, Any], by_field: Mapping[str, Option]) -> None:
    table = found.get("table", "messages")
    for option in by_field.values():
        if table not in option.tables:
            raise ValueError(
                f"option {option.name} does not apply to table={table}, only to "
                f"{', '.join(option.tables)}"
            )
    if "topics" in found and "topics_pattern" in found:
        raise ValueError("options topics and topicsPattern exclude each other: use one of them")


def _of_broker(given: int | dict[str, int] | None, broker: str) -> int | None:
    return given.get(broker) if isinstance(given, dict) else given


def _unknown(name: str) -> str:
    known = {lower: option.name for lower, option in _BY_NAME.items()}
    return unknown_option(f"unknown option {name}", name, known, "docs/spark.md#options")
