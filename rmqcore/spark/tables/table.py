"""The common base of the data source's tables: they plan parts on the driver, and read a part in a task."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from rmqcore.errors import DataLossError
from rmqcore.spark.options.source_options import SourceOptions
from rmqcore.spark.reading.store_end import pin_stores
from rmqcore.spark.rows.columns import Column
from rmqcore.spark.rows.schema import arrow_schema
from rmqcore.spark.storage.directories import utf8_text
from rmqcore.spark.storage.locations import StoreLocation
from rmqcore.spark.storage.store_pin import StorePin

Item = TypeVar("Item")


class TableRead(ABC):
    """One read of one table; sent to tasks by pickle.

    Parameters
    ----------
    options : SourceOptions
    columns : tuple of Column
        The wanted columns, in order.

    Attributes
    ----------
    stores : list of StoreLocation
        With the pins from the options, or those that `pin` has found.

    Raises
    ------
    NotAStoreError, FileNotFoundError, NotADirectoryError, PermissionError, RemoteStorageError, ValueError
        The path names no store; see `find_stores`.
    """

    def __init__(self, options: SourceOptions, columns: tuple[Column, ...]) -> None:
        self.options = options
        self.columns = columns
        self.stores: list[StoreLocation] = _as_pinned(options.stores(), options)

    def pin(self) -> tuple[tuple[str, StorePin], ...]:
        """Find where each store without a pin ends now; return all pins, by broker. Runs on the driver."""
        self.stores = pin_stores(self.stores, self.options.sizing())
        return tuple((store.broker, store.pin) for store in self.stores if store.pin is not None)

    def parts(self) -> list[Any]:
        """Return the parts of the table, now or as pinned, each for one task; runs on the driver."""
        self.pin()
        return self.planned_parts()

    @abstractmethod
    def planned_parts(self) -> list[Any]:
        """Return the parts of the table, from stores that have pins."""

    @abstractmethod
    def read(self, part: Any) -> Iterator[Any]:
        """Return a part's rows as ``pyarrow.RecordBatch``; runs in a task."""

    def push_filters(self, filters: list[Any]) -> list[Any]:
        """Accept filters of Spark; return those that Spark must still apply. Called before `parts`."""
        return filters


def _as_pinned(stores: list[StoreLocation], options: SourceOptions) -> list[StoreLocation]:
    """Return the stores that existed when they were pinned; all stores without pins."""
    if not options.pins:
        return stores
    pins = dict(options.pins)
    there = [replace(store, pin=pins[store.broker]) for store in stores if store.broker in pins]
    for broker in sorted(pins.keys() - {store.broker for store in there}):
        gone = DataLossError(broker, pins[broker].first_phy_offset, None, "its store was deleted")
        if options.fail_on_data_loss:
            raise gone
        warnings.warn(str(gone), stacklevel=2)
    return there


def batch_of(columns: tuple[Column, ...], values: dict[str, Any], count: int) -> Any:
    """Return a record batch of the wanted columns.

    Parameters
    ----------
    values : dict
        By column name: an array or list of `count` values, or one value that all rows have. Times as microseconds.
    """
    import pyarrow as pa

    schema = arrow_schema(columns)
    arrays = []
    for column in columns:
        value = values[column.name]
        if column.type == "string":
            value = (
                [utf8_text(text) for text in value] if isinstance(value, list) else utf8_text(value)
            )
        of_type = schema.field(column.name).type
        if column.type == "timestamp":
            arrays.append(pa.array(value, pa.int64()).view(of_type))
        elif isinstance(value, np.ndarray | list):
            arrays.append(pa.array(value, of_type))
        else:
            arrays.append(pa.repeat(pa.scalar(value, of_type), count))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def batches_of_rows(
    columns: tuple[Column, ...], rows: Iterable[dict[str, Any]], most_rows: int
) -> Iterator[Any]:
    """Make record batches of a few rows, each given as a dict."""
    gathered = list(rows)
    for begin in range(0, len(gathered), most_rows):
        some = gathered[begin : begin + most_rows]
        yield batch_of(
            columns,
            {column.name: [row[column.name] for row in some] for column in columns},
            len(some),
        )


def packed(
    items: Iterable[Item], size_of: Callable[[Item], int], most: int
) -> Iterator[tuple[Item, ...]]:
    """Group neighbours as long as their sizes add up to `most` or less; a larger item is a group alone."""
    group: list[Item] = []
    total = 0
    for item in items:
        if group and total + size_of(item) > most:
            yield tuple(group)
            group, total = [], 0
        group.append(item)
        total += size_of(item)
    if group:
        yield tuple(group)
