from typing_extensions import Buffer

def encode_fields(
    topic: bytes,
    body: Buffer,
    properties: bytes,
    *,
    born_host: bytes,
    store_host: bytes,
    queue_id: int,
    flag: int,
    sys_flag: int,
    reconsume_times: int,
    queue_offset: int,
    phy_offset: int,
    born_timestamp_ms: int,
    store_timestamp_ms: int,
    prepared_transaction_offset: int,
    append_prop_crc: bool,
) -> bytes: ...
