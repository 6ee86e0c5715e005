def encode_arrow(
    data: object,
    phy_offset: int,
    queue_offset: int,
    store_timestamp_ms: int,
    append_prop_crc: bool,
) -> bytes: ...
