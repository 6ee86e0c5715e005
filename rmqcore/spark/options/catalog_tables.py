"""The options of a table in Spark's catalog: ``CREATE TABLE t USING rmqstore OPTIONS (path '...', topics '...')``.

Spark stores the options, but passes a Python source only the columns of a table. These are the columns that the source
returned when the table was made, with their metadata; so the options are kept in the metadata of the first column.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from rmqcore.offline.remote.filesystem_options import is_secret
from rmqcore.spark.options.table import OPTIONS
from rmqcore.spark.storage.locations import absolute_paths

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

METADATA = "rmqstore"
"""Key of a table's options in the metadata of its first column."""

_PREFIX = "option."
_NO_PATH = (
    "path is missing: Spark drops a table's options if CREATE TABLE names columns. Omit the "
    "columns (OPTIONS (columns '...') chooses them), use SELECT ... FROM t WITH (path '...'), or "
    "create a temporary view"
)
_NAMES = {name.lower() for option in OPTIONS for name in (option.name, *option.aliases)}


def names_new_table(given: Mapping[str, str]) -> bool:
    """Return True if Spark requests the columns of a table being created: only then it passes source and owner."""
    return given.get("provider", "").lower() == METADATA and "owner" in given


def options_of_new_table(given: Mapping[str, str]) -> dict[str, str]:
    """Return the ``OPTIONS`` and ``LOCATION`` of a ``CREATE TABLE``, from all that Spark passes.

    Raises
    ------
    ValueError
        An option is not allowed for a table, or is among the table's properties.
    """
    lower = {name.lower(): text for name, text in given.items()}
    found = {
        name.removeprefix(_PREFIX): text for name, text in lower.items() if name.startswith(_PREFIX)
    }
    paths = [*absolute_paths(_plain(lower.get("path", ""))), *json.loads(found.pop("paths", "[]"))]
    if paths:
        found["path"] = json.dumps(absolute_paths(paths))
    for name in sorted(_NAMES & set(lower) - set(found)):
        raise ValueError(f"{name} has no effect in TBLPROPERTIES: move it to OPTIONS")
    for name in sorted(found):
        if name.startswith("storage.") and is_secret(name):
            raise ValueError(
                f"option {name}: every user who can see a table can read its options: put secrets "
                "into the workers' environment, or create a temporary view"
            )
    return found


def keep_options(schema: StructType, options: Mapping[str, str]) -> StructType:
    """Return the schema with the options of the table in the metadata of its first column."""
    from pyspark.sql.types import StructField, StructType

    first, *others = schema.fields
    kept = StructField(first.name, first.dataType, first.nullable, {METADATA: dict(options)})
    return StructType([kept, *others])


def options_of_read(given: Mapping[str, str], schema: StructType) -> dict[str, str]:
    """Return the options of a read of these columns.

    Raises
    ------
    ValueError
        Neither the read nor a table names a path.
    """
    found = with_kept_options(given, (field.metadata for field in schema.fields))
    if not {"path", "paths"} & set(found):
        raise ValueError(_NO_PATH)
    return found


def with_kept_options(given: Mapping[str, str], metadata: Iterable[Any]) -> dict[str, str]:
    """Return the options in the metadata of columns, overridden by the given ones, for example from SQL's ``WITH (...)``.

    If a path is given, it is another place: the options of the table are ignored.
    """
    lower = {name.lower(): text for name, text in given.items()}
    if {"path", "paths"} & set(lower):
        return lower
    kept = (of_column[METADATA] for of_column in metadata if METADATA in of_column)
    return dict(next(kept, {})) | lower


def _plain(location: str) -> str:
    """Return the path of a location, which Spark has converted to an unescaped URI."""
    return location.removeprefix("file:") if location.startswith("file:/") else location
