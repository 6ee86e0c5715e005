"""Frames, each of two words, a header and a body, and their parsing from the pieces that a connection reads.

Source: RocketMQ 5.5.0 NettyDecoder, RemotingCommand#decode.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass

from rmqcore.errors import ProtocolError
from rmqcore.remoting.codes import SerializeType

MAX_FRAME_SIZE = 16 << 20
"""Bytes of a whole frame, its length word included: Java's ``com.rocketmq.remoting.frameMaxLength``."""
MAX_HEADER_SIZE = 64 << 10
"""Bytes of a header. Java has no bound of its own here."""

_WORDS = struct.Struct(">iI")
_LENGTH = struct.Struct(">i")
_SERIALIZE_TYPES = {int(kind): kind for kind in SerializeType}
_HEADER_LENGTH = 0xFFFFFF


@dataclass(frozen=True, slots=True)
class Frame:
    """A complete frame: the format of its header, the header and the body."""

    serialize_type: SerializeType
    header: bytes
    body: bytes


class FrameDecoder:
    """Cuts the bytes of one connection into frames.

    It holds only the received bytes that no returned frame contains: an announced length reserves no memory. Each
    length is checked as soon as its four bytes have arrived. Not thread-safe.

    Parameters
    ----------
    max_frame_size, max_header_size : int
        Bytes of the longest frame and header that are accepted.
    """

    def __init__(
        self, *, max_frame_size: int = MAX_FRAME_SIZE, max_header_size: int = MAX_HEADER_SIZE
    ) -> None:
        self._max_frame_size = max_frame_size
        self._max_header_size = max_header_size
        self._bytes = bytearray()
        self._pos = 0
        self._failed: ProtocolError | None = None

    @property
    def pending(self) -> int:
        """Number of received bytes that no returned frame contains."""
        return len(self._bytes) - self._pos

    def feed(self, data: bytes | bytearray | memoryview) -> None:
        """Add bytes from a connection."""
        if self._failed is None:
            self._bytes += data

    def take_ahead(self, take: Callable[[bytearray, int, int], int]) -> None:
        """Offer the received bytes that no returned frame contains to ``take(buffer, begin, end)``.

        `take` returns the number of bytes that it used, which are whole frames from `begin` on; `next_frame` skips
        them. It must neither change the buffer nor keep it.
        """
        if self._failed is None and self.pending:
            self._pos += take(self._bytes, self._pos, len(self._bytes))

    def next_frame(self) -> Frame | None:
        """Return the next frame; None if it has not arrived whole.

        Raises
        ------
        ProtocolError
            The bytes are not a frame. Every later call raises the same error.
        """
        if self._failed is not None:
            raise self._failed
        try:
            frame = self._cut()
        except ProtocolError as error:
            self._failed = error
            self._bytes = bytearray()
            self._pos = 0
            raise
        if frame is None and self._pos:
            # Once for all frames of a feed: the bytes behind them move at most once for each piece received.
            del self._bytes[: self._pos]
            self._pos = 0
        return frame

    def _cut(self) -> Frame | None:
        came = self.pending
        if came < 4:
            return None
        # Until the second word has arrived, it reads as an empty JSON header.
        if came >= 8:
            length, header_word = _WORDS.unpack_from(self._bytes, self._pos)
        else:
            length, header_word = _LENGTH.unpack_from(self._bytes, self._pos)[0], 0
        if not 4 <= length <= self._max_frame_size - 4:
            expected = f"4 to {self._max_frame_size - 4}"
            raise ProtocolError("frame", 0, "length", expected, length)
        if came < 8:
            return None
        header_size = header_word & _HEADER_LENGTH
        serialize_type = _SERIALIZE_TYPES.get(header_word >> 24)
        if serialize_type is None:
            raise ProtocolError("frame", 4, "serialize type", "0 or 1", header_word >> 24)
        most = min(length - 4, self._max_header_size)
        if header_size > most:
            raise ProtocolError("frame", 5, "header length", f"at most {most}", header_size)
        if came < 4 + length:
            return None
        start, end = self._pos + 8, self._pos + 4 + length
        with memoryview(self._bytes) as view:
            header = bytes(view[start : start + header_size])
            body = bytes(view[start + header_size : end])
        self._pos = end
        if end == len(self._bytes):  # the next call may come only after more bytes
            self._bytes.clear()
            self._pos = 0
        return Frame(serialize_type, header, body)


def encode_frame(frame: Frame, *, max_frame_size: int = MAX_FRAME_SIZE) -> bytes:
    """Return the bytes of a frame.

    Raises
    ------
    ValueError
        The frame is longer than `max_frame_size`, or the header's length needs more than 24 bits.
    """
    header, body = frame.header, frame.body
    words = encode_words(
        frame.serialize_type, len(header), len(body), max_frame_size=max_frame_size
    )
    return words + header + body


def encode_words(
    serialize_type: SerializeType,
    header_size: int,
    body_size: int,
    *,
    max_frame_size: int = MAX_FRAME_SIZE,
) -> bytes:
    """Return the two words at the start of a frame whose parts are sent separately.

    Raises
    ------
    ValueError
        As for `encode_frame`.
    """
    length = 4 + header_size + body_size
    if length > max_frame_size - 4:
        raise ValueError(f"a frame of {length + 4} bytes, the limit is {max_frame_size}")
    if header_size > _HEADER_LENGTH:
        raise ValueError(f"a header of {header_size} bytes, the limit is {_HEADER_LENGTH}")
    return _WORDS.pack(length, serialize_type << 24 | header_size)
