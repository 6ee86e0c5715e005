"""The bits of a record's SYSFLAG. Source: RocketMQ 5.5.0 MessageSysFlag, CompressionType."""

from __future__ import annotations

from rmqcore._native.format import layout as _layout
from rmqcore._native.format.cq import has_queue_entry as _has_queue_entry

COMPRESSED = _layout.SYS_COMPRESSED
MULTI_TAGS = _layout.SYS_MULTI_TAGS
TRANSACTION_MASK = _layout.SYS_TRANSACTION_MASK
TRANSACTION_NOT = 0
TRANSACTION_PREPARED = _layout.SYS_TRANSACTION_PREPARED
TRANSACTION_COMMIT = _layout.SYS_TRANSACTION_COMMIT
TRANSACTION_ROLLBACK = _layout.SYS_TRANSACTION_ROLLBACK
BORNHOST_V6 = _layout.SYS_BORNHOST_V6
STOREHOST_V6 = _layout.SYS_STOREHOST_V6
NEED_UNWRAP = _layout.SYS_NEED_UNWRAP
INNER_BATCH = _layout.SYS_INNER_BATCH
COMPRESSION_TYPE_MASK = _layout.SYS_COMPRESSION_TYPE_MASK
COMPRESSION_LZ4 = _layout.SYS_COMPRESSION_LZ4
COMPRESSION_ZSTD = _layout.SYS_COMPRESSION_ZSTD
COMPRESSION_ZLIB = _layout.SYS_COMPRESSION_ZLIB
"""COMPRESSED without a type (old clients) means ZLIB too."""


has_queue_entry = _has_queue_entry


def transaction_type(sys_flag: int) -> int:
    """Return the two transaction bits: one of the TRANSACTION values above."""
    return sys_flag & TRANSACTION_MASK
