"""The readers that Spark pickles and sends to its Python workers, their code along with them.

See `rmqcore.spark.shipped_map`, from which the workers take the function that reads.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import Any

from pyspark.sql.datasource import DataSourceReader, InputPartition

from rmqcore.spark.shipped_map import read_sent


class ShippedReader(DataSourceReader):  # type: ignore[misc, unused-ignore]
    """A reader of one table: a `rmqcore.spark.table.TableRead` on the driver, its bytes on the way to a task."""

    sent: bytes
    """The table in a worker."""

    def __init__(self, table: Any) -> None:
        self._table = table

    def __getstate__(self) -> dict[str, Any]:
        return {"sent": pickle.dumps(self._table)}

    def partitions(self) -> list[InputPartition]:
        """One for each part of the table; Spark insists on a list."""
        try:
            parts = self._table.parts()
        except Exception as error:  # noqa: BLE001 - raised again
            # Without the calls that led to it: Spark prints all of those before the one line that says what is wrong.
            raise error.with_traceback(None) from None
        return [InputPartition(pickle.dumps(part)) for part in parts]

    def read(self, partition: InputPartition | None) -> Iterator[Any]:
        """Give the rows of a part. Without any part Spark still asks once, with nothing."""
        if partition is None or partition.value is None:
            return iter(())
        return read_sent(self.sent, partition.value)


class ShippedPushingReader(ShippedReader):
    """Also takes filters. A class of its own: Spark refuses one that merely could, while its setting is off."""

    def pushFilters(self, filters: list[Any]) -> list[Any]:  # noqa: N802 - Spark's name
        """Answer the filters that Spark must apply."""
        return self._table.push_filters(filters)  # type: ignore[no-any-return]
