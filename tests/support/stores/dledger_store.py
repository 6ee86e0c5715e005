"""DLedger logs made by hand, and the store that a broker of RocketMQ 5.5.0 with DLedger 0.3.1.2 wrote."""

from __future__ import annotations

import struct
from pathlib import Path

from support.stores.archives import unpack

from rmqcore import Message, codec
from rmqcore.disk.paths import file_name

REAL = Path(__file__).parents[2] / "conformance" / "dledger.tar.xz"
REAL_MESSAGES = 244
HEAD = 48
TIME_MS = 1_800_000_000_000


def unpack_real(folder: Path) -> Path:
    """Unpack the store of the real broker: eight log files of 16 KiB, all queues, one index file; clean exit."""
    return unpack(REAL, folder) / "dledger"


def head(index: int, pos: int, body_len: int, *, magic: int = 1, size: int | None = None) -> bytes:
    """The 48 bytes before a record. Source: DLedger 0.3.1.2 DLedgerEntryCoder#encode."""
    size = HEAD + body_len if size is None else size
    return struct.pack(">iiqqqiiii", magic, size, index, 1, pos, 0, 0, 0, body_len)


class DLedgerLog:
    """A log in ``dledger-n0/data``, as DLedger's MmapFileList fills it.

    Attributes
    ----------
    data : bytearray
        From the offset `begin` on.
    places : list of int
        CommitLog offsets of the records.
    """

    def __init__(self, file_size: int, begin: int = 0) -> None:
        self.begin = begin
        self.data = bytearray()
        self.places: list[int] = []
        self.sizes: list[int] = []
        self._file_size = file_size
        self._index = 0

    @property
    def end(self) -> int:
        return self.begin + len(self.data)

    def put(self, message: Message, queue_offset: int = 0) -> int:
        """Append a message; answers where its record lies."""
        self._make_room(len(self._record(message, queue_offset)))
        record = self._record(message, queue_offset)
        self.places.append(self.end + HEAD)
        self.sizes.append(len(record))
        self.data += head(self._index, self.end, len(record)) + record
        self._index += 1
        return self.places[-1]

    def no_op(self) -> None:
        """Append what a new leader of later versions appends: a head without a body."""
        self._make_room(0)
        self.data += head(self._index, self.end, 0, magic=2)
        self._index += 1

    def _record(self, message: Message, queue_offset: int) -> bytes:
        return codec.encode(
            message,
            phy_offset=self.end + HEAD,
            queue_offset=queue_offset,
            store_timestamp_ms=TIME_MS + self._index,
        )

    def _make_room(self, body_len: int) -> None:
        room = self._file_size - len(self.data) % self._file_size
        if HEAD + body_len + 8 > room:
            self.data += struct.pack(">ii", -1, room).ljust(room, b"\0")

    def at(self, phy_offset: int) -> int:
        """Where a CommitLog offset lies in `data`."""
        return phy_offset - self.begin

    def write(self, root: Path, self_id: str = "n0") -> Path:
        """Write the files into a store's root; the last one is filled up with zeros."""
        folder = root / f"dledger-{self_id}" / "data"
        folder.mkdir(parents=True)
        for start in range(0, len(self.data), self._file_size):
            part = bytes(self.data[start : start + self._file_size]).ljust(self._file_size, b"\0")
            (folder / file_name(self.begin + start)).write_bytes(part)
        return folder

    def write_queue(self, root: Path, topic: str, before: bytes = b"") -> None:
        """Write the entries of all records as those of one queue, behind those that are there."""
        entries = before + b"".join(
            struct.pack(">qiq", place, size, 0)
            for place, size in zip(self.places, self.sizes, strict=True)
        )
        folder = root / "consumequeue" / topic / "0"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / file_name(0)).write_bytes(entries.ljust(20_000, b"\0"))


def numbered(count: int, file_size: int, begin: int = 0, first: int = 0) -> DLedgerLog:
    """A log of messages ``body0``, ``body1``, ... of one queue of topic T."""
    log = DLedgerLog(file_size, begin)
    for number in range(first, first + count):
        log.put(Message("T", b"body%d" % number, keys=[f"K{number}"]), number)
    return log
