"""A record of the oracle under the names of a MessageView and of the columns of a batch."""

from __future__ import annotations

from typing import Any

from support.oracle import records as oracle
from support.oracle.strategies import host_text


def fields_of(record: oracle.Record) -> dict[str, Any]:
    """The public columns of a record."""
    properties = record.property_map
    return {
        "phy_offset": record.phy_offset,
        "msg_size": record.msg_size,
        "magic": record.magic,
        "body_crc": record.body_crc,
        "queue_id": record.queue_id,
        "flag": record.flag,
        "queue_offset": record.queue_offset,
        "sys_flag": record.sys_flag,
        "born_timestamp_ms": record.born_timestamp_ms,
        "born_host": host_text(record.born_host),
        "store_timestamp_ms": record.store_timestamp_ms,
        "store_host": host_text(record.store_host),
        "reconsume_times": record.reconsume_times,
        "prepared_transaction_offset": record.prepared_transaction_offset,
        "body": record.body,
        "topic": oracle.text_of(record.topic),
        "properties": list(properties.items()),
        "tags": properties.get("TAGS"),
        "keys": oracle.key_tokens(properties.get("KEYS", "")),
        "uniq_key": properties.get("UNIQ_KEY"),
        "msg_id": record.msg_id,
        "tags_code": record.tags_code,
    }
