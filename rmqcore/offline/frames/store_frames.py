"""`StoreFrames`: what a reader gives as one frame."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import TYPE_CHECKING, Unpack

from rmqcore.offline.frames.columns import FrameColumns
from rmqcore.offline.installed import check_installed
from rmqcore.offline.log.batch_stream import BatchStream
from rmqcore.offline.log.conditions import Wanted
from rmqcore.offline.log.walk import Progress

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa


class BatchOptions(Wanted, total=False):
    """Options of `StoreReader.batches` besides the columns."""

    verify_crc: bool
    batch_rows: int
    batch_bytes: int
    progress: Progress | None


class StoreFrames(ABC):
    """The methods of a reader that give the messages as one frame, in memory.

    All take what `StoreReader.batches` takes. Beside its columns they know ``store_timestamp`` and ``born_timestamp``, timestamps
    in UTC with milliseconds; without `columns` these stand in the place of ``store_timestamp_ms`` and ``born_timestamp_ms``. A
    time outside of the years 1 to 9999, as a damaged record may have, is null there.
    """

    @abstractmethod
    def batches(
        self, columns: Iterable[str] | None = None, **options: Unpack[BatchOptions]
    ) -> BatchStream:
        """Return the messages as columns, a stream of Arrow record batches."""

    def to_arrow(
        self, columns: Iterable[str] | None = None, **options: Unpack[BatchOptions]
    ) -> pa.Table:
        """Return the messages as a ``pyarrow.Table``, over the memory of the batches.

        Parameters
        ----------
        columns : iterable of str, optional
            As `batches`, and ``store_timestamp`` and ``born_timestamp``: ``timestamp[ms, tz=UTC]``.
        **options
            As `batches`: topics, queue_ids, tags, keys, since_ms, until_ms, start_phy_offset, end_phy_offset, verify_crc,
            batch_rows, batch_bytes, progress.

        Raises
        ------
        ModuleNotFoundError
            pyarrow is not installed.
        ValueError
            An unknown column.
        """
        check_installed("pyarrow", "to_arrow", "pip install 'rmqcore[arrow]'")
        return self._arrow_table(columns, options)

    def to_polars(
        self, columns: Iterable[str] | None = None, **options: Unpack[BatchOptions]
    ) -> pl.DataFrame:
        """Return the messages as a ``polars.DataFrame``; `rmqcore.scan` returns a LazyFrame, which reads what its query needs.

        Parameters
        ----------
        columns : iterable of str, optional
            As `batches`, and ``store_timestamp`` and ``born_timestamp``: ``Datetime("ms", "UTC")``.
        **options
            As `to_arrow`.

        Raises
        ------
        ModuleNotFoundError
            Polars is not installed.
        ValueError
            An unknown column.
        """
        check_installed("polars", "to_polars", "pip install 'rmqcore[polars]'")
        import polars as pl

        wanted = FrameColumns(columns)
        return wanted.polars_frame(pl.DataFrame(self.batches(wanted.scanned, **options)))

    def to_pandas(
        self, columns: Iterable[str] | None = None, **options: Unpack[BatchOptions]
    ) -> pd.DataFrame:
        """Return the messages as a ``pandas.DataFrame``; ``properties`` are dicts.

        Parameters
        ----------
        columns : iterable of str, optional
            As `batches`, and ``store_timestamp`` and ``born_timestamp``: ``datetime64[ms, UTC]``.
        **options
            As `to_arrow`.

        Raises
        ------
        ModuleNotFoundError
            pandas or pyarrow is not installed.
        ValueError
            An unknown column.
        """
        for package in ("pandas", "pyarrow"):
            check_installed(package, "to_pandas", "pip install 'rmqcore[pandas]'")
        return self._arrow_table(columns, options).to_pandas(maps_as_pydicts="lossy")

    def _arrow_table(self, columns: Iterable[str] | None, options: BatchOptions) -> pa.Table:
        import pyarrow as pa

        wanted = FrameColumns(columns)
        schema = wanted.arrow_schema()
        rows = self.batches(wanted.scanned, **options)
        return pa.Table.from_batches((wanted.arrow_batch(batch, schema) for batch in rows), schema)
