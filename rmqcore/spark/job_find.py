"""Messages by key or id, over many stores at once."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rmqcore.spark.conditions import Conditions
from rmqcore.spark.job_splits import JobSource
from rmqcore.spark.jobs import run_tasks, task_frame
from rmqcore.spark.key_rows import wanted_rows
from rmqcore.spark.locating import Located, LocateTask, locate
from rmqcore.spark.locations import StoreLocation
from rmqcore.spark.options import SourceOptions
from rmqcore.spark.picked_records import read_records
from rmqcore.spark.reading import read_split
from rmqcore.spark.schema import columns_of, known_columns, spark_schema
from rmqcore.spark.splits import Split
from rmqcore.spark.table_columns import Column

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

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
    """Give the messages with one of some keys or ids, from all the stores in which they are.

    Parameters
    ----------
    spark : SparkSession
    paths : str, path-like or a list of them
    keys : str or iterable of str, optional
        Words of KEYS, or UNIQ_KEYs.
    ids : str or iterable of str, optional
        Message ids: offset message ids, which name broker and place and are looked up there at once; or UNIQ_KEYs. The stores
        are read through only for ids that no lookup has found.
    topic : str or iterable of str, optional
        Only these topics.
    **options
        Those of ``table=messages``. Also ``useIndex``: ask the IndexFiles instead of reading the stores. Much faster, and as
        complete as they are: what the log lost from the index, or never had there, is not found. A store of which no file
        of the index can be asked is an error.

    Returns
    -------
    DataFrame
        The columns of ``table=messages``, ``broker`` among them. Lookups are done at once, the stores are read by an action.

    Raises
    ------
    ValueError
        Neither keys nor ids, or a wrong option.
    NotAStoreError, FileNotFoundError
        A path that is no store.
    StoreError
        An index that was to be asked is missing or broken.
    """
    given = dict(options)
    use_index = _flag(given, "useindex")
    if topic is not None:
        given["topics"] = [topic] if isinstance(topic, str) else list(topic)
    wanted_keys, wanted_ids = _texts(keys), _texts(ids)
    if not wanted_keys and not wanted_ids:
        raise ValueError("find needs keys or ids")
    source = JobSource.open(paths, given)
    columns = columns_of(source.options)
    located = _locate(spark, source, wanted_keys, wanted_ids, use_index=use_index)
    tasks: list[PickTask | ScanTask] = [
        PickTask(store, found.phy_offsets, columns, source.options)
        for store, found in zip(source.stores, located, strict=True)
        if found.phy_offsets
    ]
    left = wanted_ids - frozenset().union(*(found.ids for found in located))
    if (wanted_keys or left) and not use_index:
        known = {
            store.broker: frozenset(found.phy_offsets)
            for store, found in zip(source.stores, located, strict=True)
        }
        tasks += [
            ScanTask(split, wanted_keys, left, known[split.broker], columns, source.options)
            for split in source.splits()
        ]
    return task_frame(spark, read_found, tasks, spark_schema(columns))


def _locate(
    spark: SparkSession,
    source: JobSource,
    keys: frozenset[str],
    ids: frozenset[str],
    *,
    use_index: bool,
) -> list[Located]:
    """What each store says about the ids, and with the index about the keys."""
    offset_ids = frozenset(one for one in ids if _OFFSET_ID.fullmatch(one))
    if not use_index and not offset_ids:
        return [Located()] * len(source.stores)
    index_topics = source.options.topics if use_index else ()
    tasks = [
        LocateTask(store, offset_ids, keys, ids, index_topics, source.options)
        for store in source.stores
    ]
    return run_tasks(spark, locate, tasks)


@dataclass(frozen=True)
class PickTask:
    """Records of one store whose places are known."""

    store: StoreLocation
    phy_offsets: tuple[int, ...]
    columns: tuple[Column, ...]
    options: SourceOptions

    def read(self) -> Iterator[pa.RecordBatch]:
        """The records, in the columns of the answer."""
        conditions = Conditions.of(self.options, self.store.broker)
        return read_records(self.store, self.phy_offsets, self.columns, self.options, conditions)


@dataclass(frozen=True)
class ScanTask:
    """A split that is read through.

    Attributes
    ----------
    keys, ids : frozenset of str
        Words of KEYS or UNIQ_KEYs; UNIQ_KEYs only.
    known : frozenset of int
        Where records begin that another task gives.
    """

    split: Split
    keys: frozenset[str]
    ids: frozenset[str]
    known: frozenset[int]
    columns: tuple[Column, ...]
    options: SourceOptions

    def read(self) -> Iterator[pa.RecordBatch]:
        """The records, in the columns of the answer."""
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


def read_found(task: PickTask | ScanTask) -> Iterator[pa.RecordBatch]:
    """The rows of a task of either kind."""
    return task.read()


def _texts(given: str | Iterable[str] | None) -> frozenset[str]:
    if given is None:
        return frozenset()
    return frozenset([given] if isinstance(given, str) else given)


def _flag(options: dict[str, Any], lower_name: str) -> bool:
    """Take a flag that only this job has out of the options."""
    for name in list(options):
        if name.lower() == lower_name:
            text = str(options.pop(name)).lower()
            if text not in ("true", "false"):
                raise ValueError(f"option {name}: {text!r} is wrong, expected true or false")
            return text == "true"
    return False
