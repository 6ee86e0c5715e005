"""Translates a filter of pyarrow to conditions of the scan.

An expression of pyarrow cannot be taken apart. But pyarrow can say whether rows of which something is known may pass it: that is
how it leaves out the files of a data set by their partition. So it is asked of rows with a store time before some millisecond, of
rows with a topic between two that the filter names, and so on; where no such row may pass, the scan need not build it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import compress, pairwise

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from pyarrow import fs

from rmqcore.offline.frames.column_conditions import (
    among,
    between,
)
from rmqcore.offline.frames.columns import FIRST_MS, LAST_MS, TIMES
from rmqcore.offline.log.conditions import Conditions
from rmqcore.vocabulary.units import INT_MAX, INT_MIN, LONG_MAX, LONG_MIN

TEXTS = ("topic", "tags", "uniq_key")
NUMBERS = {
    "phy_offset": (LONG_MIN, LONG_MAX),
    "queue_id": (INT_MIN, INT_MAX),
    "store_timestamp": (FIRST_MS, LAST_MS),
    "store_timestamp_ms": (LONG_MIN, LONG_MAX),
}
"""Columns, and the least and the greatest number of each."""
MOST_QUEUE_IDS = 256
"""The scan compares the queue id of a record with each of those that are wanted."""

_FORMAT, _FILES = ds.IpcFileFormat(), fs.LocalFileSystem()  # no file is opened


def conditions_of(given: pc.Expression, schema: pa.Schema) -> Conditions:
    """Return conditions that hold for every message for which a filter is true.

    Parameters
    ----------
    given : pyarrow.compute.Expression
    schema : pyarrow.Schema
        The columns that it may name.
    """
    text = str(given)
    asked = _Filter(given, schema)
    found = Conditions()
    for name in schema.names:
        if name in text:
            found = found.and_also(asked.says_of(name, text) or Conditions())
    return found


class _Filter:
    """A filter that can be asked."""

    def __init__(self, given: pc.Expression, schema: pa.Schema) -> None:
        self._given = given
        self._schema = schema

    def says_of(self, name: str, text: str) -> Conditions | None:
        """What it says of a column; `text` is how it prints."""
        if name in TEXTS:
            return self._texts(name, re.findall(r'"([^"\\]*)"', text))
        if name == "queue_id":
            return self._queue_ids()
        if name in NUMBERS:
            return between(TIMES.get(name, name), *self._range(name))
        return None

    def passes(self, *known: pc.Expression) -> list[bool]:
        """Return, for each of some expressions, whether a row for which it holds may pass."""
        fragments = [
            _FORMAT.make_fragment(str(number), _FILES, partition_expression=one)
            for number, one in enumerate(known)
        ]
        rows = ds.FileSystemDataset(fragments, self._schema, _FORMAT, _FILES)
        left = {fragment.path for fragment in rows.get_fragments(filter=self._given)}
        return [str(number) in left for number in range(len(known))]

    def _texts(self, name: str, named: list[str]) -> Conditions | None:
        """Return True if only rows pass that have one of the texts which the filter names."""
        texts = sorted(set(named))
        if not texts:
            return None
        column = pc.field(name)
        between_two = [(column > low) & (column < high) for low, high in pairwise(texts)]
        if any(self.passes(column.is_null(), column < texts[0], *between_two, column > texts[-1])):
            return None
        may_pass = self.passes(*(column == text for text in texts))
        known = among(name, list(compress(texts, may_pass)))
        return None if known is None else known.conditions

    def _queue_ids(self) -> Conditions | None:
        least, most = self._range("queue_id")
        if least is None or most is None or most - least >= MOST_QUEUE_IDS:
            return None
        numbers = range(least, most + 1)
        may_pass = self.passes(*(pc.field("queue_id") == number for number in numbers))
        known = among("queue_id", list(compress(numbers, may_pass)))
        return None if known is None else known.conditions

    def _range(self, name: str) -> tuple[int | None, int | None]:
        """The least and the greatest number with which a row may pass; None where it may be any."""
        column, kind = pc.field(name), self._schema.field(name).type
        if any(self.passes(column.is_null())):
            return None, None

        def none_below(number: int) -> bool:
            return not any(self.passes(column < pa.scalar(number, kind)))

        def none_above(number: int) -> bool:
            return not any(self.passes(column > pa.scalar(number, kind)))

        first, last = NUMBERS[name]
        least = -_first_that(lambda number: none_below(-number), -last, -first)
        most = _first_that(none_above, first, last)
        return None if least == first else least, None if most == last else most


def _first_that(holds: Callable[[int], bool], low: int, high: int) -> int:
    """The first number from `low` to `high` of which something holds, as it does of all that follow, `high` among them."""
    while low < high:
        middle = (low + high) // 2
        if holds(middle):
            high = middle
        else:
            low = middle + 1
    return low
