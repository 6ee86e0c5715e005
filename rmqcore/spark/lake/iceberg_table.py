"""The log of an Iceberg table: files and watermark in one commit.

The watermark is a property of the table, set by the transaction that adds the files. A rollback takes back snapshots,
but not properties; so each of our snapshots has the number of its commit in its summary, and its document if that is
short.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rmqcore.disk.inside.folder import Folder
from rmqcore.errors import TargetNotEmptyError
from rmqcore.offline.export.parquet_writer import NOT_SORTED_BY
from rmqcore.spark.lake.document import TableDocument, TableFormat
from rmqcore.spark.lake.table_log import (
    ICEBERG_TABLE,
    TableChange,
    check_columns,
    rows_of_unknown_commit,
    with_rows_of,
)
from rmqcore.spark.output.export_folder import TABLE
from rmqcore.spark.rows.columns import Column
from rmqcore.spark.rows.schema import arrow_schema, columns_named

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

PROPERTY = "rmqcore.table"
MADE = "rmqcore.version"
COMMIT = "rmqcore.commit"
"""In the summary of a snapshot of ours: the number of its commit."""
NEWEST = "rmqcore.newest"
"""Property of the table: `COMMIT` of our newest snapshot."""
SEQUENCE = "rmqcore.sequence"
"""Property of the table: our newest snapshot has this sequence number or a greater one, all snapshots before it have less."""
LONGEST_KEPT = 16 * 1024
CATALOG = "catalog.db"


class IcebergLog:
    """An Iceberg table whose files lie in the folder; see `TableLog`.

    Parameters
    ----------
    catalog : Catalog, optional
        The catalog that has the table; None: a catalog of its own, an SQLite file below the folder.
    identifier : str
        Namespace and name of the table.
    """

    format: TableFormat = "iceberg"

    def __init__(self, catalog: Catalog | None = None, identifier: str = ICEBERG_TABLE) -> None:
        self._given = catalog
        self._identifier = identifier

    def read(self, out: Folder, *, anew: bool = False) -> TableDocument | None:
        """Return the document of the table; None if the catalog has no table; see `TableLog`.

        Raises
        ------
        TargetNotEmptyError
            Another program made the table, or its files lie in another folder.
        """
        if self._given is None and out.status(f"{TABLE}/{CATALOG}") is None:
            return None
        with self._catalog(out) as catalog:
            table = self._table(catalog, out)
            document = None if table is None else _document(table)
            if table is None or document is None:
                return None
            check_columns(document, table.schema().column_names, str(out.path))
            return document if anew else _of_rows(table, document, str(out.path))

    def commit(self, out: Folder, change: TableChange) -> None:
        """Commit files that are in their places, with the document; do nothing if the commit was done before."""
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
            else:
                check_columns(change.document, table.schema().column_names, str(out.path))
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
                f"the catalog has {self._identifier} at {table.location()}: use that directory, or "
                "another identifier"
            )
        return table


def _metrics(columns: Iterable[Column]) -> dict[str, str]:
    """Return the metrics to keep for each file, by which readers skip files; the topic, one per file, is kept whole."""
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
        raise TargetNotEmptyError(f"{name} is an Iceberg table that rmqcore did not create")
    if text is None:  # a run died between the creation of the table and its first commit
        return None
    return TableDocument.parse(json.loads(text), f"{PROPERTY} of {name}")


def _of_rows(table: Table, document: TableDocument, where: str) -> TableDocument:
    """Return the document with the watermarks of the rows that the table has.

    They are those of our newest snapshot among the current snapshot and its ancestors.
    """
    newest = table.properties.get(NEWEST)
    if newest is None:  # no snapshot of ours yet, or of an earlier version
        return document
    least = int(table.properties[SEQUENCE])
    sequence = least
    snapshot = table.current_snapshot()
    while snapshot is not None:
        summary = snapshot.summary
        found = None if summary is None else summary.get(COMMIT)
        if found == newest:
            return document
        if summary is not None and found is not None:
            text = summary.get(PROPERTY)
            if text is None:
                raise rows_of_unknown_commit(
                    where, document, "the document of that commit was too long to store"
                )
            return with_rows_of(document, TableDocument.parse(json.loads(text), where), where)
        sequence = snapshot.sequence_number or 0
        parent = snapshot.parent_snapshot_id
        snapshot = None if parent is None else table.snapshot_by_id(parent)
        if snapshot is None and parent is not None and sequence >= least:
            return document  # ours was compacted, and has expired
    raise rows_of_unknown_commit(where, document, "no older snapshot of rmqcore is left")


def _commit(table: Table, out: Folder, change: TableChange) -> None:
    from pyiceberg.expressions import AlwaysTrue

    paths: list[Any] = [str(out.path / file.place) for file in change.files]
    number = str(change.document.commit)
    properties = {PROPERTY: change.document.encode()}
    deletes = change.replaces and table.current_snapshot() is not None
    if paths or deletes:
        properties |= {
            NEWEST: number if paths else f"{number} emptied",
            SEQUENCE: str(getattr(table.metadata, "last_sequence_number", 0) + 1),
        }
    with table.transaction() as transaction:
        if deletes:
            emptied = _summary(f"{number} emptied", replace(change.document, watermarks={}))
            transaction.delete(AlwaysTrue(), snapshot_properties=emptied)
        if paths:
            transaction.add_files(paths, snapshot_properties=_summary(number, change.document))
        transaction.set_properties(properties)


def _summary(commit: str, document: TableDocument) -> dict[str, str]:
    """Return the summary of a snapshot. A long document is left out: the table would keep it once for each snapshot."""
    text = document.encode()
    return {COMMIT: commit} | ({PROPERTY: text} if len(text) <= LONGEST_KEPT else {})
