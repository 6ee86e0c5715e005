"""``readStream`` of the data source: what Spark asks of a stream, answered by `rmqcore.spark.stream_follower`.

Spark keeps one such reader in a process of its own as long as a query runs, and sends copies of it to the tasks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from rmqcore.spark.locations import find_stores
from rmqcore.spark.option_values import QueueOffsets
from rmqcore.spark.options import SourceOptions
from rmqcore.spark.reading import read_split
from rmqcore.spark.schema import columns_of_schema
from rmqcore.spark.splits import Split
from rmqcore.spark.stream_follower import StreamFollower
from rmqcore.spark.stream_limits import Allowance
from rmqcore.spark.stream_offsets import StreamOffset
from rmqcore.spark.stream_options import (  # fmt: skip
    check_stream_options,
    first_queue_offsets,
    stream_rules,
    stream_start,
)

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
        """Stands in for the class of the same name, which Spark does not ask for yet."""


if TYPE_CHECKING:
    from pyspark.sql.types import StructType


class StreamPartition(InputPartition):
    """What one task of a batch reads.

    Parameters
    ----------
    split : Split
    queues : dict
        As `StreamOffset.queues`.
    """

    def __init__(self, split: Split, queues: QueueOffsets) -> None:
        super().__init__(split)
        self.split = split
        self.queues = queues


class RmqStoreStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Follows stores; see ``docs/spark-streaming.md``.

    Parameters
    ----------
    schema : StructType
        Columns that Spark wants.
    options : SourceOptions or mapping of str to str

    Raises
    ------
    ValueError
        An option that has no meaning for a stream, or a wrong value; a schema that does not fit.
    """

    def __init__(self, schema: StructType, options: SourceOptions | Mapping[str, str]) -> None:
        if not isinstance(options, SourceOptions):
            options = SourceOptions.parse(options)
        check_stream_options(options, has_limits=HAS_LIMITS)
        self._options = options
        self._columns = columns_of_schema(schema, options)
        # Where a stream begins is in its offsets; a task that asked the options would leave out what is before it.
        self._task_options = replace(
            options, starting_timestamp=None, starting_phy_offset=None, starting_offsets="earliest"
        )
        self._follower: StreamFollower | None = None

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_follower": None}

    # ---- offsets ------------------------------------------------------------------------------------

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """Where a new stream begins."""
        queues = first_queue_offsets(self._options, self._find())
        return StreamOffset(self._follow().initial(), queues).as_dict()

    def latestOffset(  # noqa: N802
        self, start: Mapping[str, Any] | None = None, limit: ReadLimit | None = None
    ) -> dict[str, Any]:
        """Where the batch that begins at `start` ends. Before PySpark 4.2 Spark gives neither: what there is now."""
        if start is None:
            return StreamOffset(self._follow().look()).as_dict()
        begin = StreamOffset.parse(start)
        return replace(
            begin, stores=self._follow().latest(begin.stores, self._allowance(limit))
        ).as_dict()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """One of the two limits: Spark takes no more. The other one is applied with it."""
        if self._options.max_records_per_trigger is not None:
            return ReadMaxRows(self._options.max_records_per_trigger)
        if self._options.max_bytes_per_trigger is not None:
            return ReadMaxBytes(self._options.max_bytes_per_trigger)
        return ReadAllAvailable()

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        """Where the logs ended at the last look, for the query's progress."""
        ends = self._follow().ends()
        return StreamOffset(ends).as_dict() if ends else None

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Remember where the logs end: the query stops there."""
        self._follow().stop_at_present_end()

    def _allowance(self, limit: ReadLimit | None) -> Allowance:
        """What Spark allows. ReadAllAvailable, as of Trigger.Once, goes before the options."""
        if isinstance(limit, ReadMaxRows):
            return Allowance(limit.max_rows, self._options.max_bytes_per_trigger)
        if isinstance(limit, ReadMaxBytes):
            return Allowance(self._options.max_records_per_trigger, limit.max_bytes)
        return Allowance()

    # ---- rows ---------------------------------------------------------------------------------------

    def partitions(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> list[InputPartition]:
        """The splits of a batch; of one that an earlier process planned, too."""
        begin, until = StreamOffset.parse(start), StreamOffset.parse(end)
        splits = self._follow().splits(begin.stores, until.stores, self._options.sizing())
        return [StreamPartition(split, begin.queues) for split in splits]

    def read(self, partition: InputPartition | None) -> Iterator[Any]:
        """The rows of a split as ``pyarrow.RecordBatch``; runs in a task."""
        if isinstance(partition, StreamPartition):
            options = replace(self._task_options, starting_offsets=partition.queues or "earliest")
            yield from read_split(partition.split, self._columns, options)

    # ---- stores -------------------------------------------------------------------------------------

    def _find(self) -> Any:
        return find_stores(self._options.path, dict(self._options.storage))

    def _follow(self) -> StreamFollower:
        if self._follower is None:
            self._follower = StreamFollower(
                self._find, stream_start(self._options), stream_rules(self._options)
            )
        return self._follower
