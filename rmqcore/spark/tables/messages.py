"""Table ``messages``: a row for each message."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

from rmqcore.offline.log.damage import DamageRange
from rmqcore.spark.options.source_options import SourceOptions
from rmqcore.spark.output.damage_folder import note_damage
from rmqcore.spark.output.job_folder import check_outside, local_folder
from rmqcore.spark.reading.read_split import LOSSES, check_damage, read_split
from rmqcore.spark.rows.columns import Column
from rmqcore.spark.rows.conditions import conditions_of
from rmqcore.spark.rows.pushdown import take_filters
from rmqcore.spark.tables.queue_starts import check_queue_starts
from rmqcore.spark.tables.scan_table import ScanPart, ScanRead


class MessagesRead(ScanRead):
    """A read of ``messages``."""

    def __init__(self, options: SourceOptions, columns: tuple[Column, ...]) -> None:
        super().__init__(options, columns)
        for name, given, never in (
            ("startingOffsets", options.starting_offsets, "latest"),
            ("endingOffsets", options.ending_offsets, "earliest"),
        ):
            if given == never:
                raise ValueError(
                    f"option {name}: {never!r} matches nothing in a batch read; it is for streams"
                )
        if options.damage_folder is not None:
            check_outside(local_folder(options.damage_folder), self.stores, ())
        self._keep(take_filters(options.filters).brokers)

    def push_filters(self, filters: list[Any]) -> list[Any]:
        """Accept the filters that the native scan can test; return the others."""
        taken = take_filters(filters)
        self.pushed = taken.conditions
        self._keep(taken.brokers)
        return taken.left

    def _keep(self, brokers: frozenset[str] | None) -> None:
        """Read only these stores; None for all."""
        if brokers is not None:
            self.stores = [store for store in self.stores if store.broker in brokers]

    def planned_parts(self) -> list[ScanPart]:
        """Return parts of splits; raise if the options make missing files or beginnings of queues an error."""
        check_queue_starts(self.options, self.stores)
        plans = self.plans()
        for plan in plans:
            broker = plan.location.broker
            wanted = conditions_of(self.options, broker).and_also(self.pushed)
            plan.location.warn_of_elsewhere(wanted.topics)
            gaps = [gap for gap in plan.gaps if wanted.overlaps(gap)]
            for gap in gaps:
                check_damage(gap, broker, self.options)
                self._warn(gap, broker)
            if self.options.damage_folder is not None:
                note_damage(self.options.damage_folder, broker, gaps)
        return [part for part in self.parts_of(plans) if part.splits]

    def _warn(self, gap: DamageRange, broker: str) -> None:
        """Warn on the driver of a gap in the rows; the table ``corrupt`` has it too."""
        if gap.kind in LOSSES:
            what = f"{gap.expected} is missing" if gap.kind == "missing_file" else str(gap)
            warnings.warn(
                f"store {broker}: {what}: no rows of CommitLog offsets {gap.start_phy_offset} to "
                f"{gap.end_phy_offset} (failOnDataLoss=false)",
                stacklevel=2,
            )

    def read(self, part: ScanPart) -> Iterator[Any]:
        """Read the splits one after the other."""
        for split in part.splits:
            yield from read_split(split, self.columns, self.options, self.pushed)
