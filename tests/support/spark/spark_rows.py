"""What the tables of the Spark source must give, made from `rmqcore.read` a message at a time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import rmqcore
from rmqcore._native.format.codec import MessageView
from rmqcore.offline.log.damage import DamageRange
from rmqcore.offline.reader import StoreReader

Row = dict[str, Any]
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def store_of(golden: Path, case: str) -> Path:
    return golden / case / "store"


def broker_of(root: Path) -> str:
    """The name of a store by its path: its directory's, or that above where the directory is RocketMQ's own ``store``."""
    return root.parent.name if root.name == "store" else root.name


def time_of(ms: int) -> datetime:
    return EPOCH + timedelta(milliseconds=ms)


def row_of(message: MessageView, broker: str = "store", file: str = "") -> Row:
    """Every column of the table ``messages``."""
    same = (
        "topic",
        "queue_id",
        "queue_offset",
        "phy_offset",
        "msg_size",
        "tags",
        "uniq_key",
        "body",
        "sys_flag",
        "flag",
        "body_crc",
        "reconsume_times",
        "prepared_transaction_offset",
        "store_host",
        "born_host",
        "msg_id",
        "tags_code",
        "magic",
        "raw",
    )
    return {
        **{name: getattr(message, name) for name in same},
        "store_timestamp": time_of(message.store_timestamp_ms),
        "born_timestamp": time_of(message.born_timestamp_ms),
        "keys": " ".join(message.keys) or None,
        "properties": dict(message.properties),
        "broker": broker,
        "crc_ok": message.crc_ok(),
        "resynced": False,
        "corrupt_reason": None,
        "_file": file,
    }


def message_rows(root: Path, broker: str | None = None, **conditions: Any) -> list[Row]:
    """Rows of ``messages``, by CommitLog offset."""
    with rmqcore.read(root) as reader:
        return [
            row_of(message, broker or broker_of(root), file_of(reader, message.phy_offset))
            for message in reader.messages(**conditions)
        ]


@cache
def golden_rows(golden: Path, case: str, part: str = "store") -> list[Row]:
    """Rows of ``messages`` of a golden store; made once, not to be changed."""
    return message_rows(golden / case / part)


def file_of(reader: StoreReader, phy_offset: int) -> str:
    return next(
        file.name
        for file in reader.log_files()
        if file.file_from_offset <= phy_offset < file.end_offset
    )


def damage_of(root: Path, **conditions: Any) -> list[DamageRange]:
    with rmqcore.read(root) as reader:
        for _ in reader.messages(**conditions):
            pass
        return reader.damage


def damage_rows(root: Path, broker: str | None = None, **conditions: Any) -> list[Row]:
    """Rows of ``corrupt``, by CommitLog offset."""
    rows = [
        {
            **found.as_dict(),
            "broker": broker or broker_of(root),
            "expected": str(found.expected),
            "found": str(found.found),
        }
        for found in damage_of(root, **conditions)
    ]
    return sorted(rows, key=lambda row: (row["start_phy_offset"], row["end_phy_offset"]))


def only(rows: list[Row], *names: str) -> list[Row]:
    return [{name: row[name] for name in names} for row in rows]
