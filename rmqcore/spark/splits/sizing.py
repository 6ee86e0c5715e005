"""How finely files are cut."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from rmqcore.spark.splits.split import DEFAULT_MAX_RECORD_SIZE

SplitMode = Literal["auto", "resync", "walk"]
MIB = 1024 * 1024
LEAST_SPLIT = MIB
"""The smallest split that `Sizing.min_partitions` causes: the task costs more than reading the split."""

FAIR_SPLIT = 8 * MIB
"""The smallest split that `Sizing.parallelism` causes: a task costs 16 ms, and reading 8 MiB in all columns some 50 ms."""


@dataclass(frozen=True)
class Sizing:
    """How finely files are cut; see the options of the same names.

    Attributes
    ----------
    max_partition_bytes : int
        No split is larger, except the last split of a file.
    min_partitions : int
        Wanted number of splits of all stores together; a hint.
    split_mode : {"auto", "resync", "walk"}
        ``resync``: a split's task finds its start from the bytes around its boundary, and reads nothing if they do not
        prove a start: then the task before reads the split too (`rmqcore.spark.reading.settle`). The file in which the
        log ends, and 16 times `max_record_size` before the end of every other file, are not cut. ``walk``: the planner
        walks each file to find records at which it can be cut. ``auto``: resync, and a walk of the files for which that
        saves time (`rmqcore.spark.splits.worth_walking`); in the file in which the log ends the walk stops at the first
        place that is not a record.
    max_record_size : int
        No record is longer, in bytes.
    parallelism : int
        Number of tasks that run at once: splits are cut small enough to keep all of them busy.
    """

    max_partition_bytes: int = 128 * MIB
    min_partitions: int = 1
    split_mode: SplitMode = "auto"
    max_record_size: int = DEFAULT_MAX_RECORD_SIZE
    parallelism: int = 1

    def for_bytes(self, byte_count: int) -> Sizing:
        """Return a sizing with splits small enough for `min_partitions` in `byte_count` bytes, and one per parallel task.

        Not below 1 MiB for `min_partitions`, except with exact cuts, nor below 8 MiB for `parallelism`. `byte_count` is
        the sum over all stores.
        """
        least = 1 if self.split_mode == "walk" else LEAST_SPLIT
        most = min(
            self.max_partition_bytes,
            max(least, -(-byte_count // self.min_partitions)),
            max(FAIR_SPLIT, -(-byte_count // self.parallelism)),
        )
        return replace(self, max_partition_bytes=most, min_partitions=1, parallelism=1)
