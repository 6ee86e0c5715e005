"""A store in files that are cut into many splits: of some no boundary tells, of one some do, one is sound; and the tail."""

from __future__ import annotations

from pathlib import Path
from random import Random

from support.stores.hostile_logs import each

from rmqcore import Message, codec
from rmqcore._native.format.layout import body_pos

FILE_SIZE = 128 * 1024
MAX_RECORD = 1024
PART = 4 * 1024
CUT = {
    "maxPartitionBytes": str(PART),
    "maxRecordSize": str(MAX_RECORD),
    "splitMode": "resync",
}
"""Options of Spark."""


class UntoldStore:
    """Makes the files of such a store."""

    def __init__(self, seed: int = 1) -> None:
        self._messages = 0
        self._random = Random(seed)

    def write(self, root: Path) -> Path:
        log = root / "commitlog"
        log.mkdir(parents=True)
        for number, kind in enumerate(("none", "some", "sound", "none", "sound")):
            base = number * FILE_SIZE
            data = each(FILE_SIZE, lambda pos, kind=kind, base=base: self._part(kind, base + pos))  # type: ignore[misc]
            (log / f"{base:020}").write_bytes(data)
        return root

    def _part(self, kind: str, at: int) -> bytes:
        body = self._random.randbytes(self._random.randrange(300))
        if kind == "some" and self._random.random() < 0.05:
            place = at + body_pos(0)
            for _ in range(2):
                body = _encode(Message("Forged", body[:50]), place, 7)
                body += _encode(Message("Forged", b"too"), place + len(body), 8)
        number, self._messages = self._messages, self._messages + 1
        message = Message(f"T{number % 3}", body, keys=f"key{number}", tags=f"tag{number % 5}")
        return _encode(message, at, number // 3) + (b"\xff" if kind == "none" else b"")


def _encode(message: Message, phy_offset: int, queue_offset: int) -> bytes:
    return codec.encode(
        message,
        phy_offset=phy_offset,
        queue_offset=queue_offset,
        store_timestamp_ms=1_700_000_000_000 + phy_offset,
    )
