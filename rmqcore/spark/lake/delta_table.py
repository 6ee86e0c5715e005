"""The log of a Delta table: files and watermark in one commit.

A Delta commit can store the progress of an application as one number (``txn``), which stays in the table's state
through checkpoints and other writers' commits. Ours is the number of our commit with a hash of the table's document,
which is written to disk under that name before the commit. The number grows with each commit, as other programs expect.
"""

from __future__ import annotations

import hashlib
import json
import re
from datetime import UTC, datetime
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from rmqcore.disk.inside.folder import Folder
from rmqcore.errors import StoreFormatError, TargetNotEmptyError
from rmqcore.offline.export.partitions import partition_folder
from rmqcore.spark.lake.document import TableDocument, TableFormat
from rmqcore.spark.lake.table_log import (
    TableChange,
    TableFile,
    check_columns,
    rows_of_unknown_commit,
    with_rows_of,
)
from rmqcore.spark.output.export_folder import TABLE
from rmqcore.spark.rows.schema import arrow_schema, columns_named

if TYPE_CHECKING:
    from deltalake import DeltaTable, Schema
    from deltalake.transaction import AddAction

APP_ID = "rmqcore"
PARTITION = "day"
RESTORE = "RESTORE"
_HASH = (1 << 40) - 1
"""The bits of an application's number that are the document's hash; those above are the number of the commit."""
_ESCAPE = re.compile("%[0-9a-fA-F]{2}")
_UNKNOWN_DAY = -1
_LONGEST_BOUND = 256
"""The longest topic, in bytes, that is written as the least and greatest value of its files."""


class DeltaLog:
    """A Delta table in the folder; see `TableLog`."""

    format: TableFormat = "delta"

    def read(self, out: Folder, *, anew: bool = False) -> TableDocument | None:
        """Return the document of the table; None if the folder holds no table; see `TableLog`.

        Raises
        ------
        TargetNotEmptyError
            Another program made the table.
        StoreFormatError
            The document is missing, or its hash differs from the log's.
        ValueError
            deltalake would read the folder's path as another path.
        """
        from deltalake import DeltaTable

        if _ESCAPE.search(str(out.path)):
            raise ValueError(
                f"out={str(out.path)!r}: deltalake decodes % and two hex digits: use a directory "
                "name without them"
            )
        if not DeltaTable.is_deltatable(str(out.path)):
            return None
        table = DeltaTable(str(out.path))
        number = table.transaction_version(APP_ID)
        if number is None:
            raise TargetNotEmptyError(f"{out.path} is a Delta table that rmqcore did not create")
        place = _document_place(number)
        try:
            data = out.read(place)
        except FileNotFoundError:
            raise StoreFormatError(
                f"{out.path / place} is missing, which records how far the log was exported: "
                "restore it; nothing was changed"
            ) from None
        document = None
        if _hash_of(data) == number & _HASH:
            document = TableDocument.parse(json.loads(data), str(out.path / place))
        if document is None or _number_of(document) != number:
            raise StoreFormatError(f"{out.path / place} was changed since it was written")
        check_columns(document, _column_names(table), str(out.path))
        return document if anew else _of_rows(table, document, str(out.path))

    def commit(self, out: Folder, change: TableChange) -> None:
        """Commit files that are in their places, with the document; do nothing if the commit was done before."""
        from deltalake import CommitProperties, DeltaTable, Transaction
        from deltalake.transaction import create_table_with_add_actions

        number = _number_of(change.document)
        out.make(TABLE, exist_ok=True)
        out.write(_document_place(number), change.document.encode().encode())
        properties = CommitProperties(
            custom_metadata={APP_ID: change.document.encode()},
            app_transactions=[Transaction(APP_ID, number)],
        )
        schema = _schema(change.document)
        actions = [_add_action(file) for file in change.files]
        if not DeltaTable.is_deltatable(str(out.path)):
            create_table_with_add_actions(
                str(out.path),
                schema,
                actions,
                partition_by=[PARTITION],
                commit_properties=properties,
            )
        else:
            table = DeltaTable(str(out.path))
            if table.transaction_version(APP_ID) != number:
                check_columns(change.document, _column_names(table), str(out.path))
                table.create_write_transaction(
                    list(actions),
                    "overwrite" if change.replaces else "append",
                    schema,
                    [PARTITION],
                    commit_properties=properties,
                )
        for name in out.folder(TABLE).names():
            place = f"{TABLE}/{name}"
            if name.startswith("watermark-") and place != _document_place(number):
                out.delete(place)


def _column_names(table: DeltaTable) -> list[str]:
    return [field.name for field in table.schema().fields]


def _of_rows(table: DeltaTable, document: TableDocument, where: str) -> TableDocument:
    """Return the document with the watermarks of the rows that the table has.

    RESTORE brings back the files of an older version, and leaves the application's number unchanged. Each of our
    commits has its document in its metadata: the document of the restored version is returned.
    """
    if RESTORE not in _operations_since_ours(table):
        return document
    commits = {commit["version"]: commit for commit in table.history()}
    version: int | None = table.version()
    while version in commits:
        commit = commits[version]
        if APP_ID in commit:
            found = TableDocument.parse(json.loads(commit[APP_ID]), f"version {version} of {where}")
            return (
                document
                if found.commit == document.commit
                else with_rows_of(document, found, where)
            )
        version = _version_before(commit)
    raise rows_of_unknown_commit(where, document, "its log does not name the version")


def _operations_since_ours(table: DeltaTable) -> set[str | None]:
    """Return the operations of the commits behind our newest commit; reads the whole history only if that is far back."""
    limit = 16
    while True:
        commits = table.history(limit)
        since = list(takewhile(lambda commit: APP_ID not in commit, commits))
        if len(since) < len(commits) or len(commits) < limit:
            return {commit.get("operation") for commit in since}
        limit *= 8


def _version_before(commit: dict[str, Any]) -> int | None:
    """Return the version whose rows a foreign commit continues; None if a RESTORE does not name its version."""
    if commit.get("operation") != RESTORE:
        return int(commit["version"]) - 1
    version = commit.get("operationParameters", {}).get("version")
    return int(version) if str(version).isdecimal() else None


def _number_of(document: TableDocument) -> int:
    return document.commit << _HASH.bit_length() | _hash_of(document.encode().encode())


def _hash_of(data: bytes) -> int:
    return int.from_bytes(hashlib.sha256(data).digest()[:8], "big") & _HASH


def _document_place(number: int) -> str:
    return f"{TABLE}/watermark-{number:016x}.json"


def _schema(document: TableDocument) -> Schema:
    import pyarrow as pa
    from deltalake import Schema

    columns = arrow_schema(columns_named(document.settings["columns"]))
    return Schema.from_arrow(columns.append(pa.field(PARTITION, pa.date32())))


def _add_action(file: TableFile) -> AddAction:
    from deltalake.transaction import AddAction

    day = partition_folder("", file.day).rpartition("=")[2]
    return AddAction(
        file.place,
        file.byte_count,
        {PARTITION: None if file.day == _UNKNOWN_DAY else day},
        int(datetime.now(UTC).timestamp() * 1000),
        data_change=True,
        stats=json.dumps(_stats(file)),
    )


def _stats(file: TableFile) -> dict[str, Any]:
    """Return the statistics by which readers skip files. Our times are whole milliseconds, as those of a Delta log."""
    least: dict[str, Any] = {}
    greatest: dict[str, Any] = {}
    for name, (low, high) in file.bounds.items():
        is_time = name == "store_timestamp"
        if is_time and file.day == _UNKNOWN_DAY:  # times outside of the calendar
            continue
        least[name] = _time_text(low) if is_time else low
        greatest[name] = _time_text(high) if is_time else high
    if len(file.topic.encode()) <= _LONGEST_BOUND:
        least["topic"] = greatest["topic"] = file.topic
    return {
        "numRecords": file.rows,
        "minValues": least,
        "maxValues": greatest,
        "nullCount": dict.fromkeys(least, 0),
    }


def _time_text(time_us: int) -> str:
    whole_ms = time_us // 1000
    return (
        datetime.fromtimestamp(whole_ms // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S")
        + f".{whole_ms % 1000:03}Z"
    )
