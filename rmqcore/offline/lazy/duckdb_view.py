"""`duckdb_view`: a store as a view of DuckDB."""

from __future__ import annotations

from collections.abc import Iterable
from os import PathLike
from typing import TYPE_CHECKING, Protocol, Unpack

from rmqcore.offline.frames.columns import FrameColumns
from rmqcore.offline.installed import check_installed
from rmqcore.offline.lazy.damage_warning import OnDamage
from rmqcore.offline.lazy.store_rows import StoreRows
from rmqcore.offline.log.conditions import Wanted
from rmqcore.offline.reader import StoreReader

if TYPE_CHECKING:
    import duckdb


class Connection(Protocol):
    """Methods used of DuckDB: a connection has them, and so has the module for its default connection."""

    def register(self, view_name: str, python_object: object, /) -> object:
        """Make a view."""

    def view(self, view_name: str, /) -> duckdb.DuckDBPyRelation:
        """Return a view."""


def duckdb_view(
    connection: Connection,
    name: str,
    store: str | PathLike[str] | StoreReader,
    columns: Iterable[str] | None = None,
    *,
    verify_crc: bool = False,
    on_damage: OnDamage | None = None,
    **wanted: Unpack[Wanted],
) -> duckdb.DuckDBPyRelation:
    """Make a store a view of a DuckDB connection; every query reads the store anew, as it is then.

    Only the columns that a query names are built, and DuckDB hands its conditions down: those on ``topic``, ``queue_id``,
    ``tags``, ``uniq_key``, ``phy_offset`` and the store time are tested by the scan before it builds a row, all others on each
    batch. DuckDB asks for batch after batch, so a store of any size takes a few megabytes of memory, and ``limit`` ends the scan.

    Parameters
    ----------
    connection : duckdb.DuckDBPyConnection
        Or the module ``duckdb`` itself, for its own connection.
    name : str
        Of the view; one of this name is replaced. It lives as long as the connection, whose cursors do not have it.
    store : str, path-like or StoreReader
        A directory or a URL, as `rmqcore.read` takes it; a reader where that does not say it all: another config, a place of its
        own for the CommitLog, options of a filesystem.
    columns : iterable of str, optional
        Of the view: as `StoreReader.batches`, and ``store_timestamp`` and ``born_timestamp``: ``TIMESTAMP WITH TIME ZONE``. None
        stands for all but ``raw``, with these two in the place of the times as numbers.
    verify_crc : bool
        Leave out messages whose body fails its CRC.
    on_damage : callable, optional
        Called with a list of `DamageRange` behind each read of the log that met damage; without it that is a `DamageWarning`.
    **wanted
        Conditions as those of `StoreReader.messages`, for every query: topics, queue_ids, tags, keys, since_ms, until_ms,
        start_phy_offset, end_phy_offset. ``keys`` is the way to a key: DuckDB keeps conditions on lists for itself.

    Returns
    -------
    duckdb.DuckDBPyRelation
        The view.

    Raises
    ------
    ModuleNotFoundError
        pyarrow is not installed.
    NotAStoreError, FileNotFoundError, NotADirectoryError
        As `rmqcore.read`.
    ValueError
        An unknown column.

    Examples
    --------
    >>> rmqcore.duckdb_view(duckdb, "store", "/data/store")  # doctest: +SKIP
    >>> duckdb.sql("select topic, count(*) from store group by topic")  # doctest: +SKIP
    """
    check_installed("pyarrow", "duckdb_view", "pip install 'rmqcore[duckdb]'")
    from rmqcore.offline.lazy.store_dataset import StoreDataset

    rows = StoreRows(store, wanted, verify_crc=verify_crc, on_damage=on_damage)
    connection.register(name, StoreDataset(rows, FrameColumns(columns)))
    return connection.view(name)
