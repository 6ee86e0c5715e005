"""The manifest of a table of Parquet files: its document, and the files that count."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from rmqcore.disk.inside.folder import Folder
from rmqcore.errors import StoreFormatError, TargetNotEmptyError
from rmqcore.spark.lake.document import TableDocument
from rmqcore.spark.lake.table_log import TableFile
from rmqcore.spark.output.export_folder import MANIFEST, is_part_place


def table_files(out: str | os.PathLike[str]) -> list[str]:
    """Return the paths of the files of a table of Parquet files, by its manifest.

    Raises
    ------
    FileNotFoundError
        The folder does not exist.
    TargetNotEmptyError
        The folder is not a table that `export_table` made.
    """
    with Folder(out) as inside:
        document, files = read_manifest(inside)
        if document is None:
            raise TargetNotEmptyError(f"{out} is not a table of export_table")
        return [str(inside.path / file.place) for file in files]


def manifest_of(document: TableDocument, files: Sequence[TableFile]) -> dict[str, Any]:
    """Return the manifest of a table of Parquet files."""
    return {"version": 3, "table": document.as_dict(), "files": [asdict(file) for file in files]}


def read_manifest(out: Folder) -> tuple[TableDocument | None, list[TableFile]]:
    """Return the document and the files of a table of Parquet files; None if the folder holds no table.

    Raises
    ------
    StoreFormatError
        The manifest is that of a table, and one of its values is invalid.
    """
    where = str(out.path / MANIFEST)
    try:
        found = json.loads(out.read(MANIFEST))
    except FileNotFoundError:
        return None, []
    except ValueError:
        found = None
    if not isinstance(found, dict) or "table" not in found:
        return None, []
    try:
        files = [TableFile(**file) for file in found["files"]]
    except (TypeError, KeyError):
        files = None
    if files is None or not all(is_part_place(file.place) for file in files):
        raise StoreFormatError(
            f"{where}: its files are not those of a table, expected "
            "topic_dir=*/day=*/part-*.parquet each"
        )
    return TableDocument.parse(found["table"], where), files
