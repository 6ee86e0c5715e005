"""The readers that Spark pickles and sends to its Python workers, together with their code.

See `rmqcore.spark.runtime.shipping`, which has the function that reads in the workers.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import Any

from pyspark.sql.datasource import DataSourceReader, InputPartition

from rmqcore.spark.runtime.shipping import read_partition


class ShippedReader(DataSourceReader):  # type: ignore[misc, unused-ignore]
    """A reader of one table: holds a `rmqcore.spark.tables.table.TableRead` on the driver, and its pickled bytes in a task."""

    sent: bytes
    """The pickled table; only a reader in a worker has it."""

    def __init__(self, table: Any) -> None:
        self._table = table

    def __getstate__(self) -> dict[str, Any]:
        return {"sent": pickle.dumps(self._table)}

    def partitions(self) -> list[InputPartition]:
        """Return the parts of the table, a partition for each; Spark requires a list."""
        try:
            parts = self._table.parts()
        except Exception as error:  # noqa: BLE001 - raised again
            # Without its traceback, which Spark would print in full before the message.
            raise error.with_traceback(None) from None
        return [InputPartition(pickle.dumps(part)) for part in parts]

    def read(self, partition: InputPartition | None) -> Iterator[Any]:
        """Return the rows of a part."""
        return read_partition(self.sent, partition)


class ShippedPushingReader(ShippedReader):
    """A reader that accepts filters too.

    It is a class of its own because Spark refuses a reader with ``pushFilters`` while
    ``spark.sql.python.filterPushdown.enabled`` is off.
    """

    def pushFilters(self, filters: list[Any]) -> list[Any]:  # noqa: N802 - Spark's name
        """Return the filters that Spark must still apply."""
        return self._table.push_filters(filters)  # type: ignore[no-any-return]
