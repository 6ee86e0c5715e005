"""Tables that walk the CommitLog: how their splits become tasks, and what fails before one starts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from rmqcore.errors import DataLossError
from rmqcore.offline.damage import DamageRange
from rmqcore.spark.conditions import Conditions
from rmqcore.spark.options import SourceOptions
from rmqcore.spark.planning import Sizing, SplitPlan, plan_store
from rmqcore.spark.splits import Split
from rmqcore.spark.store_location import StoreLocation
from rmqcore.spark.table import TableRead, check_brokers
from rmqcore.spark.table_columns import Column


@dataclass(frozen=True)
class ScanPart:
    """What one task reads: splits of one store, and damage that the plan found between its files."""

    broker: str
    splits: tuple[Split, ...]
    gaps: tuple[DamageRange, ...] = ()


class ScanRead(TableRead):
    """A read of ``messages`` or ``corrupt``.

    Attributes
    ----------
    pushed : Conditions
        From filters of Spark.
    """

    def __init__(self, options: SourceOptions, columns: tuple[Column, ...]) -> None:
        super().__init__(options, columns)
        self.pushed = Conditions()
        self._check_options()

    def plans(self) -> list[SplitPlan]:
        """One for each store.

        Raises
        ------
        DataLossError
            The option startingPhyOffset lies before a store's first file, with failOnDataLoss.
        """
        sizing = self._sizing()
        return [self._plan(store, sizing) for store in self.stores]

    def parts_of(self, plans: list[SplitPlan]) -> list[ScanPart]:
        """Tasks of about equal bytes: small files share one."""
        total = sum(split.byte_count for plan in plans for split in plan.splits)
        most_bytes = self.options.sizing().for_bytes(total).max_partition_bytes
        parts = []
        for plan in plans:
            broker = plan.location.broker
            if plan.gaps:
                parts.append(ScanPart(broker, (), tuple(plan.gaps)))
            parts += [ScanPart(broker, splits) for splits in packed(plan.splits, most_bytes)]
        return parts

    def _sizing(self) -> Sizing:
        sizing = self.options.sizing()
        if self.options.min_partitions > 1 and len(self.stores) > 1:
            return sizing.for_bytes(
                sum(file.size for store in self.stores for file in store.log_files())
            )
        return sizing

    def _plan(self, store: StoreLocation, sizing: Sizing) -> SplitPlan:
        wanted = Conditions.of(self.options, store.broker).and_also(self.pushed)
        self._check_start(store)
        return plan_store(store, sizing, wanted.span(self.options.max_clock_step_ms))

    def _check_start(self, store: StoreLocation) -> None:
        start = self.options.span(store.broker).start_phy_offset
        if start is None or not self.options.fail_on_data_loss:
            return
        files = store.log_files()
        if not files or start < files[0].file_from_offset:
            available = files[0].file_from_offset if files else None
            raise DataLossError(store.broker, start, available, "its file was deleted")

    def _check_options(self) -> None:
        options = self.options
        for name, given in (
            ("startingPhyOffset", options.starting_phy_offset),
            ("endingPhyOffset", options.ending_phy_offset),
        ):
            if isinstance(given, dict):
                check_brokers(self.stores, given, name)


def packed(splits: Iterable[Split], most_bytes: int) -> Iterator[tuple[Split, ...]]:
    """Neighbours together up to so many bytes; one alone may have more."""
    group: list[Split] = []
    byte_count = 0
    for split in splits:
        if group and byte_count + split.byte_count > most_bytes:
            yield tuple(group)
            group, byte_count = [], 0
        group.append(split)
        byte_count += split.byte_count
    if group:
        yield tuple(group)
