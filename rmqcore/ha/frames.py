"""Encoding of the HA protocol: reports of 8 bytes, and frames of 12 bytes and a body; all numbers are big-endian.

Source: RocketMQ 5.5.0 DefaultHAConnection, DefaultHAClient.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct

from rmqcore.errors import HaProtocolError

MOST_BODY = (4 << 20) - 12
"""Bytes: a Java slave's buffer has room for no longer one."""
_REPORT = Struct(">q")
_HEADER = Struct(">qi")
HEADER_SIZE = _HEADER.size


def encode_report(phy_offset: int) -> bytes:
    """Return the report of a slave whose log ends at a CommitLog offset."""
    return _REPORT.pack(phy_offset)


def encode_header(phy_offset: int, body_size: int) -> bytes:
    """Return the header of a frame: the body's CommitLog offset and length in bytes; length 0 is a heartbeat."""
    return _HEADER.pack(phy_offset, body_size)


class ReportReader:
    """Parses the reports of one slave from pieces of any length."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> int | None:
        """Return the last complete report; None before the first one is complete.

        Source: RocketMQ 5.5.0 DefaultHAConnection.ReadSocketService#processReadEvent.
        """
        data = self._rest + data
        whole = len(data) // _REPORT.size * _REPORT.size
        self._rest = data[whole:]
        if not whole:
            return None
        value: int = _REPORT.unpack_from(data, whole - _REPORT.size)[0]
        return value


class FrameReader:
    """Parses the frames of a master from pieces of any length; yields the bytes of a body as they arrive."""

    def __init__(self) -> None:
        self._head = b""
        self._place = 0  # CommitLog offset of the next byte of the body
        self._left = 0  # bytes of the body that are missing

    def feed(self, data: memoryview) -> Iterator[tuple[int, memoryview]]:
        """Yield each header, as an empty piece, and each piece of a body: its CommitLog offset and its bytes.

        Raises
        ------
        HaProtocolError
            A header claims an invalid body size.
        """
        while data or self._left:
            if self._left:
                if not data:
                    return
                piece = data[: self._left]
                place = self._place
                self._place += len(piece)
                self._left -= len(piece)
                data = data[len(piece) :]
                yield place, piece
                continue
            missing = HEADER_SIZE - len(self._head)
            self._head += bytes(data[:missing])
            data = data[missing:]
            if len(self._head) < HEADER_SIZE:
                return
            self._place, self._left = _HEADER.unpack(self._head)
            self._head = b""
            if not 0 <= self._left <= MOST_BODY:
                raise HaProtocolError("frame", "body_size", f"0 to {MOST_BODY}", self._left)
            yield self._place, data[:0]
