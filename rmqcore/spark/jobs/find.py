"""Messages by key or id, from several stores at once."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rmqcore.offline.log.conditions import Conditions
from rmqcore.offline.log.damage import DamageWarning
from rmqcore.spark.jobs.find_by_index import FindPlacesTask, Places, find_places
from rmqcore.spark.jobs.find_keys import wanted_rows
from rmqcore.spark.jobs.job_source import JobSource
from rmqcore.spark.options.source_options import SourceOptions
from rmqcore.spark.reading.read_records import read_records
from rmqcore.spark.reading.read_split import read_split
from rmqcore.spark.rows.columns import Column
from rmqcore.spark.rows.conditions import conditions_of
from rmqcore.spark.rows.schema import columns_of, known_columns, spark_schema
from rmqcore.spark.runtime.tasks import run_tasks, task_frame
from rmqcore.spark.splits.split import Split
from rmqcore.spark.storage.locations import StoreLocation

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

MOST_NAMED = 5
"""Places that a warning names."""
_OFFSET_ID = re.compile(r"(?:[0-9A-Fa-f]{32}|[0-9A-Fa-f]{56})")


def find(
    spark: SparkSession,
    paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    *,
    keys: str | Iterable[str] | None = None,
    ids: str | Iterable[str] | None = None,
    topic: str | Iterable[str] | None = None,
    **options: Any,
) -> DataFrame:
    """Return the messages that have one of the keys or ids, from all stores.

    Parameters
    ----------
    spark : SparkSession
    paths : str, path-like or a list of them
    keys : str or iterable of str, optional
        Words of KEYS, or UNIQ_KEYs.
    ids : str or iterable of str, optional
        Message ids: offset message ids, which name broker and place, so that the message is looked up there; or
        UNIQ_KEYs. Stores are read in full only for ids that no lookup has found.
    topic : str or iterable of str, optional
        Only these topics.
    **options
        Options of ``table=messages``. Also ``useIndex``: ask the IndexFiles instead of reading the stores. That is much faster,
        but finds only messages that the index has. A store with an index file whose entries cannot all be found is an error.

    Returns
    -------
    DataFrame
        The columns of ``table=messages``, ``broker`` among them. Lookups run at once; an action reads the stores.

    Raises
    ------
    ValueError
        Neither keys nor ids are given, or an option is wrong.
    NotAStoreError, FileNotFoundError
        A path does not lead to a store.
    StoreError
        ``useIndex`` is given, and an index is missing or broken.

    Warns
    -----
    DamageWarning
        The index has entries of messages that the log lacks.
    """
    given = dict(options)
    use_index = _flag(given, "useindex")
    if topic is not None:
        given["topics"] = [topic] if isinstance(topic, str) else list(topic)
    wanted_keys, wanted_ids = _texts(keys), _texts(ids)
    if not wanted_keys and not wanted_ids:
        raise ValueError("find needs keys or ids")
    source = JobSource.open(paths, given, spark=spark)
    columns = columns_of(source.options)
    places = _find_places(spark, source, wanted_keys, wanted_ids, use_index=use_index)
    for store, found in zip(source.stores, places, strict=True):
        if found.missing:
            warn_of_missing(store, found.missing)
    tasks: list[ReadTask | ScanTask] = [
        ReadTask(store, found.phy_offsets, columns, source.options)
        for store, found in zip(source.stores, places, strict=True)
        if found.phy_offsets
    ]
    left = wanted_ids - frozenset().union(*(found.ids for found in places))
    if (wanted_keys or left) and not use_index:
        known = {
            store.broker: frozenset(found.phy_offsets)
            for store, found in zip(source.stores, places, strict=True)
        }
        tasks += [
            ScanTask(split, wanted_keys, left, known[split.broker], columns, source.options)
            for split in source.splits()
        ]
    return task_frame(spark, read_found, tasks, spark_schema(columns))


def warn_of_missing(store: StoreLocation, phy_offsets: tuple[int, ...]) -> None:
    """Warn on the driver of messages that the index knows and the log does not have."""
    shown = ", ".join(map(str, phy_offsets[:MOST_NAMED]))
    more = " ..." if len(phy_offsets) > MOST_NAMED else ""
    warnings.warn(
        f"store {store.broker}: the index leads to {shown}{more}, where the log has no record ({len(phy_offsets)} in all): "
        f"`rmqcore fsck {store.root}` reports the damage",
        DamageWarning,
        stacklevel=3,
    )


def _find_places(
    spark: SparkSession,
    source: JobSource,
    keys: frozenset[str],
    ids: frozenset[str],
    *,
    use_index: bool,
) -> list[Places]:
    """Ask each store for the places of the ids, and with the index for those of the keys."""
    offset_ids = frozenset(msg_id for msg_id in ids if _OFFSET_ID.fullmatch(msg_id))
    if not use_index and not offset_ids:
        return [Places()] * len(source.stores)
    index_topics = source.options.topics if use_index else ()
    tasks = [
        FindPlacesTask(store, offset_ids, keys, ids, index_topics, source.options)
        for store in source.stores
    ]
    return run_tasks(spark, find_places, tasks)


@dataclass(frozen=True)
class ReadTask:
    """Reads records of a store whose places are known."""

    store: StoreLocation
    phy_offsets: tuple[int, ...]
    columns: tuple[Column, ...]
    options: SourceOptions

    def read(self) -> Iterator[pa.RecordBatch]:
        """Return the records, in the columns of the result."""
        conditions = conditions_of(self.options, self.store.broker)
        return read_records(self.store, self.phy_offsets, self.columns, self.options, conditions)


@dataclass(frozen=True)
class ScanTask:
    """Reads all records of a split.

    Attributes
    ----------
    keys, ids : frozenset of str
        `keys` are words of KEYS or UNIQ_KEYs, `ids` only UNIQ_KEYs.
    known : frozenset of int
        CommitLog offsets of records that another task returns.
    """

    split: Split
    keys: frozenset[str]
    ids: frozenset[str]
    known: frozenset[int]
    columns: tuple[Column, ...]
    options: SourceOptions

    def read(self) -> Iterator[pa.RecordBatch]:
        """Yield the records, in the columns of the result."""
        names = [column.name for column in self.columns]
        table = known_columns(self.options)
        more = [name for name in ("phy_offset", "uniq_key", "keys") if name not in names]
        columns = (*self.columns, *(table[name] for name in more))
        for batch in read_split(
            self.split, columns, self.options, Conditions(keys=self.keys | self.ids)
        ):
            found = wanted_rows(batch, self.keys, self.ids, self.known)
            if found.num_rows:
                yield found.select(names)


def read_found(task: ReadTask | ScanTask) -> Iterator[pa.RecordBatch]:
    """Return the rows of a task of either kind."""
    return task.read()


def _texts(given: str | Iterable[str] | None) -> frozenset[str]:
    if given is None:
        return frozenset()
    return frozenset([given] if isinstance(given, str) else given)


def _flag(options: dict[str, Any], lower_name: str) -> bool:
    """Remove a flag that only this job has from the options, and return its value."""
    for name in list(options):
        if name.lower() == lower_name:
            text = str(options.pop(name)).lower()
            if text not in ("true", "false"):
                raise ValueError(f"option {name}: {text!r} is invalid, expected true or false")
            return text == "true"
    return False
