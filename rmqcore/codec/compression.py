"""Decompression of stored bodies. Source: RocketMQ 5.5.0 CompressorFactory and its three compressors."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Any, Protocol

from rmqcore.errors import CompressionError, CompressionLibraryError
from rmqcore.vocabulary import sysflag

DEFAULT_MAX_SIZE = 256 * 1024 * 1024
"""Bytes. Java's clients refuse to send more than 4 MiB; this limit only stops a decompression bomb."""


PIECE = 1024 * 1024
FEED = 64 * 1024
"""Bytes to pass to a library in one call, and to unpack: a packed body may grow a hundred thousand times."""


class Packed(Protocol):
    """Stored bytes: `bytes`, or an object whose slices are read from a file."""

    def __len__(self) -> int: ...

    def __getitem__(self, wanted: slice, /) -> bytes: ...


ZSTD_HEADER = 18
"""Bytes of the longest header of a frame, its magic included (RFC 8878, 3.1.1.1)."""


def decompress_body(body: bytes, sys_flag: int, max_size: int = DEFAULT_MAX_SIZE) -> bytes:
    """Decompress a body in the way that SYSFLAG names.

    Parameters
    ----------
    body : bytes
        The stored bytes.
    sys_flag : int
        The record's SYSFLAG; without the COMPRESSED bit `body` is returned unchanged.
    max_size : int
        The most bytes that the plain body may have.

    Raises
    ------
    CompressionError
        Wrong or cut-off data, an unknown compression type, or a plain body above `max_size`.
    CompressionLibraryError
        LZ4 or ZSTD without the ``compress`` extra.
    """
    if not sys_flag & sysflag.COMPRESSED:
        return body
    return b"".join(plain_pieces(body, sys_flag, max_size))


def plain_pieces(body: Packed, sys_flag: int, max_size: int = DEFAULT_MAX_SIZE) -> Iterator[bytes]:
    """Yield a decompressed body piece by piece, as far as the caller continues.

    Parameters
    ----------
    body : Packed
        The stored bytes.
    sys_flag : int
        The record's SYSFLAG, with the COMPRESSED bit.
    max_size : int
        The most bytes that the pieces may have together.

    Yields
    ------
    bytes
        At most `PIECE` bytes.

    Raises
    ------
    CompressionError
        The data is wrong, cut off or larger than `max_size`; for an unknown compression type before the first piece.
    CompressionLibraryError
        LZ4 or ZSTD without the ``compress`` extra, before the first piece.
    """
    kind = sys_flag & sysflag.COMPRESSION_TYPE_MASK
    if kind not in _UNPACK:
        raise CompressionError(
            f"SYSFLAG {sys_flag:#x} has the unknown compression type {kind >> 8}"
        )
    name, unpack = _UNPACK[kind]
    try:
        yield from _at_most(max_size, unpack(body))
    except CompressionError:
        raise
    except Exception as error:  # each library has its own error types, some plain RuntimeError
        raise CompressionError(f"the body of {len(body)} bytes is not {name}: {error}") from error


def _at_most(max_size: int, pieces: Iterator[bytes]) -> Iterator[bytes]:
    left = max_size
    for piece in pieces:
        left -= len(piece)
        if left < 0:
            raise CompressionError(f"the plain body is larger than {max_size} bytes")
        yield piece


def _unpack_zlib(body: Packed) -> Iterator[bytes]:
    stream = zlib.decompressobj()
    for data in _fed(body):
        left = data
        while not stream.eof:
            piece = stream.decompress(left, PIECE)
            left = stream.unconsumed_tail
            if piece:
                yield piece
            if not left and len(piece) < PIECE:
                break
    _check_end("ZLIB", body, whole=stream.eof)


def _unpack_lz4(body: Packed) -> Iterator[bytes]:
    stream = _library("lz4.frame", "LZ4").LZ4FrameDecompressor()
    for data in _fed(body):
        left = data
        while not stream.eof:
            piece: bytes = stream.decompress(left, PIECE)
            left = b""
            if piece:
                yield piece
            if stream.needs_input:
                break
    _check_end("LZ4", body, whole=stream.eof)


def _unpack_zstd(body: Packed) -> Iterator[bytes]:
    zstandard = _library("zstandard", "ZSTD")
    with zstandard.ZstdDecompressor().stream_reader(_Stream(body)) as stream:
        while piece := stream.read(PIECE):
            yield piece
    _check_end("ZSTD", body, whole=_ends_zstd_frame(body, zstandard))


class _Stream:
    """Bytes as a file that is read once."""

    def __init__(self, body: Packed) -> None:
        self._body = body
        self._pos = 0

    def read(self, size: int) -> bytes:
        """The next bytes, none at the end."""
        found = self._body[self._pos : self._pos + size]
        self._pos += len(found)
        return found


def _check_end(name: str, body: Packed, *, whole: bool) -> None:
    if not whole:
        raise CompressionError(f"the {name} body of {len(body)} bytes is cut off")


def _ends_zstd_frame(body: Packed, zstandard: Any) -> bool:
    """Return True if a frame read to the end of the bytes has all its blocks (RFC 8878, 3.1.1)."""
    header_bytes = body[:ZSTD_HEADER]
    checksum = 4 if zstandard.get_frame_parameters(header_bytes).has_checksum else 0
    at = zstandard.frame_header_size(header_bytes)
    last = False
    while not last:
        if at + 3 > len(body):
            return False
        header = int.from_bytes(body[at : at + 3], "little")
        last = bool(header & 1)
        repeated = header >> 1 & 3 == 1
        at += 3 + (1 if repeated else header >> 3)
    return bool(at + checksum <= len(body))


def _fed(body: Packed) -> Iterator[bytes]:
    """Yield the packed bytes in pieces for a library."""
    for at in range(0, len(body), FEED):
        yield body[at : at + FEED]


def _library(module: str, name: str) -> Any:
    import importlib

    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise CompressionLibraryError(
            f"{name} bodies need an extra: pip install 'rmqcore[compress]'"
        ) from error


_UNPACK = {
    0: ("ZLIB", _unpack_zlib),  # old clients set no type
    sysflag.COMPRESSION_LZ4: ("LZ4", _unpack_lz4),
    sysflag.COMPRESSION_ZSTD: ("ZSTD", _unpack_zstd),
    sysflag.COMPRESSION_ZLIB: ("ZLIB", _unpack_zlib),
}
