"""A stream of messages: plans batches on the driver with `rmqcore.spark.stream.follower`, and reads them in tasks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from rmqcore.spark.options.source_options import SourceOptions
from rmqcore.spark.options.values import QueueOffsets
from rmqcore.spark.reading.read_split import read_split
from rmqcore.spark.rows.columns import Column
from rmqcore.spark.splits.split import Split
from rmqcore.spark.stream.files import warn_once
from rmqcore.spark.stream.follower import StreamFollower
from rmqcore.spark.stream.limits import Allowance
from rmqcore.spark.stream.names import present_names
from rmqcore.spark.stream.offsets import StreamOffset
from rmqcore.spark.stream.stream_options import first_queue_offsets, stream_rules, stream_start
from rmqcore.spark.tables.scan_table import check_named_stores

Offset = Mapping[str, Any]


@dataclass(frozen=True)
class StreamPart:
    """The part of a batch that one task reads; sent to the task by pickle.

    Attributes
    ----------
    split : Split
    queues : dict
        As `StreamOffset.queues`.
    """

    split: Split
    queues: QueueOffsets


class StreamRead:
    """A stream from one or more stores. Offsets are JSON values; see `StreamOffset`.

    On the driver it exists as long as the query runs. Each task receives a copy, which only reads.

    Parameters
    ----------
    options : SourceOptions
        Checked by `rmqcore.spark.stream.stream_options.check_stream_options`.
    columns : tuple of Column
        The wanted columns, in order.
    """

    def __init__(self, options: SourceOptions, columns: tuple[Column, ...]) -> None:
        self.options = options
        self.columns = columns
        # The offsets of a batch define its beginning. With these options a task would leave out further rows.
        self._task_options = replace(
            options, starting_timestamp=None, starting_phy_offset=None, starting_offsets="earliest"
        )
        self._made: StreamFollower | None = None

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_made": None}

    # ---- on the driver ------------------------------------------------------------------------------

    def initial(self) -> dict[str, Any]:
        """Return where a new stream begins."""
        stores = self._find()
        check_named_stores(self.options, stores)
        queues = first_queue_offsets(self.options, stores)
        return self._offset(StreamOffset({}, queues), self._follower.initial())

    def latest(self, start: Offset, allowance: Allowance, *, once: bool = False) -> dict[str, Any]:
        """Return where the batch that begins at `start` ends; see `StreamFollower.latest`."""
        begin = self._under_present_names(start)
        end = self._follower.latest(begin.stores, allowance, once=once, seals=begin.seals)
        return self._offset(begin, end)

    def present(self) -> dict[str, Any]:
        """Return where the logs end now."""
        return self._offset(StreamOffset({}), self._follower.present())

    def seen(self) -> dict[str, Any] | None:
        """Return where the logs ended at the last look, and the damage met, for the query's progress."""
        ends, damage = self._follower.ends(), self._follower.met.report()
        if not ends:
            return None
        return StreamOffset(ends).as_dict() | ({"damage": damage} if damage else {})

    def stop_at_present_end(self) -> None:
        """End all later batches at the present ends of the logs."""
        self._follower.stop_at_present_end()

    def parts(self, start: Offset, end: Offset) -> list[StreamPart]:
        """Return the parts that the tasks of a batch read, for a new batch or one planned by an earlier process."""
        begin, until = self._under_present_names(start), self._under_present_names(end)
        splits = self._follower.splits(
            begin.stores, until.stores, self.options.sizing(), seals=(begin.seals, until.seals)
        )
        return [StreamPart(split, begin.queues) for split in splits]

    def _under_present_names(self, offset: Offset) -> StreamOffset:
        """Return an offset with the present names of its stores; raise ValueError if a name is ambiguous."""
        found = StreamOffset.parse(offset)
        names = present_names(found.names, found.paths, self._follower.stores().values())
        for name, present in names.items():
            if name != present:
                warn_once(f"the store {name} of the checkpoint is named {present} now")
        return found.renamed(names)

    def _offset(self, before: StreamOffset, ends: Mapping[str, int]) -> dict[str, Any]:
        """Return an offset with the ends that the follower has just found, and the paths and seals of the stores."""
        stores = self._follower.stores()
        paths = {name: stores[name].root for name in ends if name in stores}
        return replace(
            before,
            stores=dict(ends),
            paths={**before.paths, **paths},
            seals=dict(self._follower.seals),
        ).as_dict()

    def _find(self) -> Any:
        return self.options.stores()

    @property
    def _follower(self) -> StreamFollower:
        if self._made is None:
            self._made = StreamFollower(
                self._find, stream_start(self.options), stream_rules(self.options)
            )
        return self._made

    # ---- in a task ----------------------------------------------------------------------------------

    def read(self, part: StreamPart) -> Iterator[Any]:
        """Yield the rows of a part as ``pyarrow.RecordBatch``."""
        options = replace(self._task_options, starting_offsets=part.queues or "earliest")
        return read_split(part.split, self.columns, options)
