"""Tables of the Spark source read without Spark: planned here, each part pickled and read as a task would."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

from support.spark.spark_rows import Row

from rmqcore.spark.options.source_options import SourceOptions, texts_of
from rmqcore.spark.rows.schema import arrow_schema, columns_of
from rmqcore.spark.tables.table import TableRead
from rmqcore.spark.tables.tables import open_table

Paths = Path | list[Path] | str


def table_of(path: Paths, **options: object) -> TableRead:
    given = [str(one) for one in path] if isinstance(path, list) else str(path)
    parsed = SourceOptions.parse(texts_of({**options, "path": given}))
    return open_table(parsed, columns_of(parsed))


def read_table(path: Paths, **options: object) -> list[Row]:
    return rows_of(table_of(path, **options))


def rows_of(table: TableRead) -> list[Row]:
    rows: list[Row] = []
    sent = pickle.dumps(table)
    for part in table.parts():
        worker: Any = pickle.loads(sent)
        for batch in worker.read(pickle.loads(pickle.dumps(part))):
            assert batch.schema.equals(arrow_schema(table.columns))
            assert 0 < batch.num_rows <= table.options.batch_rows
            batch.validate(full=True)
            rows += batch.to_pylist()
    return rows
