"""The log of an Iceberg table: files and watermark in one commit.

The watermark is a property of the table, which the transaction that adds the files sets with them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rmqcore.disk.inside.folder import Folder
from rmqcore.errors import TargetNotEmptyError
from rmqcore.offline.export.parquet_writer import NOT_SORTED_BY
from rmqcore.spark.lake.document import TableDocument, TableFormat
from rmqcore.spark.lake.table_log import ICEBERG_TABLE, TableChange
from rmqcore.spark.output.export_folder import TABLE
from rmqcore.spark.rows.columns import Column
from rmqcore.spark.rows.schema import arrow_schema, columns_named

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

PROPERTY = "rmqcore.table"
MADE = "rmqcore.version"
CATALOG = "catalog.db"


class IcebergLog:
    """An Iceberg table whose files lie in the folder; see `TableLog`.

    Parameters
    ----------
    catalog : Catalog, optional
        Where the table is known; None: a catalog of its own, an SQLite file below the folder.
    identifier : str
        Namespace and name of the table.
    """

    format: TableFormat = "iceberg"

    def __init__(self, catalog: Catalog | None = None, identifier: str = ICEBERG_TABLE) -> None:
        self._given = catalog
        self._identifier = identifier

    def read(self, out: Folder) -> TableDocument | None:
        """Give the document of the table; None where there is no table.

        Raises
        ------
        TargetNotEmptyError
            The table is another program's, or lies elsewhere.
        """
        if self._given is None and out.status(f"{TABLE}/{CATALOG}") is None:
            return None
        with self._catalog(out) as catalog:
            table = self._table(catalog, out)
            return None if table is None else _document(table)

    def commit(self, out: Folder, change: TableChange) -> None:
        """Commit files that are in their places, with the document; nothing happens where that was done before."""
        out.make(TABLE, exist_ok=True)
        with self._catalog(out) as catalog:
            table = self._table(catalog, out)
            if table is None:
                catalog.create_namespace_if_not_exists(self._identifier.rpartition(".")[0])
                columns = columns_named(change.document.settings["columns"])
                table = catalog.create_table(
                    self._identifier,
                    arrow_schema(columns),
                    location=str(out.path),
                    properties={MADE: "1", **_metrics(columns)},
                )
            elif table.properties.get(PROPERTY) == change.document.encode():
                return
            _commit(table, out, change)

    @contextmanager
    def _catalog(self, out: Folder) -> Iterator[Catalog]:
        if self._given is not None:
            yield self._given
            return
        from pyiceberg.catalog.sql import SqlCatalog

        path = str(out.path / TABLE / CATALOG).replace("%", "%25").replace("?", "%3F")
        catalog = SqlCatalog("rmqcore", uri=f"sqlite:///{path}", warehouse=str(out.path))
        try:
            yield catalog
        finally:
            catalog.close()

    def _table(self, catalog: Catalog, out: Folder) -> Table | None:
        if not catalog.table_exists(self._identifier):
            return None
        table = catalog.load_table(self._identifier)
        if table.location() != str(out.path):
            raise TargetNotEmptyError(
                f"the catalog has {self._identifier} at {table.location()}: give that folder, or another name"
            )
        return table


def _metrics(columns: Iterable[Column]) -> dict[str, str]:
    """What of the columns is kept for each file, whose one topic is kept whole: readers skip files by it."""
    modes = {"topic": "full"}
    for column in columns:
        if column.name in NOT_SORTED_BY:
            is_map = column.type.startswith("map")
            names = [f"{column.name}.key", f"{column.name}.value"] if is_map else [column.name]
            modes |= dict.fromkeys(names, "none")
    return {f"write.metadata.metrics.column.{name}": mode for name, mode in modes.items()}


def _document(table: Table) -> TableDocument | None:
    name = ".".join(table.name())
    text = table.properties.get(PROPERTY)
    if MADE not in table.properties:
        raise TargetNotEmptyError(f"{name} is an Iceberg table that rmqcore did not make")
    if text is None:  # a run died between making the table and its first commit
        return None
    return TableDocument.parse(json.loads(text), f"{PROPERTY} of {name}")


def _commit(table: Table, out: Folder, change: TableChange) -> None:
    from pyiceberg.expressions import AlwaysTrue

    paths: list[Any] = [str(out.path / file.place) for file in change.files]
    with table.transaction() as transaction:
        if change.replaces and table.current_snapshot() is not None:
            transaction.delete(AlwaysTrue())
        if paths:
            transaction.add_files(paths)
        transaction.set_properties({PROPERTY: change.document.encode()})
