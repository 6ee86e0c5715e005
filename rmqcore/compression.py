"""Decompression of stored bodies. Source: RocketMQ 5.5.0 CompressorFactory and its three compressors."""

from __future__ import annotations

import zlib
from typing import Any

from rmqcore import sysflag
from rmqcore.errors import CompressionError

DEFAULT_MAX_SIZE = 256 * 1024 * 1024
"""In bytes. Java's clients refuse to send more than 4 MiB; this limit only stops a decompression bomb."""


def decompress_body(body: bytes, sys_flag: int, max_size: int = DEFAULT_MAX_SIZE) -> bytes:
    """Decompress a body in the way that SYSFLAG names.

    Parameters
    ----------
    body : bytes
        The stored bytes.
    sys_flag : int
        The record's SYSFLAG; without the COMPRESSED bit `body` comes back as it is.
    max_size : int
        The most bytes that the plain body may have.

    Raises
    ------
    CompressionError
        Wrong or cut-off data, an unknown compression type, a plain body above `max_size`, or LZ4 or ZSTD without the
        ``compress`` extra.
    """
    if not sys_flag & sysflag.COMPRESSED:
        return body
    kind = sys_flag & sysflag.COMPRESSION_TYPE_MASK
    if kind not in _UNPACK:
        raise CompressionError(
            f"SYSFLAG {sys_flag:#x} names compression type {kind >> 8}, which does not exist"
        )
    name, unpack = _UNPACK[kind]
    try:
        plain, whole = unpack(body, max_size)
    except CompressionError:
        raise
    except Exception as error:  # each library has its own error types, some plain RuntimeError
        raise CompressionError(f"the body of {len(body)} bytes is not {name}: {error}") from error
    if len(plain) > max_size:
        raise CompressionError(f"the plain body is larger than {max_size} bytes")
    if not whole:
        raise CompressionError(f"the {name} body of {len(body)} bytes is cut off")
    return plain


def _unpack_zlib(body: bytes, max_size: int) -> tuple[bytes, bool]:
    stream = zlib.decompressobj()
    plain = stream.decompress(body, max_size + 1)
    return plain, stream.eof


def _unpack_lz4(body: bytes, max_size: int) -> tuple[bytes, bool]:
    frame = _library("lz4.frame", "LZ4")
    stream = frame.LZ4FrameDecompressor()
    plain: bytes = stream.decompress(body, max_size + 1)
    return plain, stream.eof


def _unpack_zstd(body: bytes, max_size: int) -> tuple[bytes, bool]:
    zstandard = _library("zstandard", "ZSTD")
    with zstandard.ZstdDecompressor().stream_reader(body) as bounded:
        plain: bytes = bounded.read(max_size + 1)
    if len(plain) > max_size:
        return plain, True
    # The bounded reader does not say whether the frame ended; this reader does, and the size has been checked above.
    stream = zstandard.ZstdDecompressor().decompressobj()
    stream.decompress(body)
    return plain, stream.eof


def _library(module: str, name: str) -> Any:
    import importlib

    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise CompressionError(
            f"{name} bodies need the extra: pip install 'rmqcore[compress]'"
        ) from error


_UNPACK = {
    0: ("ZLIB", _unpack_zlib),  # old clients set no type
    sysflag.COMPRESSION_LZ4: ("LZ4", _unpack_lz4),
    sysflag.COMPRESSION_ZSTD: ("ZSTD", _unpack_zstd),
    sysflag.COMPRESSION_ZLIB: ("ZLIB", _unpack_zlib),
}
