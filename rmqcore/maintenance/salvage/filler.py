"""Records in the places of lost bytes: scans of the log pass over them, and no consumer receives them.

A rolled back transaction gets no queue entry and no index entry from any broker. So a record of that kind keeps the
records behind it where they are: their physical offsets are in message ids, queue entries, the index, transactions and
timers.
"""

from __future__ import annotations

from collections.abc import Iterator

from rmqcore._native.format.layout import REC_MIN_SIZE_V1, body_pos
from rmqcore.codec import encode
from rmqcore.codec.message import Message
from rmqcore.vocabulary.sysflag import TRANSACTION_ROLLBACK

TOPIC = "LOST"
"""Topic of these records; cut to its first letters if they have no more room."""
LEAST = REC_MIN_SIZE_V1 + 1
"""Bytes of the smallest one: the smallest record that a broker writes has as many."""
MOST = 1 << 20
"""Bytes of the largest one: Java asks for memory for a whole record when it walks over it."""
PROP_CRC_SIZE = 20
WITH_CRC = LEAST + PROP_CRC_SIZE
"""Fillers of at least this size have a ``__CRC32#``, which a broker with ``forceVerifyPropCRC`` requires."""


def fillers(begin: int, end: int, store_timestamp_ms: int) -> Iterator[tuple[int, bytes]]:
    """Yield pieces of records that fill [begin, end) of one file, and their offsets; the bytes between them are zeros.

    Parameters
    ----------
    begin, end : int
        CommitLog offsets, at least `LEAST` apart.
    store_timestamp_ms : int
        Of the sound record beside them, so that times in the log keep their order.
    """
    while begin < end:
        size = min(MOST, end - begin)
        if 0 < end - begin - size < WITH_CRC:
            size -= WITH_CRC
        yield from _filler(begin, size, store_timestamp_ms)
        begin += size


def _filler(phy_offset: int, size: int, store_timestamp_ms: int) -> Iterator[tuple[int, bytes]]:
    with_crc = size >= WITH_CRC
    room = size - REC_MIN_SIZE_V1 - (PROP_CRC_SIZE if with_crc else 0)
    topic = TOPIC[:room]
    body_size = room - len(topic)
    record = encode(
        Message(topic, bytes(body_size), sys_flag=TRANSACTION_ROLLBACK),
        phy_offset=phy_offset,
        queue_offset=0,
        store_timestamp_ms=store_timestamp_ms,
        append_prop_crc=with_crc,
    )
    assert len(record) == size
    body = body_pos(TRANSACTION_ROLLBACK)
    yield phy_offset, record[:body]
    yield phy_offset + body + body_size, record[body + body_size :]
