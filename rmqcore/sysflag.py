"""The bits of a record's SYSFLAG. Source: RocketMQ 5.5.0 MessageSysFlag, CompressionType."""

from __future__ import annotations

COMPRESSED = 0x1
MULTI_TAGS = 0x2
TRANSACTION_MASK = 0xC
TRANSACTION_NOT = 0x0
TRANSACTION_PREPARED = 0x4
TRANSACTION_COMMIT = 0x8
TRANSACTION_ROLLBACK = 0xC
BORNHOST_V6 = 0x10
STOREHOST_V6 = 0x20
NEED_UNWRAP = 0x40
INNER_BATCH = 0x80
COMPRESSION_TYPE_MASK = 0x700
COMPRESSION_LZ4 = 0x100
COMPRESSION_ZSTD = 0x200
COMPRESSION_ZLIB = 0x300
"""COMPRESSED without a type (old clients) means ZLIB too."""


def transaction_type(sys_flag: int) -> int:
    """The two transaction bits: one of the TRANSACTION values above."""
    return sys_flag & TRANSACTION_MASK
