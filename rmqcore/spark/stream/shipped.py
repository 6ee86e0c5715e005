"""The stream reader that Spark calls, pickles and sends to its Python workers, together with its code.

It works like the readers in `rmqcore.spark.source.shipped`, but Spark keeps it, in a process of its own, while a query
runs.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from rmqcore.spark.runtime.shipping import read_partition
from rmqcore.vocabulary.units import LONG_MAX

try:
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadLimit,
        ReadMaxBytes,
        ReadMaxRows,
        SupportsTriggerAvailableNow,
    )

    HAS_LIMITS = True
except ImportError:  # before PySpark 4.2
    HAS_LIMITS = False

    class SupportsTriggerAvailableNow:  # type: ignore[no-redef]
        """Replaces the class of this name, which this PySpark lacks and does not look for."""


NO_LIMIT = LONG_MAX
"""More bytes than a log can have."""

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from rmqcore.spark.options.source_options import SourceOptions
    from rmqcore.spark.stream.limits import Allowance


class ShippedStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc, unused-ignore]
    """Holds a `rmqcore.spark.stream.stream_read.StreamRead` on the driver, and its pickled bytes in a task."""

    sent: bytes
    """The pickled stream; only a reader in a worker has it."""

    def __init__(self, stream: Any) -> None:
        self._given = stream

    @property
    def _stream(self) -> Any:
        return self._given

    def __getstate__(self) -> dict[str, Any]:
        return {"sent": pickle.dumps(self._stream)}

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Return where a new stream begins."""
        return self._stream.initial()  # type: ignore[no-any-return]

    def latestOffset(  # noqa: N802 - Spark's name
        self, start: dict[str, Any] | None = None, limit: ReadLimit | None = None
    ) -> dict[str, Any]:
        """Return where the batch from `start` ends; without arguments (PySpark before 4.2) where the logs end now."""
        if start is None:
            return self._stream.present()  # type: ignore[no-any-return]
        once = isinstance(limit, ReadAllAvailable)
        return self._stream.latest(start, self._allowance(limit), once=once)  # type: ignore[no-any-return]

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """Return the limit on records, else the limit on bytes: Spark accepts only one. `latestOffset` applies the other too.

        Without limits return one that no batch reaches: then only Trigger.Once passes ReadAllAvailable.
        """
        options = self._stream.options
        if options.max_records_per_trigger is not None:
            return ReadMaxRows(options.max_records_per_trigger)
        if options.max_bytes_per_trigger is not None:
            return ReadMaxBytes(options.max_bytes_per_trigger)
        return ReadMaxBytes(NO_LIMIT)

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802 - Spark's name
        """Return where the logs ended at the last look."""
        return self._stream.seen()  # type: ignore[no-any-return]

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Note where the logs end now: the query stops there."""
        self._stream.stop_at_present_end()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """Return the parts of a batch, a partition for each."""
        return [InputPartition(pickle.dumps(part)) for part in self._stream.parts(start, end)]

    def read(self, partition: InputPartition | None) -> Iterator[Any]:
        """Return the rows of a part."""
        return read_partition(self.sent, partition)

    def _allowance(self, limit: ReadLimit | None) -> Allowance:
        """Return the limit by Spark and the options; with ReadAllAvailable (Trigger.Once) the options are ignored."""
        from rmqcore.spark.stream.limits import Allowance

        options = self._stream.options
        if isinstance(limit, ReadMaxRows):
            return Allowance(limit.max_rows, options.max_bytes_per_trigger)
        if isinstance(limit, ReadMaxBytes) and limit.max_bytes != NO_LIMIT:
            return Allowance(options.max_records_per_trigger, limit.max_bytes)
        return Allowance()


class RefusedStream(ShippedStreamReader):
    """A stream that cannot begin: every call by Spark raises its error.

    ``streamReader`` must not raise the error itself: Spark's runner would bury it under an UnboundLocalError of its own.
    """

    def __init__(self, error: Exception) -> None:
        self._error = error

    @property
    def _stream(self) -> Any:
        raise self._error


def stream_reader(schema: StructType, options: SourceOptions) -> ShippedStreamReader:
    """Return the reader of a new stream.

    Raises
    ------
    ValueError
        An option has no meaning for a stream, or the schema does not fit.
    """
    from rmqcore.spark.rows.schema import columns_of_schema
    from rmqcore.spark.runtime.shipping import send_code_along
    from rmqcore.spark.stream.stream_options import check_stream_options
    from rmqcore.spark.stream.stream_read import StreamRead

    check_stream_options(options, has_limits=HAS_LIMITS)
    send_code_along(__name__)
    return ShippedStreamReader(StreamRead(options, columns_of_schema(schema, options)))
