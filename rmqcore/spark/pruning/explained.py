"""`rmqcore.spark.explain`: Spark's plan of a frame, with the details of its stores that Spark does not show."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from rmqcore.offline.remote.filesystem_options import is_secret
from rmqcore.shown.plain_text import printable_lines
from rmqcore.spark.pruning.java_plans import PlanMaker
from rmqcore.spark.pruning.relations import Relation, relations_of
from rmqcore.spark.runtime.connect import is_connect
from rmqcore.spark.source.registration import FORMAT
from rmqcore.spark.storage.store_pin import StorePin

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

MOST_STORES = 20
"""Stores of a source that are named one by one."""

_LOGIN = re.compile(r"(?<=://)[^/@]*@")
_NOT_OPTIONS = ("path", "paths", "columns", "pins")


def explain(frame: DataFrame, mode: str | None = None) -> None:
    """Print a frame's plan, followed by path, options, columns and pins of each source ``rmqstore`` in it.

    In its plans and its UI, Spark shows only the name and the columns of a Python source.

    Parameters
    ----------
    frame : DataFrame
        Any frame. For a frame of Spark Connect, whose plans cannot be inspected, only Spark's own plan is printed.
    mode : str, optional
        As of ``DataFrame.explain``: ``simple``, ``extended``, ``codegen``, ``cost`` or ``formatted``.
    """
    frame.explain(mode=mode or "simple")
    if not is_connect(frame):
        print(sources_text(frame))  # noqa: T201 - as DataFrame.explain prints


def sources_text(frame: DataFrame) -> str:
    """Return path, options, columns and pins of each source in a frame; credentials in them are replaced by ``***``."""
    maker = PlanMaker(frame.sparkSession)
    analyzed = frame._jdf.queryExecution().analyzed()  # noqa: SLF001
    found = {relation.ids: relation for relation in relations_of(analyzed)}
    lines = [line for one in found.values() for line in _lines(one, maker.pins(one))]
    return printable_lines("\n".join(lines) or f"no source {FORMAT}")


def _lines(relation: Relation, pins: Mapping[str, StorePin]) -> Iterator[str]:
    options = {name.lower(): text for name, text in relation.options.items()}
    yield f"{FORMAT}[{', '.join(relation.names)}]"
    yield f"  path: {_LOGIN.sub('***@', options.get('path') or options.get('paths', ''))}"
    shown = {
        name: "***" if name.startswith("storage.") and is_secret(name) else text
        for name, text in sorted(options.items())
        if name not in _NOT_OPTIONS
    }
    yield f"  options: {', '.join(f'{name}={text}' for name, text in shown.items()) or 'none'}"
    if not pins:
        yield "  pins: none; the stores are read as they are when the query is planned"
    for broker, pin in list(pins.items())[:MOST_STORES]:
        yield f"  pin of {broker}: CommitLog offsets {pin.first_phy_offset} to {pin.log_end}"
    if len(pins) > MOST_STORES:
        yield f"  pins of {len(pins) - MOST_STORES} other stores"
