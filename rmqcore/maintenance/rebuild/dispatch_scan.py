"""A walk over the log as the dispatcher of a store would see it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from rmqcore._native.scan.batch import Batch
from rmqcore._native.scan.places import Gaps
from rmqcore._native.scan.scan import ColumnScan
from rmqcore.config import MessageStoreConfig
from rmqcore.engine.dispatch.multi_dispatch import MultiDispatch
from rmqcore.offline.log.walk import Sink
from rmqcore.offline.log.watched_scan import WatchedScan


def dispatch_scan(
    columns: ColumnScan, multi: MultiDispatch | None, put_entry: Callable[..., bool]
) -> Sink[Batch]:
    """Make a scan the sink of a walk; with `multi` the sink also gives `put_entry` the entries of further queues.

    The batch ends behind a window after whose last entry `put_entry` answers True.
    """
    if multi is None:
        return columns

    def put(buf: Any, begin: int, end: int, phy_offset: int, gaps: Gaps | None) -> None:
        del phy_offset  # every record is wanted, at any offset
        enough = False
        for entry in multi.entries(buf, begin, end, 0, gaps=gaps):
            enough = put_entry(*entry)
        if enough:
            columns.end_batch()

    return WatchedScan(columns, put)


def dispatch_config(config: MessageStoreConfig) -> MessageStoreConfig:
    """Return a configuration with all settings on that make entries, so that every entry of the records is built."""
    return replace(
        config,
        message_index_enable=True,
        index_file_write_enable=True,
        enable_lmq=True,
        enable_multi_dispatch=True,
    )
