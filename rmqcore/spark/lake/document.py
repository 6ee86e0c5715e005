"""A table's description beside its rows: the watermark of each store, and the options that made the table."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal, Self

from rmqcore.errors import StoreFormatError
from rmqcore.spark.lake.watermark import TableWatermark
from rmqcore.spark.options.source_options import SourceOptions
from rmqcore.spark.rows.columns import Column

TableFormat = Literal["parquet", "delta", "iceberg"]
VERSION = 1
_OF_ROWS = (
    "topics",
    "topics_pattern",
    "queue_ids",
    "tags",
    "keys",
    "starting_offsets",
    "starting_timestamp",
    "starting_phy_offset",
    "mode",
    "verify_crc",
    "include_transaction_half",
    "decompress_body",
    "filters",
)
"""The options that decide on the rows and their content: every run must have those of the first run."""


@dataclass(frozen=True)
class TableDocument:
    """The document, which is committed with the rows.

    Attributes
    ----------
    format : {"parquet", "delta", "iceberg"}
    commit : int
        Number of the commit.
    next_part : int
        Number of the next part file: no number is used twice.
    settings : dict
        See `settings_of`.
    watermarks : dict of str to TableWatermark
        By broker.
    """

    format: TableFormat
    settings: dict[str, Any]
    commit: int = 0
    next_part: int = 0
    watermarks: dict[str, TableWatermark] = field(default_factory=dict)

    def after(self, files: int) -> Self:
        """Return the document behind a commit that adds this many files."""
        return replace(self, commit=self.commit + 1, next_part=self.next_part + files)

    def as_dict(self) -> dict[str, Any]:
        """Return the document as plain JSON values."""
        return {
            "version": VERSION,
            "format": self.format,
            "commit": self.commit,
            "next_part": self.next_part,
            "settings": self.settings,
            "watermarks": {broker: mark.as_dict() for broker, mark in self.watermarks.items()},
        }

    def encode(self) -> str:
        """Return the document as JSON, on one line."""
        return json.dumps(self.as_dict(), sort_keys=True)

    @classmethod
    def parse(cls, found: Any, where: str) -> Self:
        """Make a document of the values of `as_dict`.

        Raises
        ------
        StoreFormatError
            The values are not those of a document, or belong to a later version.
        """
        names = {"version", "format", "commit", "next_part", "settings", "watermarks"}
        if not isinstance(found, dict) or set(found) != names or found["version"] != VERSION:
            raise StoreFormatError(
                f"{where} is not a version {VERSION} document of a table exported by rmqcore"
            )
        numbers = (found["commit"], found["next_part"])
        dicts = (found["settings"], found["watermarks"])
        if not all(type(number) is int and number >= 0 for number in numbers) or not all(
            isinstance(one, dict) for one in dicts
        ):
            raise StoreFormatError(
                f"{where}: commit, next_part, settings and watermarks are {(*numbers, *dicts)!r}, expected two numbers and two "
                "objects"
            )
        marks = {
            broker: TableWatermark.parse(mark, where)
            for broker, mark in found["watermarks"].items()
        }
        return cls(found["format"], found["settings"], found["commit"], found["next_part"], marks)


def settings_of(options: SourceOptions, columns: Sequence[Column]) -> dict[str, Any]:
    """Return the columns, and the options that decide on rows and differ from their defaults, as JSON values."""
    defaults = {one.name: one.default for one in fields(SourceOptions)}
    given = {
        name: value for name in _OF_ROWS if (value := getattr(options, name)) != defaults[name]
    }
    given["columns"] = [[column.name, column.type] for column in columns]
    return dict(json.loads(json.dumps(given, default=repr)))


def check_settings(found: Mapping[str, Any], wanted: Mapping[str, Any], where: str) -> None:
    """Make sure that a run makes the same rows as those before.

    Raises
    ------
    ValueError
        Options or columns differ.
    """
    for name in sorted({*found, *wanted}):
        if found.get(name) != wanted.get(name):
            before, now = found.get(name, "the default"), wanted.get(name, "the default")
            raise ValueError(
                f"{name} is {now}, and {where} was made with {before}: this cannot change within a "
                "table; overwrite replaces the table"
            )
