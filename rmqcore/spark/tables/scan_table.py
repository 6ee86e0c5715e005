"""Tables that walk the CommitLog: the division of their splits into tasks, and the checks before a task starts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from rmqcore.errors import DataLossError
from rmqcore.offline.log.conditions import Conditions
from rmqcore.offline.log.damage import DamageRange
from rmqcore.spark.options.source_options import SourceOptions
from rmqcore.spark.rows.columns import Column
from rmqcore.spark.rows.conditions import conditions_of, span_of
from rmqcore.spark.splits.planning import Span, SplitPlan, plan_stores
from rmqcore.spark.splits.split import Split
from rmqcore.spark.storage.store_location import StoreLocation
from rmqcore.spark.tables.table import TableRead, packed


@dataclass(frozen=True)
class ScanPart:
    """The splits of one store that one task reads, and damage that the plan found between the store's files."""

    broker: str
    splits: tuple[Split, ...]
    gaps: tuple[DamageRange, ...] = ()


class ScanRead(TableRead):
    """A read of ``messages`` or ``corrupt``.

    Attributes
    ----------
    pushed : Conditions
        The filters accepted from Spark.
    """

    def __init__(self, options: SourceOptions, columns: tuple[Column, ...]) -> None:
        super().__init__(options, columns)
        self.pushed = Conditions()
        check_named_stores(options, self.stores)

    def plans(self) -> list[SplitPlan]:
        """Return a plan for each store.

        Raises
        ------
        DataLossError
            failOnDataLoss is on, and the option startingPhyOffset lies before a store's first file.
        """
        return plan_stores([self._wanted(store) for store in self.stores], self.options.sizing())

    def parts_of(self, plans: list[SplitPlan]) -> list[ScanPart]:
        """Return parts of about equal bytes, one per task: small files share a task."""
        parts = []
        for plan in plans:
            broker = plan.location.broker
            if plan.gaps:
                parts.append(ScanPart(broker, (), tuple(plan.gaps)))
            groups = packed(plan.splits, lambda split: split.byte_count, plan.most_bytes)
            parts += [ScanPart(broker, splits) for splits in groups]
        return parts

    def _wanted(self, store: StoreLocation) -> tuple[StoreLocation, Span]:
        wanted = conditions_of(self.options, store.broker).and_also(self.pushed)
        self._check_start(store)
        return store, span_of(wanted, self.options.max_clock_step_ms)

    def _check_start(self, store: StoreLocation) -> None:
        start = self.options.span(store.broker).start_phy_offset
        if start is None or not self.options.fail_on_data_loss:
            return
        files = store.log_files()
        if not files or start < files[0].file_from_offset:
            available = files[0].file_from_offset if files else None
            raise DataLossError(store.broker, start, available, "its file was deleted")


def check_named_stores(options: SourceOptions, stores: list[StoreLocation]) -> None:
    """Raise ValueError if an option sets a beginning or end in a store that is not read."""
    named: list[tuple[str, Iterable[str]]] = [
        (name, given)
        for name, given in (
            ("startingPhyOffset", options.starting_phy_offset),
            ("endingPhyOffset", options.ending_phy_offset),
        )
        if isinstance(given, dict)
    ]
    named += [
        (name, sorted({broker for brokers in given.values() for broker in brokers}))
        for name, given in (
            ("startingOffsets", options.starting_offsets),
            ("endingOffsets", options.ending_offsets),
        )
        if isinstance(given, dict)
    ]
    known = [store.broker for store in stores]
    for name, brokers in named:
        for broker in brokers:
            if broker not in known:
                raise ValueError(
                    f"option {name} names the store {broker}, but path has {', '.join(known)}"
                )
