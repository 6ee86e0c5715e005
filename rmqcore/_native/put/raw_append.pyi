from typing_extensions import Buffer

from rmqcore._native.put.appender import Appender

def append_raw(
    appender: Appender,
    data: Buffer,
    begin: int,
    end: int,
    phy_offset: int,
    store_timestamp_ms: int,
) -> bool: ...
