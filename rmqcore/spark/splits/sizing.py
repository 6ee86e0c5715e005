"""How finely files are cut."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from rmqcore.spark.splits.split import DEFAULT_MAX_RECORD_SIZE

SplitMode = Literal["auto", "resync", "walk"]
MIB = 1024 * 1024
LEAST_SPLIT = MIB
"""`Sizing.min_partitions` asks for no smaller split than this: a task costs more than reading it."""

FAIR_SPLIT = 8 * MIB
"""`Sizing.parallelism` asks for no smaller split than this: a task costs 16 ms, and some 50 to read so much in all columns."""


@dataclass(frozen=True)
class Sizing:
    """How finely files are cut; see the options of the same names.

    Attributes
    ----------
    max_partition_bytes : int
        No split has more, but for those that end a file.
    min_partitions : int
        Wanted in all; a hint.
    split_mode : {"auto", "resync", "walk"}
        ``resync``: a split's task tells from the bytes around its boundary where it begins, and reads nothing where they do not
        tell: then the task before reads on (`rmqcore.spark.reading.settle`). The file in which the log ends, and 16 times
        `max_record_size` before the end of every other file, are not cut. ``walk``:
        the planner walks each file to find records where it can be cut. ``auto``: resync, and a walk where that takes less
        time than it saves (`rmqcore.spark.splits.worth_walking`); in the file in which the log ends it goes to the first place
        that is not a record.
    max_record_size : int
        No record is longer, in bytes.
    parallelism : int
        So many tasks run at once: nobody should be idle while there is enough to read.
    """

    max_partition_bytes: int = 128 * MIB
    min_partitions: int = 1
    split_mode: SplitMode = "auto"
    max_record_size: int = DEFAULT_MAX_RECORD_SIZE
    parallelism: int = 1

    def for_bytes(self, byte_count: int) -> Sizing:
        """With splits so small that there are `min_partitions` of them in so many bytes, and one for each task at once.

        Not below 1 MiB for `min_partitions`, unless exact cuts are asked for, nor below 8 MiB for `parallelism`; with several
        stores give the bytes of all of them.
        """
        least = 1 if self.split_mode == "walk" else LEAST_SPLIT
        most = min(
            self.max_partition_bytes,
            max(least, -(-byte_count // self.min_partitions)),
            max(FAIR_SPLIT, -(-byte_count // self.parallelism)),
        )
        return replace(self, max_partition_bytes=most, min_partitions=1, parallelism=1)
