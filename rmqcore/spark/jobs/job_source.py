"""The source of a job: stores that are cut into splits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rmqcore.offline.log.damage import DamageList, DamageRange
from rmqcore.spark.options.source_options import SourceOptions, Table, texts_of
from rmqcore.spark.reading.store_end import pin_stores
from rmqcore.spark.splits.planning import SplitPlan, plan_stores
from rmqcore.spark.splits.split import Split
from rmqcore.spark.storage.locations import Paths, StoreLocation

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MOST_SENT = 1000
"""Damaged ranges that a task sends to the driver for one split; the driver holds those of all splits at once."""


@dataclass(frozen=True)
class JobSource:
    """Stores and options of a job, checked before anything runs.

    Attributes
    ----------
    options : SourceOptions
    stores : list of StoreLocation
    """

    options: SourceOptions
    stores: list[StoreLocation]

    @classmethod
    def open(
        cls,
        paths: Paths,
        options: Mapping[str, Any],
        table: Table = "messages",
        *,
        spark: SparkSession | None = None,
    ) -> JobSource:
        """Check options and find the stores.

        Parameters
        ----------
        paths, options, table
            Of the data source.
        spark : SparkSession, optional
            The session that runs the job. Its number of parallel tasks decides how finely files are cut.

        Raises
        ------
        ValueError
            An option is wrong, or has no meaning for this table of the data source.
        NotAStoreError, FileNotFoundError, NotADirectoryError
            See `find_stores`.
        """
        parsed = SourceOptions.parse({"table": table, **texts_of(options)}).in_session(spark)
        if parsed.damage_folder is not None:
            raise ValueError(
                "option damageFolder only applies to rmqcore.spark.read: use run_audit to find "
                "damage in a job"
            )
        stores = parsed.stores(paths)
        for store in stores:
            store.warn_of_elsewhere(parsed.topics)
        return cls(parsed, stores)

    def plans(self) -> list[SplitPlan]:
        """Plan the splits of each store as it is now; `minPartitions` counts the splits of all stores together."""
        sizing = self.options.sizing()
        pinned = pin_stores(self.stores, sizing)
        return plan_stores([(store, self.options.span(store.broker)) for store in pinned], sizing)

    def splits(self) -> list[Split]:
        """Return the splits of all stores."""
        return [split for plan in self.plans() for split in plan.splits]


def to_send(damage: Iterable[DamageRange]) -> tuple[DamageRange, ...]:
    """Return the damage of a split as a task sends it to the driver: at most 1,000 ranges, and one that counts the others.

    The range of a missing file comes first, because the driver looks for it.
    """
    kept = DamageList(MOST_SENT)
    kept += sorted(damage, key=lambda found: found.kind != "missing_file")
    return tuple(kept)


def with_gaps(
    plans: Sequence[SplitPlan], damage: Iterable[tuple[str, DamageRange]]
) -> list[tuple[str, DamageRange]]:
    """Return the damage that tasks found and the gaps that the plans found, each with its broker, by store and offset."""
    order = {plan.location.broker: number for number, plan in enumerate(plans)}
    gaps = [(plan.location.broker, gap) for plan in plans for gap in plan.gaps]
    return sorted([*damage, *gaps], key=lambda pair: (order[pair[0]], pair[1].start_phy_offset))
