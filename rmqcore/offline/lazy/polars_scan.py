"""`scan`: a store as a LazyFrame of Polars."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from os import PathLike
from typing import TYPE_CHECKING, Unpack

from rmqcore.offline.frames.columns import FrameColumns
from rmqcore.offline.installed import check_installed
from rmqcore.offline.lazy.damage_warning import OnDamage
from rmqcore.offline.lazy.polars_predicate import conditions_of
from rmqcore.offline.lazy.process_end import SCANS
from rmqcore.offline.lazy.store_rows import BATCH_ROWS, StoreRows
from rmqcore.offline.log.conditions import Conditions, Wanted
from rmqcore.offline.reader import StoreReader

if TYPE_CHECKING:
    import polars as pl

OLDEST_POLARS = (1, 44)
"""Older ones may hand a source a predicate that nobody can evaluate, which ends the process's query with a panic."""
_INSTALL = "pip install 'rmqcore[polars]'"


def scan(
    store: str | PathLike[str] | StoreReader,
    columns: Iterable[str] | None = None,
    *,
    verify_crc: bool = False,
    on_damage: OnDamage | None = None,
    **wanted: Unpack[Wanted],
) -> pl.LazyFrame:
    """Return a store as a ``polars.LazyFrame`` that reads what its query needs, batch by batch.

    Only the columns that a query names are built. Of its conditions those on ``topic``, ``queue_id``, ``tags``, ``uniq_key``,
    ``keys`` (``list.contains``), ``phy_offset`` and the store time are tested by the scan before it builds a row, and ``head``
    ends it; Polars tests every condition on what is left, so the answer is that of a filter over the whole frame.

    Parameters
    ----------
    store : str, path-like or StoreReader
        A directory or a URL, as `rmqcore.read` takes it; a reader where that does not say it all: another config, a place of its
        own for the CommitLog, options of a filesystem.
    columns : iterable of str, optional
        Of the frame: as `StoreReader.batches`, and ``store_timestamp`` and ``born_timestamp``: ``Datetime("ms", "UTC")``. None
        stands for all but ``raw``, with these two in the place of the times as numbers.
    verify_crc : bool
        Leave out messages whose body fails its CRC.
    on_damage : callable, optional
        Called with a list of `DamageRange` behind each read of the log that met damage; without it that is a `DamageWarning`.
    **wanted
        Conditions as those of `StoreReader.messages`, for every query: topics, queue_ids, tags, keys, since_ms, until_ms,
        start_phy_offset, end_phy_offset.

    Raises
    ------
    ModuleNotFoundError
        Polars is not installed.
    ImportError
        It is older than 1.44.
    NotAStoreError, FileNotFoundError, NotADirectoryError
        As `rmqcore.read`. What goes wrong while a query runs is an error of Polars, with the text of the error here.
    ValueError
        An unknown column.

    Examples
    --------
    >>> frame = rmqcore.scan("/data/store")
    >>> frame.filter(pl.col("topic") == "Orders").group_by("tags").len().collect()  # doctest: +SKIP
    """
    check_installed("polars", "scan", _INSTALL)
    import polars as pl

    version = tuple(int(part) for part in pl.__version__.split(".")[:2])
    if version < OLDEST_POLARS:
        least = ".".join(map(str, OLDEST_POLARS))
        raise ImportError(
            f"scan needs Polars {least} or newer, and this is {pl.__version__}: {_INSTALL}"
        )
    from polars.io.plugins import register_io_source

    rows = StoreRows(store, wanted, verify_crc=verify_crc, on_damage=on_damage)
    source = _Source(rows, FrameColumns(columns))
    # The same frame twice in a query, as in a join with itself, is read once.
    return register_io_source(source.frames, schema=source.columns.polars_schema(), is_pure=True)


class _Source:
    """What Polars asks for rows."""

    def __init__(self, rows: StoreRows, columns: FrameColumns) -> None:
        self._rows = rows
        self.columns = columns

    def frames(
        self,
        with_columns: list[str] | None,
        predicate: pl.Expr | None,
        n_rows: int | None,
        batch_size: int | None,
    ) -> Iterator[pl.DataFrame]:
        """Return the rows for which a predicate is true, among the first `n_rows` of all."""
        return SCANS.watched(self._frames(with_columns, predicate, n_rows, batch_size))

    def _frames(
        self,
        with_columns: list[str] | None,
        predicate: pl.Expr | None,
        n_rows: int | None,
        batch_size: int | None,
    ) -> Generator[pl.DataFrame]:
        import polars as pl

        given = self.columns.names if with_columns is None else tuple(with_columns)
        tested = () if predicate is None else predicate.meta.root_names()
        needed = FrameColumns(dict.fromkeys([*given, *tested]))
        narrowed = Conditions()
        if (
            predicate is not None and n_rows is None
        ):  # a scan that tests would count others as the first
            narrowed = conditions_of(predicate)
        left = n_rows
        batch_rows = min(
            BATCH_ROWS, batch_size or BATCH_ROWS, BATCH_ROWS if n_rows is None else n_rows
        )
        if not batch_rows:
            return
        for batch in self._rows.batches(needed.scanned, narrowed, batch_rows=batch_rows):
            frame = needed.polars_frame(pl.DataFrame(batch))
            if left is not None:
                frame = frame.head(left)
                left -= frame.height
            if predicate is not None:
                frame = frame.filter(predicate)
            yield frame.select(given)
            if left == 0:
                return
